#pragma once

// One connection to Redis: hiredis behind Status, binary-safe, with limits on every wait.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

struct redisContext;
struct redisReply;

namespace hone::verifier {

struct RedisAddress {
  std::string host = "127.0.0.1";
  int port = 6379;
  int database = 0;
  std::string user;      // empty: Redis' default user
  std::string password;  // empty: $HONE_REDIS_PASSWORD, else none is sent

  /// "redis://host:port/0": never the password.
  std::string Name() const;
};

/// "redis://[[user]:password@]host[:port][/database]". kInvalidArgument says what is wrong with it.
absl::StatusOr<RedisAddress> ParseRedisUrl(const std::string& url);

/// What a command answered. Strings are bytes.
struct RedisReply {
  enum class Kind { kNil, kInteger, kText, kList };
  Kind kind = Kind::kNil;
  int64_t integer = 0;
  std::string text;
  std::vector<RedisReply> list;

  /// The text of an item of the list; empty where there is none.
  absl::string_view TextAt(size_t index) const;
};

/// One thread at a time, except Shutdown.
class RedisConnection {
 public:
  /// kUnavailable: nobody answers there, or Redis is still reading its file. kFailedPrecondition: it does not let us in,
  /// or has no such database.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Open(const RedisAddress& address,
                                                               absl::Duration timeout = absl::Seconds(5));
  ~RedisConnection();

  /// Errors: kUnavailable (the connection broke or timed out: whether the command ran is not known; the connection is of
  /// no further use), kResourceExhausted (Redis is out of memory or cannot write its file), kInternal (Redis' own words).
  absl::StatusOr<RedisReply> Run(const std::vector<absl::string_view>& arguments);
  /// The same for several commands in one round trip; the replies are in order. A broken connection is the error; the
  /// error of one command is in its place.
  absl::StatusOr<std::vector<absl::StatusOr<RedisReply>>> RunAll(const std::vector<std::vector<absl::string_view>>& commands);

  /// The next message of a subscription, or the reply of a command that blocks; kDeadlineExceeded leaves the connection
  /// usable.
  absl::StatusOr<RedisReply> Receive(absl::Duration timeout);

  /// From any thread: whoever waits on this connection gets kUnavailable.
  void Shutdown();
  bool broken() const { return broken_; }

 private:
  RedisConnection(redisContext* context, std::string name);
  absl::Status Broken();
  absl::Status Append(const std::vector<absl::string_view>& arguments);
  absl::StatusOr<RedisReply> Next();

  redisContext* const context_;
  const std::string name_;
  bool broken_ = false;
};

}  // namespace hone::verifier
