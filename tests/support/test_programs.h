#pragma once

// The programs of the build that a test belongs to, and the Python that they were built for.

#include <cstdlib>
#include <string>

#include "base/file.h"

namespace hone {

/// Empty when there is none: the caller skips.
inline std::string TestProgram(const std::string& name) {
  const char* folder = std::getenv("HONE_TEST_BIN");
  const std::string path = std::string(folder == nullptr ? "" : folder) + "/" + name;
  return folder != nullptr && FileExists(path) ? path : "";
}

inline std::string TestPython() {
  const char* python = std::getenv("HONE_PYTHON");
  return python != nullptr && FileExists(python) ? python : "";
}

}  // namespace hone
