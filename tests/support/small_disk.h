#pragma once

// A file system that fills up at once, for tests of full disks.

#include <sys/mount.h>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace hone::testing {

/// Unmounted at the end of its life; files on it must be closed by then.
class SmallDisk {
 public:
  /// Null where mounting is not allowed (it needs root): the test then skips.
  static std::unique_ptr<SmallDisk> Mount(int64_t bytes) {
    TempFolder folder = TempFolder::Create("small_disk").value();
    const std::string disk = folder.path() + "/disk";  // below the folder: its owner's lock is on what a mount would hide
    if (!MakeFolders(disk).ok()) return nullptr;
    if (mount("tmpfs", disk.c_str(), "tmpfs", 0, absl::StrCat("size=", bytes).c_str()) != 0) return nullptr;
    return std::unique_ptr<SmallDisk>(new SmallDisk(std::move(folder)));
  }
  ~SmallDisk() { umount2(path_.c_str(), MNT_DETACH); }
  const std::string& path() const { return path_; }

 private:
  explicit SmallDisk(TempFolder folder) : folder_(std::move(folder)), path_(folder_.path() + "/disk") {}
  TempFolder folder_;
  std::string path_;
};

}  // namespace hone::testing
