#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace hone {
namespace {

constexpr size_t kReadBytes = 1 << 16;

absl::Status WriteAt(int fd, absl::string_view bytes, int64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "writing");
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

absl::Status WriteAndSync(const UniqueFd& fd, absl::string_view bytes) {
  HONE_RETURN_IF_ERROR(WriteAt(fd.get(), bytes, 0));
  return fsync(fd.get()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "syncing");
}

/// Gives a file that has no name yet the name `path`. A file that is there already can only be replaced by a rename, so the new
/// one is called `path`.hone-next for a moment. Whoever finds that name taken, by another writer or by one that was killed between
/// the two calls, finishes the rename: what lies there is whole. False: it cannot be done so.
bool NameFile(int fd, const std::string& path) {
  const std::string file = absl::StrCat("/proc/self/fd/", fd), next = absl::StrCat(path, ".hone-next");
  const auto link_as = [&](const std::string& name) {
    return linkat(AT_FDCWD, file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  const auto replace = [&] { return rename(next.c_str(), path.c_str()) == 0 || errno == ENOENT; };
  if (link_as(path)) return true;
  while (errno == EEXIST) {
    const bool own = link_as(next);
    if (!own && errno != EEXIST) return false;
    if (!replace()) {
      if (own) unlink(next.c_str());
      return false;
    }
    if (own) return true;
    errno = EEXIST;
  }
  return false;
}

/// Without a name until it is whole: a kill leaves nothing behind. False: the file system knows no such files (NFS), or has no
/// room; nothing has changed then.
bool WriteNameless(const std::string& path, absl::string_view bytes) {
  const UniqueFd fd(open(FolderOf(path).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
  return fd && WriteAndSync(fd, bytes).ok() && NameFile(fd.get(), path);
}

/// Under another name beside `path` until it is whole. A kill leaves that file behind.
absl::Status WriteBeside(const std::string& path, absl::string_view bytes) {
  static std::atomic<uint64_t> counter{0};
  const std::string temporary = absl::StrCat(path, ".", getpid(), "-", counter.fetch_add(1), ".tmp");
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return ErrnoStatus(errno, absl::StrCat("writing ", path));
  absl::Status status = WriteAndSync(fd, bytes);
  if (status.ok() && close(fd.Release()) != 0) status = ErrnoStatus(errno, "closing");
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = ErrnoStatus(errno, "renaming");
  if (status.ok()) return status;
  unlink(temporary.c_str());
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

/// Locks a folder for its owner; empty when another process holds it or it is gone.
UniqueFd LockFolder(const std::string& path) {
  UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder || flock(folder.get(), LOCK_EX | LOCK_NB) != 0) return UniqueFd();
  struct stat locked = {}, named = {};
  const bool same = fstat(folder.get(), &locked) == 0 && lstat(path.c_str(), &named) == 0 &&
                    locked.st_ino == named.st_ino && locked.st_dev == named.st_dev;
  return same ? std::move(folder) : UniqueFd();
}

/// Removes the folders of this prefix whose owners are gone.
void RemoveAbandoned(const std::string& parent, const std::string& prefix) {
  constexpr size_t kSuffix = 6;  // of mkdtemp
  std::error_code error;
  for (std::filesystem::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.size() != prefix.size() + kSuffix || name.compare(0, prefix.size(), prefix) != 0) continue;
    const UniqueFd lock = LockFolder(entry->path().string());
    if (lock) RemoveTree(entry->path().string()).IgnoreError();
  }
}

}  // namespace

void UniqueFd::Reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::Status ErrnoStatus(int error, absl::string_view what) {
  const std::string message = absl::StrCat(what, ": ", std::generic_category().message(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    default:
      return absl::Status(absl::ErrnoToStatusCode(error), message);
  }
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t limit_bytes) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, absl::StrCat("opening ", path));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("reading ", path));
  if (S_ISDIR(info.st_mode)) return ErrnoStatus(EISDIR, absl::StrCat("reading ", path));
  std::string bytes;
  if (info.st_size > 0 && info.st_size <= limit_bytes) bytes.reserve(static_cast<size_t>(info.st_size));
  std::array<char, kReadBytes> buffer;
  while (true) {
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, absl::StrCat("reading ", path));
    if (got == 0) return bytes;
    if (static_cast<int64_t>(bytes.size()) + got > limit_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(path, " is larger than ", limit_bytes, " bytes"));
    }
    bytes.append(buffer.data(), static_cast<size_t>(got));
  }
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes) {
  if (!WriteNameless(path, bytes)) HONE_RETURN_IF_ERROR(WriteBeside(path, bytes));
  return SyncFolder(FolderOf(path));
}

