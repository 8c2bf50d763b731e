#include "verifier/cache/artefact_store.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <map>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/steady_time.h"

namespace hone::verifier {
namespace {

constexpr char kRecord[] = "record";
constexpr absl::Duration kStaleAfter = absl::Hours(1);  // an unfinished entry of a process that died

struct Entry {
  int64_t bytes = 0;
  SteadyTime used;
};

std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> names;
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) return names;
  while (const dirent* item = readdir(directory)) {
    if (item->d_name[0] != '.') names.emplace_back(item->d_name);
  }
  closedir(directory);
  return names;
}

// The record file: its first line is "<crc of the rest> <file>:<crc> ...", the rest is the builder's record.
std::string Seal(const ArtefactContents& contents) {
  std::string line;
  for (const auto& [name, bytes] : contents.files) absl::StrAppend(&line, " ", name, ":", Crc32c(bytes));
  return absl::StrCat(Crc32c(absl::StrCat(line, "\n", contents.record)), line, "\n", contents.record);
}

// An entry as one string: length-prefixed record, then name and bytes of each file.
void AppendPart(absl::string_view part, std::string* to) {
  absl::StrAppend(to, part.size(), ":");
  to->append(part.data(), part.size());
}

std::string Pack(const ArtefactContents& contents) {
  std::string packed;
  AppendPart(contents.record, &packed);
  for (const auto& [name, bytes] : contents.files) {
    AppendPart(name, &packed);
    AppendPart(bytes, &packed);
  }
  return packed;
}

std::optional<ArtefactContents> Unpack(absl::string_view packed) {
  std::vector<std::string> parts;
  while (!packed.empty()) {
    const size_t colon = packed.find(':');
    size_t size = 0;
    if (colon == absl::string_view::npos || !absl::SimpleAtoi(packed.substr(0, colon), &size)) return std::nullopt;
    packed.remove_prefix(colon + 1);
    if (size > packed.size()) return std::nullopt;
    parts.emplace_back(packed.substr(0, size));
    packed.remove_prefix(size);
  }
  if (parts.size() % 2 != 1) return std::nullopt;
  ArtefactContents contents;
  contents.record = std::move(parts[0]);
  for (size_t i = 1; i < parts.size(); i += 2) {
    if (parts[i].find('/') != std::string::npos) return std::nullopt;
    contents.files.emplace_back(std::move(parts[i]), std::move(parts[i + 1]));
  }
  return contents;
}

bool IsKey(absl::string_view text) {
  return text.size() >= 16 && text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

}  // namespace

struct ArtefactStore::State {
  ArtefactStoreOptions options;
  std::string root;
  std::atomic<uint64_t> next_temporary{0};

  mutable absl::Mutex mutex;
  std::map<std::string, Entry> entries ABSL_GUARDED_BY(mutex);
  int64_t bytes ABSL_GUARDED_BY(mutex) = 0;
  // Keys being made, and what came of them for those who wait.
  struct Flight {
    absl::StatusOr<Artefact> result = absl::UnknownError("");
    bool done = false;
  };
  std::map<std::string, std::shared_ptr<Flight>> flights ABSL_GUARDED_BY(mutex);

  std::string Path(const std::string& key) const { return absl::StrCat(root, "/", key.substr(0, 2), "/", key); }

  void Scan();
  std::optional<Artefact> Read(const std::string& key);
  absl::StatusOr<Artefact> Make(const std::string& key, const std::function<absl::StatusOr<ArtefactContents>()>& make);
  absl::StatusOr<std::string> Publish(const std::string& key, const ArtefactContents& contents);
  /// From this folder, else from the farm.
  std::optional<Artefact> Find(const std::string& key);
  absl::StatusOr<Artefact> Keep(const std::string& key, const ArtefactContents& contents);
  void Touch(const std::string& key, int64_t bytes_if_new);
  void Forget(const std::string& key);
  void Evict(int64_t limit_bytes);
};

// Reads sizes and times of use of what an earlier process left, and removes what it left unfinished.
void ArtefactStore::State::Scan() {
  const absl::Time now = absl::Now();
  const SteadyTime steady_now = SteadyTime::Now();
  absl::MutexLock lock(&mutex);
  for (const std::string& prefix : Names(root)) {
    for (const std::string& name : Names(absl::StrCat(root, "/", prefix))) {
      const std::string folder = absl::StrCat(root, "/", prefix, "/", name);
      struct stat info;
      if (prefix == "tmp") {
        if (stat(folder.c_str(), &info) == 0 && absl::FromTimeT(info.st_mtime) < now - kStaleAfter) {
          RemoveTree(folder).IgnoreError();
        }
        continue;
      }
      Entry entry;
      for (const std::string& file : Names(folder)) {
        if (stat(absl::StrCat(folder, "/", file).c_str(), &info) != 0) continue;
        entry.bytes += info.st_size;
        if (file == kRecord) entry.used = steady_now - (now - absl::TimeFromTimespec(info.st_mtim));
      }
      bytes += entry.bytes;
      entries[name] = entry;
    }
  }
}

