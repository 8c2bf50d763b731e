#pragma once

// Policy weights from the learner to the processes that sample with them. The members have a communicator of their own
// (Connect at an address of their own: the learner's first rank is member 0): training's own collectives never wait for
// a process that samples, and a transfer whose engine does not come is aborted without touching training.
//
//   member 0                         the others
//   version, layout  ──────────────▶ the same model, and newer than mine?
//                    ◀────────────── yes / no                     (nothing is sent unless all say yes)
//   leaf by leaf, in buckets ──────▶ into the weights in place
//   checksum         ◀─────────────▶ checksum                     (all members see all)
//
// No second copy of the weights exists on either side.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/model/parameters.h"
#include "trainer/comm/communicator.h"

namespace hone::trainer {

struct WeightUpdate {
  int64_t version = 0;
  int64_t bytes = 0;
  uint64_t checksum = 0;  // policy/model/checksum.h, over the leaves in order
};

/// Calls its argument for each leaf in order, while that leaf is whole: ShardedAdamW::VisitWeights, where weights are
/// spread over ranks.
using VisitLeaves = std::function<absl::Status(const std::function<absl::Status(const policy::Leaf&)>&)>;

/// Not thread-safe, Abort aside.
class WeightChannel {
 public:
  static constexpr int64_t kBucketBytes = int64_t{256} << 20;

  /// Borrows `members`, whose tensors are on `device`. A bucket is the most that one operation carries.
  WeightChannel(Communicator& members, const at::Device& device, int64_t bucket_bytes = kBucketBytes)
      : members_(members), device_(device), bucket_bytes_(bucket_bytes) {}

  /// By member 0. Returns when every member holds the weights, to the bit. `visit` empty: the leaves are whole.
  /// kFailedPrecondition names the members that refuse, and why; nothing has changed then. kDataLoss names the members
  /// whose weights came out different. kUnavailable: a member died, or Abort; the channel is of no further use.
  absl::StatusOr<WeightUpdate> Send(int64_t version, const std::vector<policy::Leaf>& leaves,
                                    const VisitLeaves& visit = {});

  /// By the others, whose `leaves` are of the same names, shapes and dtype; they are whole and are not used meanwhile.
  /// `held`: the version that they have now. Errors as of Send; after kDataLoss and kUnavailable the weights are not to
  /// be used.
  absl::StatusOr<WeightUpdate> Receive(const std::vector<policy::Leaf>& leaves, int64_t held);

  /// Ends Send and Receive on this side, from any thread; `why` becomes their error.
  void Abort(const std::string& why) { members_.Abort(why); }

 private:
  struct Header {
    int64_t version = 0, bytes = 0;
    uint64_t layout = 0;
  };
  Header HeaderOf(int64_t version, const std::vector<policy::Leaf>& leaves) const;
  absl::StatusOr<Header> Announce(const Header& mine);
  absl::StatusOr<std::vector<int64_t>> Tell(int64_t word);
  absl::Status Agree(int64_t refusal);
  absl::Status Move(const policy::Leaf& leaf);
  absl::StatusOr<WeightUpdate> Compare(const Header& header, uint64_t checksum);

  Communicator& members_;
  at::Device device_;
  int64_t bucket_bytes_;
};

}  // namespace hone::trainer
