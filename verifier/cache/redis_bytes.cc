#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "verifier/cache/shared_bytes.h"

namespace hone::verifier {
namespace {

// <prefix>entry:<key> the bytes; <prefix>used a sorted set of keys by last use; <prefix>bytes their sum.
constexpr char kScript[] = R"lua(
local P, op, key = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
local function drop(key)
  call('DECRBY', P .. 'bytes', call('STRLEN', P .. 'entry:' .. key) + 128)
  call('DEL', P .. 'entry:' .. key)
  call('ZREM', P .. 'used', key)
end
if op == 'get' then
  local bytes = call('GET', P .. 'entry:' .. key)
  if bytes then call('ZADD', P .. 'used', call('TIME')[1], key) end
  return bytes
elseif op == 'put' then
  if call('EXISTS', P .. 'entry:' .. key) == 1 then drop(key) end
  call('SET', P .. 'entry:' .. key, ARGV[4])
  call('ZADD', P .. 'used', call('TIME')[1], key)
  local bytes = call('INCRBY', P .. 'bytes', #ARGV[4] + 128)
  while bytes > tonumber(ARGV[3]) do
    local oldest = call('ZRANGE', P .. 'used', 0, 0)[1]
    if not oldest then break end
    drop(oldest)
    bytes = tonumber(call('GET', P .. 'bytes'))
  end
  return 'ok'
end
return {call('ZCARD', P .. 'used'), tonumber(call('GET', P .. 'bytes') or '0')}
)lua";

class RedisBytes final : public SharedBytes {
 public:
  RedisBytes(RedisAddress address, const std::string& name, int64_t limit_bytes)
      : address_(std::move(address)), prefix_(absl::StrCat("{hone}:", name, ":")), limit_(absl::StrCat(limit_bytes)) {}

  absl::StatusOr<std::optional<std::string>> Get(const std::string& key) override {
    HONE_ASSIGN_OR_RETURN(RedisReply reply, Run({"get", key}));
    if (reply.kind == RedisReply::Kind::kNil) return std::nullopt;
    return std::move(reply.text);
  }
  absl::Status Put(const std::string& key, const std::string& bytes) override {
    return Run({"put", key, limit_, bytes}).status();
  }
  int64_t entries() const override { return Count(0); }
  int64_t bytes() const override { return Count(1); }

 private:
  int64_t Count(size_t index) const {
    const absl::StatusOr<RedisReply> reply = Run({"count", ""});
    return reply.ok() && index < reply->list.size() ? reply->list[index].integer : 0;
  }

  absl::StatusOr<RedisReply> Run(const std::vector<absl::string_view>& arguments) const {
    absl::MutexLock lock(&mutex_);
    if (SteadyTime::Now() < retry_at_) return absl::UnavailableError(trouble_);
    std::vector<absl::string_view> command = {"EVAL", kScript, "1", prefix_};
    command.insert(command.end(), arguments.begin(), arguments.end());
    for (int attempt = 1;; ++attempt) {
      const bool fresh = connection_ == nullptr;
      if (fresh) {
        absl::StatusOr<std::unique_ptr<RedisConnection>> opened = RedisConnection::Open(address_, absl::Seconds(2));
        if (!opened.ok()) {
          retry_at_ = SteadyTime::Now() + absl::Seconds(1);  // nobody waits long for a cache
          trouble_ = std::string(opened.status().message());
          return opened.status();
        }
        connection_ = *std::move(opened);
      }
      absl::StatusOr<RedisReply> reply = connection_->Run(command);
      if (!connection_->broken()) return reply;
      connection_.reset();
      if (fresh || attempt > 1) return reply;
    }
  }

  const RedisAddress address_;
  const std::string prefix_;
  const std::string limit_;
  mutable absl::Mutex mutex_;
  mutable std::unique_ptr<RedisConnection> connection_ ABSL_GUARDED_BY(mutex_);
  mutable SteadyTime retry_at_ ABSL_GUARDED_BY(mutex_) = SteadyTime::InfinitePast();
  mutable std::string trouble_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<SharedBytes> MakeRedisBytes(const RedisAddress& address, const std::string& name, int64_t limit_bytes) {
  return std::make_unique<RedisBytes>(address, name, limit_bytes);
}

}  // namespace hone::verifier
