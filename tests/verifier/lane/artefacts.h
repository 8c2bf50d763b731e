#pragma once

// Artefacts for lane tests: real candidates through the build stage, and hostile ones past it, compiled by the system's
// compiler against the runner's C ABI, as if every static rule had failed.

#include <memory>
#include <string>

#include "base/file.h"
#include "base/signature.h"
#include "verifier/build/cpu_builder.h"
#include "verifier/cache/artefact_store.h"

namespace hone::verifier::test {

class Artefacts {
 public:
  Artefacts();
  /// A candidate's source: CUDA with `launch`.
  BuildResult Build(const std::string& source, const Signature& signature);
  /// `body` is that of `int hone_call(const HoneCall* call)`; before it, `globals` with the C library's headers included.
  BuildResult Hostile(const std::string& body, const std::string& globals = "");

 private:
  TempFolder folder_;
  std::unique_ptr<ArtefactStore> store_;
  std::unique_ptr<Builder> builder_;
  int count_ = 0;
};

}  // namespace hone::verifier::test
