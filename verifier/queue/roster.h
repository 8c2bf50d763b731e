#pragma once

// Who is in a farm and what each process contributes, so that a front knows which devices exist, what a verdict depends
// on, and what to tell its clients.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "verifier/queue/redis_connection.h"

namespace hone::verifier {

struct Member {
  struct Device {
    std::string kind;     // of the queue: "cpu", "cuda", "musa", "noop"
    std::string name;     // in verdicts: "NVIDIA H200"
    std::string sandbox;
    int lanes = 0;
    friend bool operator==(const Device&, const Device&) = default;
  };
  std::string node;       // unique
  std::string host;
  std::string role;       // "all", "front", "build", "lane"
  std::string version;
  std::vector<Device> devices;
  std::map<std::string, std::string> toolchains;  // by backend; of those that build
  std::vector<std::string> formats;               // likewise
  int build_slots = 0;
  absl::Duration silent;  // since it was last heard of; not announced
  friend bool operator==(const Member&, const Member&) = default;
};

/// Thread-safe.
class Roster {
 public:
  virtual ~Roster() = default;  // leaves

  /// From now on this process is a member, until it is dropped.
  virtual void Announce(const Member& self) = 0;

  /// All that were heard of in the last ten minutes, by node, as of about a second ago. A process that was killed stays
  /// for that time: its kind of device is expected back. While the farm cannot be asked: the last answer.
  virtual std::vector<Member> Members() const = 0;
};

/// Asks once before it returns. kUnavailable: nobody answers there.
absl::StatusOr<std::unique_ptr<Roster>> OpenRedisRoster(const RedisAddress& address,
                                                        absl::Duration interval = absl::Seconds(1));

}  // namespace hone::verifier
