#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/subprocess.h"
#include "support/small_disk.h"

namespace hone {
namespace {

TempFolder Folder() { return TempFolder::Create("file_test").value(); }

int64_t EntriesIn(const std::string& folder) {
  SpawnOptions list;
  list.argv = {"sh", "-c", "ls -A '" + folder + "' | wc -l"};
  return std::stoll(Run(list, absl::Seconds(10))->output);
}

/// Whether files without a name can be made in `folder`, as on all but network file systems.
bool HasNamelessFiles(const std::string& folder) {
  return static_cast<bool>(UniqueFd(open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600)));
}

TEST_CASE("A file is read whole, bytes of any value included", "[base][file]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/f";
  std::string bytes;
  for (int i = 0; i < 300'000; ++i) bytes += static_cast<char>(i * 7);
  REQUIRE(WriteFileAtomically(path, bytes).ok());
  CHECK(ReadFile(path).value() == bytes);
  REQUIRE(WriteFileAtomically(path, "").ok());
  CHECK(ReadFile(path).value().empty());
}

TEST_CASE("Reading says what is wrong and with which file", "[base][file]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/f";
  CHECK(ReadFile(path).status().code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(ReadFile(path).status().message(), path));
  CHECK_FALSE(ReadFile(folder.path()).ok());
  REQUIRE(WriteFileAtomically(path, "12345").ok());
  CHECK(ReadFile(path, 5).ok());
  CHECK(ReadFile(path, 4).status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(ReadFile("/dev/zero", 1 << 20).status().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("A written file gets the permissions that the process gives to new files", "[base][file]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/f";
  const mode_t old = umask(027);
  REQUIRE(WriteFileAtomically(path, "x").ok());
  umask(old);
  struct stat info;
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0640);
}

TEST_CASE("A write that finds the disk full leaves the old file and nothing else", "[base][file]") {
  const auto disk = testing::SmallDisk::Mount(64 << 10);
  if (disk == nullptr) SKIP("mounting a tmpfs needs root");
  const std::string path = disk->path() + "/f";
  REQUIRE(WriteFileAtomically(path, "old").ok());
  const absl::Status status = WriteFileAtomically(path, std::string(1 << 20, 'x'));
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(absl::StrContains(status.message(), path));
  CHECK(ReadFile(path).value() == "old");
  CHECK(EntriesIn(disk->path()) == 1);
}

TEST_CASE("An append that finds the disk full leaves nothing, and a later one succeeds", "[base][file]") {
  const auto disk = testing::SmallDisk::Mount(64 << 10);
  if (disk == nullptr) SKIP("mounting a tmpfs needs root");
  AppendFile log = AppendFile::Open(disk->path() + "/log").value();
  REQUIRE(log.Append("first\n").ok());
  CHECK(log.Append(std::string(1 << 20, 'x')).code() == absl::StatusCode::kResourceExhausted);
  CHECK(ReadFile(log.path()).value() == "first\n");
  CHECK(log.Append("second\n").ok());
  CHECK(ReadFile(log.path()).value() == "first\nsecond\n");
}

TEST_CASE("A write into a folder that does not exist is an error", "[base][file]") {
  const TempFolder folder = Folder();
  CHECK(WriteFileAtomically(folder.path() + "/none/f", "x").code() == absl::StatusCode::kNotFound);
}

TEST_CASE("A writer killed at any moment leaves one whole version of the file", "[base][file]") {
  const TempFolder folder = Folder();
  if (!HasNamelessFiles(folder.path())) SKIP("the file system knows no files without a name");
  const std::string path = folder.path() + "/f";
  REQUIRE(WriteFileAtomically(path, std::string(1 << 18, 'a')).ok());
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (char letter = 'b';; letter = static_cast<char>(letter == 'z' ? 'a' : letter + 1)) {
        if (!WriteFileAtomically(path, std::string(1 << 18, letter)).ok()) _exit(1);
      }
    }
    usleep(random() % 10'000);
    kill(child, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    const std::string bytes = ReadFile(path).value();
    REQUIRE(bytes.size() == 1 << 18);
    REQUIRE(bytes == std::string(bytes.size(), bytes[0]));
    REQUIRE(EntriesIn(folder.path()) <= 2);  // a whole file whose rename was cut off, at most
  }
  REQUIRE(WriteFileAtomically(path, "the last").ok());
  CHECK(ReadFile(path).value() == "the last");
  CHECK(EntriesIn(folder.path()) == 1);
}

TEST_CASE("A writer killed while it writes a new file leaves nothing", "[base][file]") {
  const TempFolder folder = Folder();
  if (!HasNamelessFiles(folder.path())) SKIP("the file system knows no files without a name");
  const std::string path = folder.path() + "/f";
  const std::string bytes(8 << 20, 'x');
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(WriteFileAtomically(path, bytes).ok() ? 0 : 1);
    usleep(200 * round);
    kill(child, SIGKILL);
    REQUIRE(waitpid(child, nullptr, 0) == child);
    const int64_t entries = EntriesIn(folder.path());
    REQUIRE(entries == (FileExists(path) ? 1 : 0));
    if (entries == 1) REQUIRE(ReadFile(path)->size() == bytes.size());
    unlink(path.c_str());
  }
}

TEST_CASE("A writer finishes what another was killed before replacing the file", "[base][file]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/f";
  REQUIRE(WriteFileAtomically(path, "old").ok());
  REQUIRE(WriteFileAtomically(path + ".hone-next", "of the killed one").ok());
  REQUIRE(WriteFileAtomically(path, "new").ok());
  CHECK(ReadFile(path).value() == "new");
  CHECK(EntriesIn(folder.path()) == 1);
}

TEST_CASE("Many writers of one file at once leave one whole version and nothing else", "[base][file]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/f";
  std::vector<pid_t> children;
  for (char letter = 'a'; letter < 'e'; ++letter) {
    children.push_back(fork());
    REQUIRE(children.back() >= 0);
    if (children.back() > 0) continue;
    for (int i = 0; i < 200; ++i) {
      if (!WriteFileAtomically(path, std::string(10'000, letter)).ok()) _exit(1);
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 0);
  }
  const std::string bytes = ReadFile(path).value();
  CHECK(bytes == std::string(10'000, bytes[0]));
  CHECK(EntriesIn(folder.path()) == 1);
}

TEST_CASE("A folder in a file's place is an error and stays as it is", "[base][file]") {
  const TempFolder folder = Folder();
  REQUIRE(MakeFolders(folder.path() + "/f").ok());
  const absl::Status status = WriteFileAtomically(folder.path() + "/f", "x");
  CHECK(absl::StrContains(status.message(), folder.path() + "/f"));
  CHECK(EntriesIn(folder.path()) == 1);
  CHECK(EntriesIn(folder.path() + "/f") == 0);
}

TEST_CASE("An append file goes on where it ended", "[base][file]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/log";
  REQUIRE(AppendFile::Open(path)->Append("a\n").ok());
  AppendFile again = AppendFile::Open(path).value();
  CHECK(again.size() == 2);
  REQUIRE(again.Append("b\n").ok());
  REQUIRE(again.Sync().ok());
  CHECK(ReadFile(path).value() == "a\nb\n");
}

TEST_CASE("Folders are made with their parents, and a file in the way is an error", "[base][file]") {
  const TempFolder folder = Folder();
  CHECK(MakeFolders(folder.path() + "/a/b/c").ok());
  CHECK(MakeFolders(folder.path() + "/a/b/c").ok());
  REQUIRE(WriteFileAtomically(folder.path() + "/f", "").ok());
  CHECK_FALSE(MakeFolders(folder.path() + "/f").ok());
  CHECK_FALSE(MakeFolders(folder.path() + "/f/g").ok());
}

TEST_CASE("A temporary folder is removed with its contents, once, by its last owner", "[base][file]") {
  std::string path;
  {
    TempFolder first = Folder();
    path = first.path();
    REQUIRE(MakeFolders(path + "/a/b").ok());
    TempFolder second = std::move(first);
    CHECK(FileExists(path));
    TempFolder third = Folder();
    const std::string third_path = third.path();
    third = std::move(second);
    CHECK_FALSE(FileExists(third_path));
    CHECK(FileExists(path));
  }
  CHECK_FALSE(FileExists(path));
}

TEST_CASE("A temporary folder whose process was killed is removed by the next one of its prefix, a living one's never",
          "[base][file]") {
  const TempFolder parent = Folder();
  int pipe_fds[2];
  REQUIRE(pipe(pipe_fds) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto abandoned = TempFolder::Create("killed", parent.path());
    const std::string path = abandoned.value().path();
    if (!WriteFileAtomically(path + "/left", "x").ok()) _exit(1);
    (void)!write(pipe_fds[1], path.c_str(), path.size());
    while (true) pause();
  }
  char path[4096] = {};
  REQUIRE(read(pipe_fds[0], path, sizeof path - 1) > 0);

  { const auto beside = TempFolder::Create("killed", parent.path()); }
  CHECK(FileExists(absl::StrCat(path, "/left")));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  { const auto other = TempFolder::Create("other", parent.path()); }
  CHECK(FileExists(path));
  { const auto next = TempFolder::Create("killed", parent.path()); }
  CHECK_FALSE(FileExists(path));
}

TEST_CASE("A descriptor is closed by its last owner", "[base][file]") {
  const int raw = open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    UniqueFd first(raw);
    UniqueFd second = std::move(first);
    CHECK_FALSE(first);
    CHECK(fcntl(raw, F_GETFD) >= 0);
  }
  CHECK(fcntl(raw, F_GETFD) < 0);
}

TEST_CASE("An errno becomes a status with the cause in words", "[base][file]") {
  CHECK(ErrnoStatus(ENOSPC, "writing x").code() == absl::StatusCode::kResourceExhausted);
  CHECK(ErrnoStatus(ENOENT, "opening x") == absl::NotFoundError("opening x: No such file or directory"));
  CHECK(ErrnoStatus(EACCES, "opening x").code() == absl::StatusCode::kPermissionDenied);
}

TEST_CASE("The folder of a path without one is the current folder", "[base][file]") {
  CHECK(FolderOf("a/b") == "a");
  CHECK(FolderOf("b") == ".");
  CHECK(FolderOf("/b") == "/");
}

}  // namespace
}  // namespace hone
