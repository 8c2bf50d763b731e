#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "nlohmann/json.hpp"
#include "verifier/queue/roster.h"

namespace hone::verifier {
namespace {

// {hone}:roster is a hash from node to its JSON, {hone}:roster_seen when it was last heard of, by Redis' clock.
constexpr char kScript[] = R"lua(
local roster, seen = KEYS[1] .. 'roster', KEYS[1] .. 'roster_seen'
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if ARGV[1] == 'join' then
  redis.call('HSET', roster, ARGV[2], ARGV[3])
  redis.call('ZADD', seen, string.format('%.0f', now), ARGV[2])
elseif ARGV[1] == 'leave' then
  redis.call('HDEL', roster, ARGV[2])
  redis.call('ZREM', seen, ARGV[2])
end
for _, node in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', string.format('%.0f', now - 600000))) do
  redis.call('HDEL', roster, node)
  redis.call('ZREM', seen, node)
end
local out = {}
local nodes = redis.call('ZRANGE', seen, 0, -1, 'WITHSCORES')
for i = 1, #nodes, 2 do
  out[#out + 1] = redis.call('HGET', roster, nodes[i]) or ''
  out[#out + 1] = string.format('%.0f', now - nodes[i + 1])
end
return out
)lua";

std::string ToJson(const Member& member) {
  nlohmann::json devices = nlohmann::json::array();
  for (const Member::Device& device : member.devices) {
    devices.push_back({{"kind", device.kind}, {"name", device.name}, {"sandbox", device.sandbox}, {"lanes", device.lanes}});
  }
  return nlohmann::json{{"node", member.node},       {"host", member.host},       {"role", member.role},
                        {"version", member.version}, {"devices", devices},        {"toolchains", member.toolchains},
                        {"formats", member.formats}, {"build_slots", member.build_slots}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Nothing for what another version wrote in another form.
std::optional<Member> FromJson(absl::string_view text, absl::Duration silent) {
  try {
    const auto json = nlohmann::json::parse(text.begin(), text.end());
    Member member;
    member.node = json.at("node");
    member.host = json.at("host");
    member.role = json.at("role");
    member.version = json.at("version");
    for (const auto& device : json.at("devices")) {
      member.devices.push_back({device.at("kind"), device.at("name"), device.at("sandbox"), device.at("lanes")});
    }
    member.toolchains = json.at("toolchains").get<std::map<std::string, std::string>>();
    member.formats = json.at("formats").get<std::vector<std::string>>();
    member.build_slots = json.at("build_slots");
    member.silent = silent;
    return member;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

class RedisRoster final : public Roster {
 public:
  RedisRoster(RedisAddress address, absl::Duration interval) : address_(std::move(address)), interval_(interval) {}

  ~RedisRoster() override {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Start() {
    HONE_RETURN_IF_ERROR(Ask("read"));
    thread_ = std::thread([this] { Loop(); });
    return absl::OkStatus();
  }

  void Announce(const Member& self) override {
    absl::MutexLock lock(&mutex_);
    self_ = self;
    news_ = true;
  }

  std::vector<Member> Members() const override {
    absl::MutexLock lock(&mutex_);
    std::vector<Member> members = members_;
    for (Member& member : members) member.silent += SteadyTime::Now() - asked_;
    return members;
  }

 private:
  void Loop() {
    while (true) {
      bool stopping = false, announced = false;
      {
        absl::MutexLock lock(&mutex_);
        const auto due = [](RedisRoster* roster) ABSL_NO_THREAD_SAFETY_ANALYSIS { return roster->stopping_ || roster->news_; };
        const bool alone = std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.devices.empty(); });
        AwaitFor(mutex_, absl::Condition(+due, this), alone ? interval_ / 10 : interval_);  // a farm that starts
        news_ = false;
        stopping = stopping_;
        announced = self_.has_value();
      }
      if (stopping && !announced) return;
      const absl::Status asked = Ask(stopping ? "leave" : announced ? "join" : "read");
      if (!asked.ok()) connection_.reset();
      if (stopping) return;
    }
  }

  absl::Status Ask(const char* what) {
    if (!connection_) {
      HONE_ASSIGN_OR_RETURN(connection_, RedisConnection::Open(address_));
    }
    Member self;
    {
      absl::MutexLock lock(&mutex_);
      if (self_) self = *self_;
    }
    HONE_ASSIGN_OR_RETURN(const RedisReply reply, connection_->Run({"EVAL", kScript, "1", "{hone}:", what, self.node, ToJson(self)}));
    std::vector<Member> members;
    for (size_t i = 0; i + 1 < reply.list.size(); i += 2) {
      int64_t silent_ms = 0;
      if (!absl::SimpleAtoi(reply.TextAt(i + 1), &silent_ms)) continue;
      if (std::optional<Member> member = FromJson(reply.TextAt(i), absl::Milliseconds(silent_ms))) {
        members.push_back(*std::move(member));
      }
    }
    std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.node < b.node; });
    absl::MutexLock lock(&mutex_);
    members_ = std::move(members);
    asked_ = SteadyTime::Now();
    return absl::OkStatus();
  }

  const RedisAddress address_;
  const absl::Duration interval_;
  std::unique_ptr<RedisConnection> connection_;  // of the thread, once it runs
  mutable absl::Mutex mutex_;
  std::optional<Member> self_ ABSL_GUARDED_BY(mutex_);
  std::vector<Member> members_ ABSL_GUARDED_BY(mutex_);
  SteadyTime asked_ ABSL_GUARDED_BY(mutex_);
  bool news_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Roster>> OpenRedisRoster(const RedisAddress& address, absl::Duration interval) {
  auto roster = std::make_unique<RedisRoster>(address, interval);
  HONE_RETURN_IF_ERROR(roster->Start());
  return roster;
}

}  // namespace hone::verifier
