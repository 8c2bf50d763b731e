#pragma once

// Rules over the text of native candidates, before and after the compiler. They read tokens, not meanings: what hides from
// them (pasted tokens, computed names) shows in the assembly and in the object.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/verdict.h"
#include "verifier/build/cuda_source.h"
#include "verifier/rules/rule.h"

namespace hone::verifier {

/// Where a backend's compiler takes inline assembly without harm to the host: macros may be used in device code, and what they
/// are elsewhere shows in the host's assembly (CheckNvccAssembly).
enum class Assembly { kNowhere, kInDeviceCode };

/// Rules of RuleStage::kSource. CUDA C++ or its output of a preprocessor.
std::vector<RuleHit> CheckSource(const CudaSource& source, Assembly assembly, const RulePolicy& policy = {});

/// Rules of RuleStage::kAssembly, over what g++ or clang wrote for the GNU assembler. `own_folder` begins the path of
/// headers whose inline assembly is ours.
std::vector<RuleHit> CheckAssembly(absl::string_view assembly, absl::string_view own_folder, const RulePolicy& policy = {});

/// The same over what g++ wrote for the host's half of an nvcc compilation: the device's code lies in it as data, and
/// registering it, like tables that C++ fills, runs at load. Inline assembly of device functions is not in it: what is left is
/// the candidate's on the host, but for that of headers below `header_folders`.
std::vector<RuleHit> CheckNvccAssembly(absl::string_view assembly, const std::vector<std::string>& header_folders,
                                       const RulePolicy& policy = {});

}  // namespace hone::verifier
