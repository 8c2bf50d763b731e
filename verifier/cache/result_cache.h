#pragma once

// Verdicts by content: the same task, candidate and protocol on the same device with the same toolchain get the same
// verdict, so it is measured once. Only verdicts that belong to the candidate are kept: see Cacheable.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/candidate.h"
#include "base/protocol.h"
#include "base/task.h"
#include "base/verdict.h"
#include "verifier/cache/shared_bytes.h"

namespace hone::verifier {

/// What a verdict depends on. Names, descriptions and splits of a task do not enter, so renamed tasks share verdicts.
/// `device` and `toolchain` say where and with what it is built and run; `toolchain` includes hone's own version.
std::string ResultKey(const Task& task, const Candidate& candidate, const Protocol& protocol, absl::string_view device,
                      absl::string_view toolchain);

/// Part of a task that its signature and its judging depend on, hashed.
std::string TaskContentKey(const Task& task);

/// False for our own failures and for what load on the machine can cause: INFRA, TIMEOUT, COMPILE_TIMEOUT, OOM and
/// CHEAT (a clock can be disturbed; an innocent candidate must not be branded for ever).
bool Cacheable(const Verdict& verdict);

struct ResultCacheOptions {
  std::string path;                              // created when missing; emptied when another version wrote it
  std::string version;                           // of hone
  int64_t limit_bytes = int64_t{256} << 20;      // the least recently used go first
};

/// Thread-safe; survives kill -9.
class ResultCache {
 public:
  /// One process's own, in a SQLite file. kFailedPrecondition: another process holds the file.
  static absl::StatusOr<std::unique_ptr<ResultCache>> Open(const ResultCacheOptions& options);
  /// A farm's: every front answers what any of them has seen.
  static std::unique_ptr<ResultCache> Over(std::unique_ptr<SharedBytes> shared);
  virtual ~ResultCache() = default;

  /// With `from_cache` set.
  virtual absl::StatusOr<std::optional<Verdict>> Find(const std::string& key) = 0;
  /// Replaces what is there. Does nothing when not Cacheable.
  virtual absl::Status Put(const std::string& key, const Verdict& verdict) = 0;

  virtual int64_t entries() const = 0;
  virtual int64_t bytes() const = 0;
};

}  // namespace hone::verifier
