#include "cli/train/worker_groups.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "cli/train/phases.h"

namespace hone::cli {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(20);       // how long a batch is waited for before weights are looked after
constexpr absl::Duration kFarewell = absl::Seconds(5);         // for workers to hear that the run is over
constexpr absl::Duration kHouseKeeping = absl::Milliseconds(250);

std::string NewSession() {
  std::random_device device;
  return absl::StrFormat("%08x%08x", device(), device());
}

trainer::LeaseOptions LeasesOf(const WorkersSettings& settings, const std::string& session) {
  trainer::LeaseOptions leases;
  leases.lease = absl::Seconds(settings.lease_s);
  leases.quorum = settings.quorum;
  leases.grace = absl::Seconds(settings.grace_s);
  leases.max_attempts = settings.max_attempts;
  leases.session = session + "-";
  return leases;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerGroups>> WorkerGroups::Create(const RlSettings& settings, const RolloutParts& parts,
                                                                   rollout::ExemplarStore* exemplars, WorkersPlan plan,
                                                                   PolicyWeights weights) {
  const at::Device device = weights.decoder.parameters().leaves()[0].value.device();
  const bool nccl = plan.settings.transport == "nccl" || (plan.settings.transport == "auto" && device.is_cuda());
  HONE_ASSIGN_OR_RETURN(
      std::unique_ptr<trainer::WeightServer> server,
      trainer::WeightServer::Create(static_cast<int>(plan.settings.store_port), device,
                                    {.nccl = nccl, .dead_after = absl::Seconds(plan.settings.lease_s)}));
  return std::unique_ptr<WorkerGroups>(
      new WorkerGroups(settings, parts, exemplars, std::move(plan), std::move(weights), std::move(server), nccl));
}

WorkerGroups::WorkerGroups(const RlSettings& settings, const RolloutParts& parts, rollout::ExemplarStore* exemplars,
                           WorkersPlan plan, PolicyWeights weights, std::unique_ptr<trainer::WeightServer> server, bool nccl)
    : settings_(settings),
      parts_(parts),
      plan_(std::move(plan)),
      weights_(std::move(weights)),
      server_(std::move(server)),
      nccl_(nccl),
      draws_(settings, parts, exemplars) {}

WorkerGroups::~WorkerGroups() {
  if (coordinator_ != nullptr) coordinator_->Close(absl::UnavailableError("the run has stopped; it may go on"));
}

absl::Status WorkerGroups::Begin(int64_t step, int64_t policy_version) {
  version_ = policy_version;
  learned_ = step;
  const std::string session = NewSession();
  desk_ = std::make_unique<trainer::RunDesk>(
      trainer::RunDescription{session, plan_.run_settings, plan_.files, server_->port()}, absl::Seconds(plan_.settings.lease_s));
  HONE_ASSIGN_OR_RETURN(coordinator_,
                        trainer::Coordinator::Create({.leases = LeasesOf(plan_.settings, session),
                                                      .max_lag = settings_.lag,
                                                      .batches = settings_.steps},
                                                     [this](int64_t number) { return Prompts(number); },
                                                     {step, policy_version}));
  HONE_ASSIGN_OR_RETURN(service_, trainer::CoordinatorServer::Start(plan_.settings.listen, coordinator_->leases(), desk_.get(),
                                                                    plan_.settings.count));
  std::fprintf(stderr, "waiting for workers: hone worker --coordinator %s\n", service_->address().c_str());
  return absl::OkStatus();
}

absl::StatusOr<trainer::Coordinator::Prompts> WorkerGroups::Prompts(int64_t number) {
  absl::MutexLock lock(&mutex_);
  HONE_ASSIGN_OR_RETURN(before_[number], draws_.Save());
  HONE_ASSIGN_OR_RETURN(std::vector<rollout::GroupRequest> groups, draws_.Draw(number));
  return trainer::Coordinator::Prompts{std::move(groups), SamplingSeed(parts_.seed, number)};
}

absl::Status WorkerGroups::SendWeights(trainer::StepMetrics& metrics) {
  for (const trainer::WeightWish& wish : desk_->Waiting()) {
    if (wish.held >= version_) continue;
    const bool fresh = !wish.connected || !server_->connected(wish.worker);
    const std::string meeting = absl::StrCat(desk_->run().session, "/", ++meetings_);
    if (!desk_->Grant(wish.worker, {meeting, fresh, nccl_})) continue;
    const SteadyTime start = SteadyTime::Now();
    const std::vector<policy::Leaf> leaves = trainer::SyncedLeaves(weights_.decoder, wish.held < 0);
    const absl::StatusOr<trainer::WeightUpdate> sent =
        server_->Send(wish.worker, fresh, meeting, version_, leaves, wish.held < 0 || weights_.decoder.lora() == nullptr
                                                                          ? weights_.visit
                                                                          : trainer::VisitLeaves());
    metrics["seconds/weights"] += absl::ToDoubleSeconds(SteadyTime::Now() - start);
    if (sent.ok()) {
      ++metrics["weights/sent"];
    } else {
      std::fprintf(stderr, "\nhone: weights to worker %s: %s\n", wish.worker.c_str(),
                   std::string(sent.status().message()).c_str());
    }
  }
  return absl::OkStatus();
}

void WorkerGroups::DropGone() {
  const std::vector<std::string> alive = desk_->Alive();
  for (const std::string& worker : server_->workers()) {
    if (std::find(alive.begin(), alive.end(), worker) == alive.end()) server_->Drop(worker);
  }
}

absl::StatusOr<trainer::CutBatch> WorkerGroups::Await(int64_t step, trainer::StepMetrics& metrics) {
  SteadyTime heard = SteadyTime::Now(), kept;
  std::string awaited;
  desk_->SetReady(version_);
  while (true) {
    absl::StatusOr<trainer::CutBatch> batch = coordinator_->Take(SteadyTime::Now() + kLook);
    if (!absl::IsDeadlineExceeded(batch.status())) {
      desk_->SetReady(-1);
      return batch;
    }
    HONE_RETURN_IF_ERROR(Interrupted());
    HONE_RETURN_IF_ERROR(SendWeights(metrics));
    const SteadyTime now = SteadyTime::Now();
    if (now - kept > kHouseKeeping) {
      kept = now;
      DropGone();
      if (on_wait) HONE_RETURN_IF_ERROR(on_wait());
      if (!desk_->Alive().empty()) heard = now;
    }
    if (batch.status().message() != awaited) {
      awaited = std::string(batch.status().message());
      heard = now;
      if (parts_.on_phase) parts_.on_phase(absl::StrCat("step ", step, ": ", awaited));
    }
    if (now - heard > absl::Seconds(plan_.settings.patience_s)) {
      return absl::DeadlineExceededError(absl::StrCat("no worker for ", plan_.settings.patience_s, " seconds; ", awaited));
    }
  }
}

absl::StatusOr<std::vector<Group>> WorkerGroups::Collect(int64_t step, const Meanwhile&, trainer::StepMetrics& metrics) {
  const SteadyTime start = SteadyTime::Now();
  metrics["seconds/weights"] = metrics["weights/sent"] = 0;
  HONE_ASSIGN_OR_RETURN(trainer::CutBatch cut, Await(step, metrics));
  metrics["seconds/wait"] = absl::ToDoubleSeconds(SteadyTime::Now() - start);
  for (const std::string& failed : cut.failed) std::fprintf(stderr, "\nhone: given up: %s\n", failed.c_str());
  if (cut.groups.empty()) {
    return absl::DeadlineExceededError(
        absl::StrCat("batch ", step, " has no group left", cut.failed.empty() ? "" : absl::StrCat(": ", cut.failed[0])));
  }
  metrics["workers/alive"] = static_cast<double>(desk_->Alive().size());
  metrics["workers/leases_lost"] = static_cast<double>(cut.lost_leases);
  metrics["workers/leases_returned"] = static_cast<double>(cut.returned_leases);
  metrics["workers/groups_carried_in"] = static_cast<double>(cut.carried_in);
  metrics["workers/groups_carried_over"] = static_cast<double>(cut.carried_over);
  metrics["workers/groups_stale"] = static_cast<double>(cut.stale);
  metrics["workers/groups_given_up"] = static_cast<double>(cut.failed.size());
  const trainer::WorkSeconds seconds = desk_->TakeSeconds();
  metrics["workers/generate_s"] = seconds.generate;
  metrics["workers/verify_s"] = seconds.verify;
  metrics.merge(LoadMetrics(cut.groups, /*judging_s=*/0, parts_.capabilities));
  metrics.merge(rollout::EpisodeMetrics(cut.groups));
  absl::MutexLock lock(&mutex_);
  HONE_RETURN_IF_ERROR(draws_.Learn(cut.groups, step));
  metrics.merge(draws_.TakeMetrics());
  return std::move(cut.groups);
}

absl::Status WorkerGroups::Learned(int64_t policy_version, trainer::StepMetrics&) {
  version_ = policy_version;
  ++learned_;
  {
    absl::MutexLock lock(&mutex_);
    before_.erase(before_.begin(), before_.lower_bound(learned_));
  }
  return coordinator_->Learned(policy_version);
}

absl::StatusOr<std::string> WorkerGroups::Save() {
  absl::MutexLock lock(&mutex_);
  const auto before = before_.find(learned_);
  if (before != before_.end()) return before->second;
  return draws_.Save();
}

absl::Status WorkerGroups::Restore(const std::string& state) {
  absl::MutexLock lock(&mutex_);
  return draws_.Restore(state);
}

void WorkerGroups::Finish() {
  if (coordinator_ == nullptr) return;
  coordinator_->Close(absl::CancelledError("the run is over"));
  const SteadyTime deadline = SteadyTime::Now() + kFarewell;
  while (!desk_->Alive().empty() && SteadyTime::Now() < deadline) absl::SleepFor(kLook);
}

}  // namespace hone::cli
