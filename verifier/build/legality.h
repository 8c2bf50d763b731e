#pragma once

// Static rules for native candidates: what the text may not say and what the object may not ask for.
// Small and structural; a rule that speaks is evidence in the verdict.

#include <vector>

#include "absl/strings/string_view.h"
#include "base/verdict.h"
#include "verifier/build/cuda_source.h"
#include "verifier/build/elf_symbols.h"

namespace hone::verifier {

/// Where a backend's compiler takes inline assembly without harm to the host.
enum class Assembly { kNowhere, kInDeviceCode };

/// Rules over tokens:
///   inline_assembly   asm, __asm__, where the backend does not take it
///   library_header    includes a library that would do the compute (cuBLAS, cuDNN, CUTLASS, Thrust, ...)
///   reserved_name     identifiers of the harness: hone_... (but hone_workspace, hone_call is checked too), __hone...
///   attribute         constructor, destructor, section, ifunc, alias, weakref: code or data that is reached otherwise
std::vector<RuleHit> CheckSource(const CudaSource& source, Assembly assembly);

/// Rules over the object, before the system's libraries are linked:
///   foreign_symbol    asks for a symbol beyond the CUDA runtime API, mathematics and memory
///   initialiser       code that runs when the artefact is loaded
///   exported_symbol   defines a symbol besides the entry point that others could bind to
std::vector<RuleHit> CheckObject(const ElfSummary& object);

/// The same over an object that nvcc made: its own registration of kernels is an initialiser that needs the runtime, and
/// host code may use the C++ library.
std::vector<RuleHit> CheckNvccObject(const ElfSummary& object);

}  // namespace hone::verifier
