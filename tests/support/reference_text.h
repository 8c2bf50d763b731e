#pragma once

// What tests read in the text of a task's module.

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace hone {

/// Lines of `forward` that make a tensor without saying where: it would be on the CPU, its inputs on a GPU.
inline std::vector<std::string> TensorsMadeNowhere(const std::string& reference) {
  std::vector<std::string> found;
  bool forward = false;
  const std::vector<std::string> lines = absl::StrSplit(reference, '\n');
  for (const std::string& line : lines) {
    if (absl::StrContains(line, "def ")) forward = absl::StrContains(line, "def forward(");
    if (!forward || absl::StrContains(line, "device=")) continue;
    for (const char* maker : {"arange", "ones", "zeros", "full", "eye", "tensor", "linspace", "empty"}) {
      if (absl::StrContains(line, std::string("torch.") + maker + "(")) found.push_back(line);
    }
  }
  return found;
}

}  // namespace hone
