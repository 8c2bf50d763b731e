#pragma once

// What a compiler said, cut to what a person or a model can use: the first errors, each message once, paths gone, and the
// candidate's own line beside each.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone::verifier {

struct CompilerError {
  std::string file;  // "candidate.cu", or a header's name
  int line = 0;      // 0: of no line
  std::string message;
  friend bool operator==(const CompilerError&, const CompilerError&) = default;
};

/// Errors of g++, clang, nvcc and ld, in order, without repetitions of the same message. Warnings and notes are dropped.
std::vector<CompilerError> ParseCompilerErrors(absl::string_view output);

/// "candidate.cu:12: error: 'foo' was not declared in this scope" and the source's line below, at most `limit` errors.
std::string FormatCompilerErrors(const std::vector<CompilerError>& errors, absl::string_view source, size_t limit = 6);

}  // namespace hone::verifier