// A complete entry, or nothing; a damaged one is removed.
std::optional<Artefact> ArtefactStore::State::Read(const std::string& key) {
  const std::string folder = Path(key);
  auto sealed = ReadFile(absl::StrCat(folder, "/", kRecord));
  if (!sealed.ok()) return std::nullopt;
  const size_t space = sealed->find_first_of(" \n");
  const size_t end = sealed->find('\n');
  uint32_t crc = 0;
  bool whole = space != std::string::npos && end != std::string::npos && absl::SimpleAtoi(sealed->substr(0, space), &crc) &&
               Crc32c(sealed->substr(space)) == crc;
  if (whole) {
    for (absl::string_view item : absl::StrSplit(sealed->substr(space, end - space), ' ', absl::SkipEmpty())) {
      const std::vector<std::string> parts = absl::StrSplit(item, ':');
      uint32_t want = 0;
      const auto bytes = ReadFile(absl::StrCat(folder, "/", parts[0]));
      whole = whole && parts.size() == 2 && absl::SimpleAtoi(parts[1], &want) && bytes.ok() && Crc32c(*bytes) == want;
    }
  }
  if (!whole) {
    RemoveTree(folder).IgnoreError();
    Forget(key);
    return std::nullopt;
  }
  utimensat(AT_FDCWD, absl::StrCat(folder, "/", kRecord).c_str(), nullptr, 0);  // used now
  return Artefact{sealed->substr(end + 1), folder, true};
}

absl::StatusOr<std::string> ArtefactStore::State::Publish(const std::string& key, const ArtefactContents& contents) {
  const std::string final_path = Path(key);
  const std::string temporary = absl::StrCat(root, "/tmp/", getpid(), "-", next_temporary++, "-", key.substr(0, 16));
  HONE_RETURN_IF_ERROR(MakeFolders(temporary));
  HONE_RETURN_IF_ERROR(MakeFolders(final_path.substr(0, final_path.rfind('/'))));
  const auto write = [&temporary](const std::string& name, absl::string_view bytes) -> absl::Status {
    const std::string path = absl::StrCat(temporary, "/", name);
    const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd) return ErrnoStatus(errno, absl::StrCat("creating ", path));
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return ErrnoStatus(errno, absl::StrCat("writing ", path));
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  };
  absl::Status status = write(kRecord, Seal(contents));
  for (const auto& [name, bytes] : contents.files) {
    if (status.ok()) status = write(name, bytes);
  }
  if (status.ok() && rename(temporary.c_str(), final_path.c_str()) != 0) {
    // Somebody else published the same content first.
    if (errno != ENOTEMPTY && errno != EEXIST) status = ErrnoStatus(errno, absl::StrCat("publishing ", final_path));
  }
  if (FileExists(temporary)) RemoveTree(temporary).IgnoreError();
  if (!status.ok()) return status;
  return final_path;
}

void ArtefactStore::State::Touch(const std::string& key, int64_t bytes_if_new) {
  absl::MutexLock lock(&mutex);
  const auto [entry, added] = entries.try_emplace(key);
  if (added) {
    entry->second.bytes = bytes_if_new;
    bytes += bytes_if_new;
  }
  entry->second.used = SteadyTime::Now();
}

void ArtefactStore::State::Forget(const std::string& key) {
  absl::MutexLock lock(&mutex);
  const auto entry = entries.find(key);
  if (entry == entries.end()) return;
  bytes -= entry->second.bytes;
  entries.erase(entry);
}

void ArtefactStore::State::Evict(int64_t limit_bytes) {
  std::vector<std::string> victims;
  {
    absl::MutexLock lock(&mutex);
    if (bytes <= limit_bytes) return;
    std::vector<std::pair<SteadyTime, std::string>> by_age;
    for (const auto& [key, entry] : entries) by_age.emplace_back(entry.used, key);
    std::sort(by_age.begin(), by_age.end());
    const SteadyTime newest = SteadyTime::Now() - options.grace;
    const int64_t goal = limit_bytes - limit_bytes / 10;  // some room, so that this is rare
    for (const auto& [used, key] : by_age) {
      if (bytes <= goal || used > newest) break;
      victims.push_back(key);
      bytes -= entries[key].bytes;
      entries.erase(key);
    }
  }
  for (const std::string& key : victims) {
    // Out of its place at once: nobody may find half an entry.
    const std::string away = absl::StrCat(root, "/tmp/", getpid(), "-", next_temporary++, "-out");
    if (rename(Path(key).c_str(), away.c_str()) == 0) RemoveTree(away).IgnoreError();
  }
}

