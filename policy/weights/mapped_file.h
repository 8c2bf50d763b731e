#pragma once

// A whole file mapped read-only, so that a model's weights are paged in as they are touched and shared between processes.

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace hone::policy {

/// The mapping ends with the object. A file that shrinks while it is mapped ends the process with SIGBUS, as with every
/// mapping: replace weight files by renaming a new one over them, never by writing into them.
class MappedFile {
 public:
  /// kNotFound, kPermissionDenied, or kInvalidArgument when `path` is not a regular file.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::Span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, void* data, size_t size) : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  void* data_;
  size_t size_;
};

}  // namespace hone::policy
