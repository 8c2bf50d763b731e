#pragma once

// Fuzzer input as a file without a disk.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace hone::fuzz {

/// A file in memory that holds the input, under a path that any process of ours can open.
class InputFile {
 public:
  InputFile(const uint8_t* data, size_t size) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    while (size > 0) {
      const ssize_t written = write(fd_, data, size);
      if (written <= 0) break;
      data += written;
      size -= static_cast<size_t>(written);
    }
  }
  ~InputFile() { close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace hone::fuzz
