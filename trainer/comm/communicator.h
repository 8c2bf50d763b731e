#pragma once

// Collective operations between the ranks of a job. Two kinds stand behind this interface: NCCL between GPUs, and a
// plain one over the rendezvous store for CPUs (tests with a few processes).
//
// Every rank calls the same operations in the same order from one thread. A wait ends: with the result, at the
// time-out, or when a rank is known to be dead; the error then names the rank where it is known. After an error the
// communicator is of no further use.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/comm/rank_environment.h"

namespace hone::trainer {

/// An operation under way. Wait makes the result visible to what this thread queues on the tensor's device next; on a
/// GPU it does not block the thread. Called once.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual absl::Status Wait() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// out [size * n] = every rank's in [n], in rank order. Contiguous, of one dtype. The tensors must live until Wait.
  virtual absl::StatusOr<std::unique_ptr<Transfer>> AllGather(const at::Tensor& out, const at::Tensor& in) = 0;
  /// out [n] = this rank's part of the sum over ranks of in [size * n].
  virtual absl::StatusOr<std::unique_ptr<Transfer>> ReduceScatter(const at::Tensor& out, const at::Tensor& in) = 0;
  /// tensor = sum over ranks, in place.
  virtual absl::Status AllReduce(const at::Tensor& tensor) = 0;
  virtual absl::Status Broadcast(const at::Tensor& tensor, int root) = 0;

  /// Sums, and largest values, of a few host numbers over the ranks, in place.
  virtual absl::Status Sum(std::vector<double>& values) = 0;
  virtual absl::Status Max(std::vector<double>& values) = 0;
  /// Returns when every rank has called it.
  absl::Status Barrier();

  /// Ends operations that wait, on this rank at once and on the others as soon as they hear of it; may be called from
  /// another thread. `why` becomes their error.
  virtual void Abort(const std::string& why) = 0;
  /// Why the communicator is of no further use; OK while it is. What was queued on a GPU may end like a good operation
  /// after an abort: who reads its result asks here first.
  virtual absl::Status Health() const = 0;
};

struct CommunicatorOptions {
  absl::Duration timeout = absl::Minutes(10);    // of one operation
  absl::Duration rendezvous = absl::Minutes(5);  // until all ranks have come
  absl::Duration heartbeat = absl::Seconds(2);   // ranks say that they live this often
  absl::Duration dead_after =
      absl::Seconds(30);  // a silent rank counts as dead; at most 45 s, so that a minute is kept
  /// Called once, from the watching thread, after Abort, with a message that names the dead rank; may be empty.
  /// Programs end here: an operation that a driver never returns from would hold them for ever.
  std::function<void(const std::string& message)> on_dead_rank;
};

/// Meets the other ranks at the environment's address and returns a communicator for tensors on `device`. Null when
/// alone. kDeadlineExceeded says who has not come; kFailedPrecondition: no NCCL in this torch.
absl::StatusOr<std::unique_ptr<Communicator>> Connect(const RankEnvironment& environment, const at::Device& device,
                                                      const CommunicatorOptions& options);

/// Says over stderr which rank died and ends the process with exit code 1, after `grace` for everything else to end by
/// itself.
std::function<void(const std::string&)> ExitOnDeadRank(absl::Duration grace = absl::Seconds(10));

}  // namespace hone::trainer
