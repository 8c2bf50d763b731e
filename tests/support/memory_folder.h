#pragma once

#include "base/file.h"

namespace hone {

/// A temporary folder in memory where the system offers that: a disk's syncs would be most of a test's time.
inline TempFolder MemoryFolder(absl::string_view prefix) {
  return TempFolder::Create(prefix, FileExists("/dev/shm") ? "/dev/shm" : "").value();
}

}  // namespace hone
