#pragma once

// Weight channels between a learner and processes that come and go: one channel a process, so that one that dies, or joins,
// disturbs no other. All meet at one store, which the learner hosts.
//
//   learner  WeightServer::Send("w0#1", fresh, ...)  ──meeting w0#1──▶  WeightLink::Meet, then Receive
//
// A process that dies in the middle of a transfer holds up the learner until it counts as dead.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "policy/model/decoder.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/weight_channel.h"

namespace hone::trainer {

/// What a process that samples gets: all weights when it has none (`everything`), else what training changes: of a model
/// with an adapter on, the adapter.
std::vector<policy::Leaf> SyncedLeaves(const policy::Decoder& decoder, bool everything);

struct WeightServerOptions {
  bool nccl = false;                           // between GPUs; else through the store, from any device
  absl::Duration dead_after = absl::Seconds(30);  // at most 45 s
};

/// A channel, and what it is made of.
class WeightLink {
 public:
  /// Meets the other side, member 0 being the learner, at `address`:`port` under the name `meeting`. Errors as of Connect.
  static absl::StatusOr<std::unique_ptr<WeightLink>> Meet(bool learner, const std::string& address, int port,
                                                          const std::string& meeting, const at::Device& device,
                                                          const WeightServerOptions& options);
  WeightChannel& channel() { return channel_; }
  /// Whether it can still be used.
  bool whole() const { return members_->Health().ok(); }

 private:
  WeightLink(std::unique_ptr<Communicator> members, const at::Device& device)
      : members_(std::move(members)), channel_(*members_, device) {}
  std::unique_ptr<Communicator> members_;
  WeightChannel channel_;
};

/// The learner's side. One thread at a time.
class WeightServer {
 public:
  /// Hosts the store at `port` (0: the system's choice) on all addresses of this host. kUnavailable: it cannot.
  static absl::StatusOr<std::unique_ptr<WeightServer>> Create(int port, const at::Device& device,
                                                              const WeightServerOptions& options);
  ~WeightServer();

  int port() const;
  /// Whether there is a channel to `worker` that can still be used.
  bool connected(const std::string& worker) const;
  /// Errors as of Connect and WeightChannel::Send; the channel is then dropped. `meeting` counts where `fresh`.
  absl::StatusOr<WeightUpdate> Send(const std::string& worker, bool fresh, const std::string& meeting, int64_t version,
                                    const std::vector<policy::Leaf>& leaves, const VisitLeaves& visit = {});
  /// Of a worker that is gone.
  void Drop(const std::string& worker);
  std::vector<std::string> workers() const;

 private:
  struct Store;
  WeightServer(std::unique_ptr<Store> store, const at::Device& device, const WeightServerOptions& options);

  std::unique_ptr<Store> store_;
  const at::Device device_;
  const WeightServerOptions options_;
  std::map<std::string, std::unique_ptr<WeightLink>> links_;
};

}  // namespace hone::trainer
