// The coordinator with real worker processes, some of which are killed, stopped, or lie.

#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <thread>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "base/subprocess.h"
#include "tests/support/memory_folder.h"
#include "tests/trainer/coordinator/sampled_group.h"
#include "trainer/coordinator/coordinator.h"
#include "trainer/coordinator/service.h"
#include "trainer/coordinator/worker.h"

namespace hone::trainer {
namespace {

std::vector<rollout::GroupRequest> Requests(int batch, int count) {
  std::vector<rollout::GroupRequest> requests;
  for (int i = 0; i < count; ++i) {
    rollout::GroupRequest request;
    request.id = absl::StrCat("step", batch, "/", i);
    request.task.id = "softmax";
    request.task.reference = "class Model: pass\n";
    request.prompt_ids = {batch + 1, i + 1};
    requests.push_back(request);
  }
  return requests;
}

// What an undisturbed run gives.
std::vector<Group> Expected(const std::vector<rollout::GroupRequest>& requests, uint64_t seed, int64_t version) {
  std::vector<Group> groups;
  for (const auto& request : requests) groups.push_back(testing::SampledGroup({"", request, seed, version}, version));
  return groups;
}

class Farm {
 public:
  explicit Farm(const LeaseOptions& options)
      : folder_(MemoryFolder("coordinator")), table_(LeaseTable::Create(options).value()) {
    Serve();
  }
  ~Farm() { table_->Close(absl::CancelledError("the run is over")); }

  void Serve() { server_ = CoordinatorServer::Start(address(), *table_).value(); }
  void StopServing() { server_.reset(); }
  Child& Start(const std::string& what, int groups = 1) {
    const std::string name = absl::StrCat(what, "-", workers_.size());
    workers_.push_back(
        Child::Spawn({.argv = {HONE_ROLLOUT_WORKER, address(), name, what, absl::StrCat(groups), Mark(name)}}).value());
    names_.push_back(name);
    return workers_.back();
  }
  // Until the worker started last holds a lease.
  void AwaitLease() {
    while (!FileExists(Mark(names_.back()))) absl::SleepFor(absl::Milliseconds(5));
  }
  LeaseTable& table() { return *table_; }
  std::string address() const { return absl::StrCat("unix:", folder_.path(), "/socket"); }
  CutBatch Cut() { return table_->Cut(SteadyTime::Now() + absl::Seconds(60)).value(); }

 private:
  std::string Mark(const std::string& name) const { return absl::StrCat(folder_.path(), "/", name); }

