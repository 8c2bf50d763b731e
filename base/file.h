#pragma once

// Files: whole reads, atomic writes, private temporary folders, file descriptors with an owner.

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

/// Closes its descriptor. Move-only.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset();
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// The file's bytes. kNotFound, kPermissionDenied, or kResourceExhausted when larger than `limit_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t limit_bytes = int64_t{1} << 32);

/// Writes beside `path`, syncs, renames over it: readers see the old file or the new one, also after a kill or with a
/// full disk (kResourceExhausted).
absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes);

/// A file that grows by whole records: an append that fails (disk full: kResourceExhausted) leaves nothing of itself
/// behind, and a later one may succeed. One thread at a time.
class AppendFile {
 public:
  /// Creates the file where needed.
  static absl::StatusOr<AppendFile> Open(const std::string& path);
  /// Takes over an open file; what lies beyond `size_bytes` is overwritten.
  AppendFile(std::string path, UniqueFd fd, int64_t size_bytes)
      : path_(std::move(path)), fd_(std::move(fd)), size_bytes_(size_bytes) {}

  absl::Status Append(absl::string_view bytes);
  /// To disk.
  absl::Status Sync();
  int64_t size() const { return size_bytes_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd fd_;
  int64_t size_bytes_;
};

/// Makes creations and renames in `folder` last through a power cut.
absl::Status SyncFolder(const std::string& folder);
/// The folder part of `path`; "." when it has none.
std::string FolderOf(const std::string& path);

absl::Status MakeFolders(const std::string& path);
bool FileExists(const std::string& path);
absl::Status RemoveTree(const std::string& path);

/// A new folder below `parent` ($TMPDIR, or /tmp, when empty), removed with its contents at the end of its life. One whose
/// process was killed is removed by the next process that makes a folder of that prefix: an owner holds a lock on its
/// folder for as long as it lives.
class TempFolder {
 public:
  static absl::StatusOr<TempFolder> Create(absl::string_view prefix, absl::string_view parent = "");
  ~TempFolder();
  TempFolder(TempFolder&& other) noexcept : path_(std::exchange(other.path_, "")), lock_(std::move(other.lock_)) {}
  TempFolder& operator=(TempFolder&&) noexcept;
  const std::string& path() const { return path_; }

 private:
  TempFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  UniqueFd lock_;
};

/// The folder of the running program, for finding its neighbours (hone-verifier beside hone).
std::string ProgramFolder();

/// A file or folder that ships with the programs (scripts, headers, tasks), by its name below share/hone: found beside
/// the running program's folder, in the build tree and where installed alike. cmake: hone_resources.
std::string ResourcePath(absl::string_view name);

/// Status for errno: `what` says what was tried and on which path.
absl::Status ErrnoStatus(int error, absl::string_view what);

}  // namespace hone
