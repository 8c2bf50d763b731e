#include "trainer/coordinator/coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hone::trainer {
namespace {

// How long a batch is waited for before it is seen whether the gate has opened for the next one.
constexpr absl::Duration kLook = absl::Milliseconds(20);

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(const CoordinatorOptions& options,
                                                                 PromptSource prompts,
                                                                 BatchQueue<CutBatch>::Start start) {
  if (options.max_lag < 0)
    return absl::InvalidArgumentError(absl::StrCat("coordinator: max_lag = ", options.max_lag, ", allowed >= 0"));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<LeaseTable> leases, LeaseTable::Create(options.leases));
  return std::unique_ptr<Coordinator>(new Coordinator(options, std::move(leases), std::move(prompts), start));
}

Coordinator::Coordinator(const CoordinatorOptions& options, std::unique_ptr<LeaseTable> leases, PromptSource prompts,
                         BatchQueue<CutBatch>::Start start)
    : batches_(options.batches),
      next_(start.batch),
      leases_(std::move(leases)),
      prompts_(std::move(prompts)),
      queue_(options.max_lag, start),
      thread_([this] { Run(); }) {}

Coordinator::~Coordinator() {
  Close(absl::CancelledError("the run is over"));
  thread_.join();
}

void Coordinator::Close(const absl::Status& why) {
  leases_->Close(why);
  queue_.Close(why);
}

absl::StatusOr<CutBatch> Coordinator::Take(SteadyTime deadline) {
  absl::StatusOr<CutBatch> batch = queue_.Take(deadline);
  if (!absl::IsDeadlineExceeded(batch.status())) return batch;
  const std::string awaited = leases_->Awaited();
  return absl::DeadlineExceededError(
      absl::StrCat(batch.status().message(), awaited.empty() ? "" : absl::StrCat(": ", awaited)));
}

// Begins what the gate allows, else waits for the oldest batch that is being sampled, else for the gate.
void Coordinator::Run() {
  absl::Status status;
  while (status.ok() && (next_ < batches_ || !open_.empty())) {
    if (next_ >= batches_) {
      status = Cut(SteadyTime::Now() + kLook);
      continue;
    }
    const absl::StatusOr<BatchPermit> permit =
        queue_.Begin(open_.empty() ? SteadyTime::InfiniteFuture() : SteadyTime::Now());
    if (permit.ok()) {
      status = Open(*permit);
    } else if (absl::IsDeadlineExceeded(permit.status())) {
      status = Cut(SteadyTime::Now() + kLook);
    } else {
      status = permit.status();
    }
  }
  if (!status.ok()) Close(status);
}

absl::Status Coordinator::Open(const BatchPermit& permit) {
  HONE_ASSIGN_OR_RETURN(Prompts prompts, prompts_(permit.number));
  HONE_RETURN_IF_ERROR(leases_->Open(std::move(prompts.groups), prompts.seed, permit.oldest_version));
  open_.push_back(permit);
  next_ = permit.number + 1;
  return absl::OkStatus();
}

absl::Status Coordinator::Cut(SteadyTime deadline) {
  absl::StatusOr<CutBatch> batch = leases_->Cut(deadline);
  if (absl::IsDeadlineExceeded(batch.status())) return absl::OkStatus();
  HONE_RETURN_IF_ERROR(batch.status());
  const BatchPermit permit = open_.front();
  open_.pop_front();
  const int64_t oldest = OldestVersion(batch->groups, permit.oldest_version);
  return queue_.Put(permit.number, oldest, *std::move(batch));
}

}  // namespace hone::trainer
