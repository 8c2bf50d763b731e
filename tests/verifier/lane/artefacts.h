#pragma once

// Artefacts for lane tests without the build stage: C++ against the runner's C ABI, compiled by the system's compiler.

#include <string>

#include "base/file.h"
#include "verifier/build/builder.h"

namespace hone::verifier {

class Artefacts {
 public:
  Artefacts();
  /// `body` is that of `int hone_call(const HoneCall* call)`; before it, `globals`. `floats(i)` is tensor i's data.
  BuildResult Compile(const std::string& body, const std::string& globals = "");

 private:
  TempFolder folder_;
  int count_ = 0;
};

}  // namespace hone::verifier
