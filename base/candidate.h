#pragma once

// A candidate: the source a policy (or a person) wrote for a task.

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace hone {

enum class Format {
  kNative,  // one CUDA C++ or MUSA source with `launch`
  kTorch,   // a module with ModelNew, load_inline or plain torch
  kTriton,  // a module with ModelNew and Triton kernels
};

enum class Backend { kCpu, kCuda, kMusa };

struct Candidate {
  Format format = Format::kNative;
  Backend backend = Backend::kCpu;
  std::string source;
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

absl::string_view Name(Format format);
absl::string_view Name(Backend backend);
std::optional<Format> ParseFormat(absl::string_view name);
std::optional<Backend> ParseBackend(absl::string_view name);

}  // namespace hone