std::optional<Artefact> ArtefactStore::State::Find(const std::string& key) {
  if (std::optional<Artefact> here = Read(key)) {
    Touch(key, 0);
    return here;
  }
  if (options.shared == nullptr) return std::nullopt;
  const auto packed = options.shared->Get(key);
  if (!packed.ok() || !packed->has_value()) return std::nullopt;  // it can be made again
  const std::optional<ArtefactContents> contents = Unpack(**packed);
  if (!contents) return std::nullopt;
  absl::StatusOr<Artefact> kept = Keep(key, *contents);
  if (!kept.ok()) return std::nullopt;
  kept->found = true;
  return *std::move(kept);
}

absl::StatusOr<Artefact> ArtefactStore::State::Keep(const std::string& key, const ArtefactContents& contents) {
  absl::StatusOr<std::string> folder = Publish(key, contents);
  if (absl::IsResourceExhausted(folder.status())) {
    Evict(0);
    folder = Publish(key, contents);
  }
  if (!folder.ok() && contents.files.empty()) return Artefact{contents.record, "", false};
  if (!folder.ok()) return folder.status();
  int64_t size = static_cast<int64_t>(contents.record.size());
  for (const auto& [name, bytes] : contents.files) size += static_cast<int64_t>(bytes.size());
  Touch(key, size);
  Evict(options.limit_bytes);
  return Artefact{contents.record, *std::move(folder), false};
}

absl::StatusOr<Artefact> ArtefactStore::State::Make(const std::string& key,
                                                    const std::function<absl::StatusOr<ArtefactContents>()>& make) {
  if (std::optional<Artefact> artefact = Find(key)) return *std::move(artefact);
  HONE_ASSIGN_OR_RETURN(const ArtefactContents contents, make());
  if (!contents.keep) return Artefact{contents.record, "", false};
  // A farm's lane waits for it: an artefact that cannot be handed over is a failed try, not a silent rebuild.
  if (options.shared != nullptr) HONE_RETURN_IF_ERROR(options.shared->Put(key, Pack(contents)));
  return Keep(key, contents);
}

ArtefactStore::ArtefactStore(std::unique_ptr<State> state) : state_(std::move(state)) {}
ArtefactStore::~ArtefactStore() = default;

absl::StatusOr<std::unique_ptr<ArtefactStore>> ArtefactStore::Create(const ArtefactStoreOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  state->root = options.folder + "/v1";
  HONE_RETURN_IF_ERROR(MakeFolders(state->root + "/tmp"));
  state->Scan();
  state->Evict(options.limit_bytes);
  return std::unique_ptr<ArtefactStore>(new ArtefactStore(std::move(state)));
}

absl::StatusOr<Artefact> ArtefactStore::FindOrMake(const std::string& key,
                                                   const std::function<absl::StatusOr<ArtefactContents>()>& make) {
  if (!IsKey(key)) {
    return absl::InvalidArgumentError(absl::StrCat("not a content key: '", key, "'"));
  }
  std::shared_ptr<State::Flight> flight;
  {
    absl::MutexLock lock(&state_->mutex);
    auto& slot = state_->flights[key];
    if (slot != nullptr) {
      flight = slot;
      state_->mutex.Await(absl::Condition(&flight->done));
      if (flight->result.ok()) flight->result->found = true;
      return flight->result;
    }
    slot = flight = std::make_shared<State::Flight>();
  }
  absl::StatusOr<Artefact> result = state_->Make(key, make);
  absl::MutexLock lock(&state_->mutex);
  flight->result = result;
  flight->done = true;
  state_->flights.erase(key);
  return result;
}

absl::StatusOr<std::string> ArtefactStore::Locate(const std::string& path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  const size_t n = parts.size();
  if (n < 4 || !IsKey(parts[n - 2]) || parts[n - 3] != parts[n - 2].substr(0, 2)) return path;
  if (const std::optional<Artefact> found = state_->Find(parts[n - 2])) {
    const std::string here = absl::StrCat(found->folder, "/", parts[n - 1]);
    if (FileExists(here)) return here;
  }
  return absl::NotFoundError(absl::StrCat("the artefact ", parts[n - 2], " is gone"));
}

int64_t ArtefactStore::entries() const {
  absl::MutexLock lock(&state_->mutex);
  return static_cast<int64_t>(state_->entries.size());
}

int64_t ArtefactStore::bytes() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->bytes;
}

}  // namespace hone::verifier
