#pragma once

// Rules over a built artefact, before the system's libraries are linked to it.

#include <vector>

#include "base/verdict.h"
#include "verifier/build/elf_symbols.h"
#include "verifier/rules/rule.h"

namespace hone::verifier {

/// Rules of RuleStage::kObject.
std::vector<RuleHit> CheckObject(const ElfSummary& object, const RulePolicy& policy = {});

/// The same over an object that a GPU's compiler made: its own registration of kernels is an initialiser that needs the runtime, and
/// host code may use the C++ library.
std::vector<RuleHit> CheckGpuObject(const ElfSummary& object, const RulePolicy& policy = {});

}  // namespace hone::verifier