absl::StatusOr<AppendFile> AppendFile::Open(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (!fd) return ErrnoStatus(errno, absl::StrCat("opening ", path));
  const off_t size = lseek(fd.get(), 0, SEEK_END);
  if (size < 0) return ErrnoStatus(errno, absl::StrCat("opening ", path));
  return AppendFile(path, std::move(fd), size);
}

absl::Status AppendFile::Append(absl::string_view bytes) {
  if (absl::Status status = WriteAt(fd_.get(), bytes, size_bytes_); !status.ok()) {
    // Should the cut fail too, the next append writes over what is left.
    const bool cut = ftruncate(fd_.get(), size_bytes_) == 0;
    return absl::Status(status.code(),
                        absl::StrCat(path_, ": ", status.message(), cut ? "" : ", and cannot be cut back"));
  }
  size_bytes_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::Status AppendFile::Sync() {
  if (fdatasync(fd_.get()) != 0) return ErrnoStatus(errno, absl::StrCat("syncing ", path_));
  return absl::OkStatus();
}

absl::Status SyncFolder(const std::string& folder) {
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, absl::StrCat("opening folder ", folder));
  // Some file systems cannot sync a folder; the rename itself has happened.
  if (fsync(fd.get()) != 0 && errno != EINVAL) return ErrnoStatus(errno, absl::StrCat("syncing folder ", folder));
  return absl::OkStatus();
}

std::string FolderOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && std::filesystem::is_directory(path, error)) return absl::OkStatus();
  return ErrnoStatus(error ? error.value() : ENOTDIR, absl::StrCat("making folder ", path));
}

bool FileExists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("removing ", path));
  return absl::OkStatus();
}

absl::StatusOr<TempFolder> TempFolder::Create(absl::string_view prefix, absl::string_view parent) {
  const char* tmpdir = std::getenv("TMPDIR");
  if (parent.empty()) parent = tmpdir != nullptr && *tmpdir != 0 ? tmpdir : "/tmp";
  RemoveAbandoned(std::string(parent), std::string(prefix));
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string path = absl::StrCat(parent, "/", prefix, "XXXXXX");
    if (mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, absl::StrCat("making folder ", path));
    UniqueFd lock = LockFolder(path);
    if (lock) return TempFolder(std::move(path), std::move(lock));
    // Another process came between the two lines, took it for abandoned and removes it.
  }
  return absl::UnavailableError(absl::StrCat("folders below ", parent, " cannot be locked"));
}

TempFolder::~TempFolder() {
  if (!path_.empty()) RemoveTree(path_).IgnoreError();
}

TempFolder& TempFolder::operator=(TempFolder&& other) noexcept {
  if (this != &other) {
    TempFolder old(std::exchange(path_, std::exchange(other.path_, "")), std::exchange(lock_, std::move(other.lock_)));
  }
  return *this;
}

std::string ProgramFolder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "." : program.parent_path().string();
}

std::string ResourcePath(absl::string_view name) {
  const std::filesystem::path prefix = std::filesystem::path(ProgramFolder()).parent_path();
  return (prefix / "share" / "hone" / StdView(name)).string();
}

}  // namespace hone
