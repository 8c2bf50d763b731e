#pragma once

// Ranks that learn together under the first one, which alone knows what comes next: it samples, or talks to those that do,
// decides rewards and writes the run's files. The others wait for its orders, and every collective operation happens
// because of one:
//
//   rank 0       ... Give(kLearn), Deal ▶ Step ...  Give(kShow) ▶ VisitWeights ...  Give(kSave, 120) ▶ Save ...
//   the others   Await ─────────────────▶ Step      Await ──────▶ VisitWeights      Await ─────────▶ Save

#include <cstdint>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/statusor.h"
#include "trainer/comm/communicator.h"
#include "trainer/data/sequence.h"

namespace hone::trainer {

enum class Order : int64_t {
  kStay,    // nothing yet: the leader lives
  kLearn,   // a batch follows (Deal)
  kShow,    // the weights are visited
  kSave,    // a checkpoint; the number is the loop's step
  kExport,  // the weights are gathered
  kEnd,
};

struct GivenOrder {
  Order order = Order::kEnd;
  int64_t number = 0;
};

/// One thread at a time on each rank.
class LedRanks {
 public:
  /// Borrows `ranks`, whose tensors are on `device`.
  LedRanks(Communicator& ranks, const at::Device& device) : ranks_(ranks), device_(device) {}
  /// On the first rank: gives kEnd unless that was given.
  ~LedRanks();

  bool leads() const { return ranks_.rank() == 0; }
  Communicator& ranks() { return ranks_; }

  /// By the first rank. Errors as of Communicator::Broadcast.
  absl::Status Give(Order order, int64_t number = 0);
  /// By the others; kStay is waited through.
  absl::StatusOr<GivenOrder> Await();

  /// This rank's part of `all`, which the first rank gives; the ranks' tokens as even as the longest sequences allow. A
  /// collective operation.
  absl::StatusOr<std::vector<TrainSequence>> Deal(const std::vector<TrainSequence>& all);

 private:
  absl::StatusOr<at::Tensor> Share(const at::Tensor& host);

  Communicator& ranks_;
  at::Device device_;
  bool ended_ = false;
};

/// Sequences as bytes [n] uint8 on the CPU, for those who share this build, and back. kDataLoss: not such bytes.
at::Tensor ToBytes(const std::vector<TrainSequence>& sequences);
absl::StatusOr<std::vector<TrainSequence>> FromBytes(const at::Tensor& bytes);

}  // namespace hone::trainer
