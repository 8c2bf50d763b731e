#pragma once

// Bytes by content key that the processes of a farm share: verdicts, and artefacts on their way from a builder to a lane.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "verifier/queue/redis_connection.h"

namespace hone::verifier {

/// Thread-safe. kUnavailable: the farm's store cannot be reached just now.
class SharedBytes {
 public:
  virtual ~SharedBytes() = default;
  virtual absl::StatusOr<std::optional<std::string>> Get(const std::string& key) = 0;
  /// Replaces what is there; the least recently used entries make room.
  virtual absl::Status Put(const std::string& key, const std::string& bytes) = 0;
  /// As of a moment ago; 0 when it cannot be asked.
  virtual int64_t entries() const = 0;
  virtual int64_t bytes() const = 0;
};

/// In Redis below {hone}:<name>:, at most `limit_bytes` of it. Connects lazily.
std::unique_ptr<SharedBytes> MakeRedisBytes(const RedisAddress& address, const std::string& name, int64_t limit_bytes);

}  // namespace hone::verifier