  const TempFolder folder_;
  std::unique_ptr<LeaseTable> table_;
  std::unique_ptr<CoordinatorServer> server_;
  std::deque<Child> workers_;
  std::vector<std::string> names_;
};

TEST_CASE("Batches are whole and the same when workers are killed and stopped in the middle of their groups",
          "[trainer][coordinator]") {
  Farm farm({.lease = absl::Seconds(1), .max_attempts = 1000});
  const auto first = Requests(0, 12), second = Requests(1, 12);
  REQUIRE(farm.table().Open(first, 11, 0).ok());
  // Both get their groups before anybody else is there.
  farm.Start("die", 3);
  farm.AwaitLease();
  Child& freezes = farm.Start("freeze", 3);
  farm.AwaitLease();
  Child& works = farm.Start("work", 2);
  Child& slow = farm.Start("slow", 2);
  const CutBatch one = farm.Cut();
  CHECK(one.groups == Expected(first, 11, 0));
  CHECK(one.lost_leases >= 6);
  CHECK(one.failed.empty());
  // And a worker that is killed from outside, while it holds a third of the groups.
  works.Kill();
  slow.Kill();
  REQUIRE(farm.table().Open(second, 12, 1).ok());
  Child& victim = farm.Start("slow", 4);
  farm.AwaitLease();
  victim.Kill();
  farm.Start("work", 2);
  const CutBatch two = farm.Cut();
  CHECK(two.groups == Expected(second, 12, 1));
  freezes.Kill();
}

TEST_CASE("A worker that stalls holds up nobody: the batch is cut at its quorum", "[trainer][coordinator]") {
  Farm farm({.lease = absl::Seconds(2), .quorum = 0.75, .grace = absl::Milliseconds(100), .max_attempts = 1000});
  REQUIRE(farm.table().Open(Requests(0, 4), 5, 0).ok());
  Child& stalls = farm.Start("stall", 1);
  farm.AwaitLease();
  farm.Start("work", 1);
  const CutBatch cut = farm.Cut();
  CHECK(cut.groups.size() == 3);
  CHECK(cut.carried_over == 1);
  CHECK(cut.lost_leases == 0);  // it says that it lives
  stalls.Kill();
  // Dead, it is not waited for: its group comes with the next batch.
  REQUIRE(farm.table().Open(Requests(1, 4), 5, 0).ok());
  absl::SleepFor(absl::Milliseconds(2200));
  int64_t carried = 0;
  for (int batch = 1; batch < 6 && carried == 0; ++batch) {
    const CutBatch next = farm.Cut();
    carried += next.carried_in;
    if (carried == 0) REQUIRE(farm.table().Open(Requests(batch + 1, 4), 5, 0).ok());
  }
  CHECK(carried == 1);
}

TEST_CASE("A worker that delivers what cannot be trained on is refused, and others sample its groups",
          "[trainer][coordinator]") {
  Farm farm({.max_attempts = 1000});
  const auto requests = Requests(0, 6);
  REQUIRE(farm.table().Open(requests, 3, 0).ok());
  farm.Start("lie", 1);
  farm.Start("work", 1);
  CHECK(farm.Cut().groups == Expected(requests, 3, 0));
}

TEST_CASE("Groups that a worker gives back go to another", "[trainer][coordinator]") {
  Farm farm({.max_attempts = 100000});
  const auto requests = Requests(0, 4);
  REQUIRE(farm.table().Open(requests, 3, 0).ok());
  farm.Start("fail", 2);
  farm.AwaitLease();
  farm.Start("work", 1);
  CHECK(farm.Cut().groups == Expected(requests, 3, 0));
}

TEST_CASE("Workers wait for a coordinator that is away for a while", "[trainer][coordinator]") {
  Farm farm({});
  farm.Start("work", 1);
  const auto first = Requests(0, 3), second = Requests(1, 3);
  REQUIRE(farm.table().Open(first, 3, 0).ok());
  CHECK(farm.Cut().groups == Expected(first, 3, 0));
  farm.StopServing();
  REQUIRE(farm.table().Open(second, 3, 0).ok());
  absl::SleepFor(absl::Milliseconds(300));
  farm.Serve();
  CHECK(farm.Cut().groups == Expected(second, 3, 0));
}

TEST_CASE("Workers end by themselves when the run is over", "[trainer][coordinator]") {
  Farm farm({});
  Child& worker = farm.Start("work", 1);
  REQUIRE(farm.table().Open(Requests(0, 1), 3, 0).ok());
  CHECK(farm.Cut().groups.size() == 1);
  farm.table().Close(absl::CancelledError("the run is over"));
  CHECK(worker.Wait(SteadyTime::Now() + absl::Seconds(20)).value() == 0);
}

TEST_CASE("Batches of a run with killed workers are whole, in order, each group once, and no older than the lag allows",
          "[trainer][coordinator]") {
  const TempFolder folder = MemoryFolder("coordinator");
  const std::string address = absl::StrCat("unix:", folder.path(), "/socket");
  constexpr int64_t kBatches = 12, kLag = 1;
  const auto coordinator =
      Coordinator::Create(
          {.leases = {.lease = absl::Milliseconds(500), .max_attempts = 1000}, .max_lag = kLag},
          [](int64_t number) -> absl::StatusOr<Coordinator::Prompts> {
            return Coordinator::Prompts{Requests(static_cast<int>(number), 6), 40 + static_cast<uint64_t>(number)};
          })
          .value();
  const auto server = CoordinatorServer::Start(address, coordinator->leases()).value();
  const auto start = [&](const std::string& what, const std::string& name) {
    return Child::Spawn({.argv = {HONE_ROLLOUT_WORKER, address, name, what, "2", folder.path() + "/" + name}}).value();
  };
  std::deque<Child> workers;
  workers.push_back(start("work", "w0"));
  workers.push_back(start("work", "w1"));
  for (int64_t b = 0; b < kBatches; ++b) {
    workers.push_back(start(b % 3 == 0 ? "die" : "work", absl::StrCat("more", b)));
    const CutBatch cut = coordinator->Take(SteadyTime::Now() + absl::Seconds(60)).value();
    const int64_t oldest = std::max<int64_t>(0, b - kLag);
    CHECK(cut.groups == Expected(Requests(static_cast<int>(b), 6), 40 + static_cast<uint64_t>(b), oldest));
    workers.back().Kill();
    REQUIRE(coordinator->Learned(b + 1).ok());
  }
  coordinator->Close(absl::CancelledError("the run is over"));
  CHECK(workers[0].Wait(SteadyTime::Now() + absl::Seconds(20)).value() == 0);
}

TEST_CASE("A coordinator says which groups a batch waits for, and ends with its prompts' error",
          "[trainer][coordinator]") {
  const auto coordinator =
      Coordinator::Create({.max_lag = 0}, [](int64_t number) -> absl::StatusOr<Coordinator::Prompts> {
        if (number == 1) return absl::DataLossError("the tasks are gone");
        return Coordinator::Prompts{Requests(0, 2), 1};
      }).value();
  const auto leased = coordinator->leases().Lease("w", 1, SteadyTime::Now() + absl::Seconds(20)).value();
  REQUIRE(leased.size() == 1);
  CHECK(coordinator->Take(SteadyTime::Now()).status().message() ==
        "batch 0 is still being sampled: step0/0 at worker w, step0/1 with nobody");
  const auto other = coordinator->leases().Lease("v", 1, SteadyTime::Now()).value();
  for (const auto& lease : {leased[0], other[0]})
    REQUIRE(coordinator->leases().Deliver(lease.lease, testing::SampledGroup(lease, 0)).value());
  REQUIRE(coordinator->Take(SteadyTime::Now() + absl::Seconds(20)).ok());
  REQUIRE(coordinator->Learned(1).ok());
  const absl::Status end = coordinator->Take(SteadyTime::Now() + absl::Seconds(20)).status();
  CHECK(absl::IsDataLoss(end));
  CHECK(coordinator->leases().Lease("w", 1, SteadyTime::Now()).status().message() == "the tasks are gone");
}

TEST_CASE("A worker that reaches nobody says so after its patience", "[trainer][coordinator]") {
  WorkerOptions options;
  options.coordinator = "unix:/nonexistent/socket";
  options.name = "lonely";
  options.wait = absl::ZeroDuration();
  options.unreachable = absl::ZeroDuration();
  const auto report = RunWorker(options, [](absl::Span<const LeasedGroup>) -> absl::StatusOr<SampledWork> {
    return absl::InternalError("nothing was leased");
  });
  CHECK(absl::IsUnavailable(report.status()));
  CHECK(absl::StrContains(report.status().message(), "coordinator at unix:/nonexistent/socket has not answered"));
}

TEST_CASE("An address that cannot be served is named", "[trainer][coordinator]") {
  const auto table = LeaseTable::Create({}).value();
  const auto server = CoordinatorServer::Start("unix:/nonexistent/socket", *table);
  CHECK(absl::IsFailedPrecondition(server.status()));
  CHECK(server.status().message() == "coordinator: unix:/nonexistent/socket cannot be served");
}

}  // namespace
}  // namespace hone::trainer
