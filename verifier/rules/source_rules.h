#pragma once

// Rules over the text of native candidates, before and after the compiler. They read tokens, not meanings: what hides from
// them (pasted tokens, computed names) shows in the assembly and in the object.

#include <vector>

#include "absl/strings/string_view.h"
#include "base/verdict.h"
#include "verifier/build/cuda_source.h"
#include "verifier/rules/rule.h"

namespace hone::verifier {

/// Where a backend's compiler takes inline assembly without harm to the host.
enum class Assembly { kNowhere, kInDeviceCode };

/// Rules of RuleStage::kSource. CUDA C++ or its output of a preprocessor.
std::vector<RuleHit> CheckSource(const CudaSource& source, Assembly assembly, const RulePolicy& policy = {});

/// Rules of RuleStage::kAssembly, over what g++ or clang wrote for the GNU assembler. `own_folder` begins the path of
/// headers whose inline assembly is ours.
std::vector<RuleHit> CheckAssembly(absl::string_view assembly, absl::string_view own_folder, const RulePolicy& policy = {});

}  // namespace hone::verifier
