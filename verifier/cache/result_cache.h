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
  /// kFailedPrecondition: another process holds the file.
  static absl::StatusOr<std::unique_ptr<ResultCache>> Open(const ResultCacheOptions& options);
  ~ResultCache();

  /// With `from_cache` set.
  absl::StatusOr<std::optional<Verdict>> Find(const std::string& key);
  /// Replaces what is there. Does nothing when not Cacheable.
  absl::Status Put(const std::string& key, const Verdict& verdict);

  int64_t entries() const;
  int64_t bytes() const;

 private:
  struct State;
  explicit ResultCache(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::verifier
