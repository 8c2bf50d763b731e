#pragma once

// Data that lies beside the checkout and is never committed: ../shared/data, or data/ of the folder in HONE_SHARED. The
// test's target defines HONE_SOURCE_FOLDER.

#include <cstdlib>
#include <string>

#include "base/file.h"

namespace hone {

/// The file's path; empty when it is not there: the caller skips.
inline std::string SharedData(const std::string& name) {
  const char* given = std::getenv("HONE_SHARED");
  for (const std::string& folder : {std::string(given != nullptr ? given : HONE_SOURCE_FOLDER "/../shared"),
                                    std::string(HONE_SOURCE_FOLDER "/../../shared")}) {
    if (FileExists(folder + "/data/" + name)) return folder + "/data/" + name;
  }
  return "";
}

}  // namespace hone
