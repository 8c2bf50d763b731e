#pragma once

// Build artefacts by content key, on disk. An entry is a folder of files and a record (what the builder wants to remember);
// it appears whole by rename or not at all, so that a killed process leaves nothing half-written, and needs no lock files:
// two processes that make the same entry make the same bytes, and the second one's rename loses.
//
//   <folder>/v1/ab/abcdef.../{record, artefact.so, ...}      <folder>/v1/tmp/<unique>/

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "verifier/cache/shared_bytes.h"

namespace hone::verifier {

struct ArtefactStoreOptions {
  std::string folder;                            // created when missing
  int64_t limit_bytes = int64_t{2} << 30;        // the least recently used entries go first
  absl::Duration grace = absl::Minutes(15);      // an entry used within this time stays, whatever the limit says: a
                                                 // verdict may still be using its files
  SharedBytes* shared = nullptr;                 // of a farm whose hosts share no folder: what is made here is put there,
                                                 // what is missing here is looked for there; outlives the store
};

/// What a builder produced.
struct ArtefactContents {
  std::string record;
  std::vector<std::pair<std::string, std::string>> files;  // {name, bytes}
  bool keep = true;  // false: told to all who wait, but not stored (a time-out is no property of the content)
};

struct Artefact {
  std::string record;
  std::string folder;   // of its files; empty when nothing was stored
  bool found = false;   // it was there already
};

/// Thread-safe. Errors: those of the file system, naming the path; kResourceExhausted: the disk is full, and stays so.
class ArtefactStore {
 public:
  static absl::StatusOr<std::unique_ptr<ArtefactStore>> Create(const ArtefactStoreOptions& options);
  ~ArtefactStore();

  /// The entry of `key` (hexadecimal digits), made by `make` if it is not there. Calls with equal keys at the same time
  /// make it once; the others wait. An entry that does not match its checksums is made again. On a full disk
  /// everything goes that its time of grace allows to; an entry without files is then told without being stored.
  absl::StatusOr<Artefact> FindOrMake(const std::string& key, const std::function<absl::StatusOr<ArtefactContents>()>& make);

  /// The path in this store of a file that this store or another host's names: by its content key, fetched where needed.
  /// A path of no store stays as it is. kNotFound: it is gone, and must be made again.
  absl::StatusOr<std::string> Locate(const std::string& path);

  int64_t entries() const;
  int64_t bytes() const;

 private:
  struct State;
  explicit ArtefactStore(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::verifier
