#include "policy/weights/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace hone::policy {

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  struct stat facts {};
  if (fstat(fd.get(), &facts) != 0) return ErrnoStatus(errno, absl::StrCat("cannot stat ", path));
  if (!S_ISREG(facts.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  const size_t size = static_cast<size_t>(facts.st_size);
  if (size == 0) return std::unique_ptr<MappedFile>(new MappedFile(path, nullptr, 0));
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, absl::StrCat("cannot map ", path));
  return std::unique_ptr<MappedFile>(new MappedFile(path, data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace hone::policy
