#include "trainer/coordinator/lease_table.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <random>
#include <set>
#include <thread>

#include "absl/time/clock.h"
#include "tests/trainer/coordinator/sampled_group.h"

namespace hone::trainer {
namespace {

using testing::SampledGroup;

// Stands still until a test moves it.
class FakeClock {
 public:
  void Advance(absl::Duration by) { now_ += by; }
  SteadyTime Now() const { return now_; }

 private:
  SteadyTime now_ = SteadyTime::Now();
};

std::vector<rollout::GroupRequest> Requests(const std::string& batch, int count) {
  std::vector<rollout::GroupRequest> requests;
  for (int i = 0; i < count; ++i) {
    rollout::GroupRequest request;
    request.id = absl::StrCat(batch, i);
    request.task.id = "softmax";
    request.prompt_ids = {1, 2, i};
    requests.push_back(request);
  }
  return requests;
}

std::unique_ptr<LeaseTable> Table(FakeClock& clock, const LeaseOptions& options = {}) {
  return LeaseTable::Create(options, [&clock] { return clock.Now(); }).value();
}

std::vector<LeasedGroup> LeaseNow(LeaseTable& table, const FakeClock& clock, const std::string& worker, int64_t most) {
  return table.Lease(worker, most, clock.Now()).value();
}

std::vector<std::string> Ids(const std::vector<LeasedGroup>& leases) {
  std::vector<std::string> ids;
  for (const LeasedGroup& lease : leases) ids.push_back(lease.request.id);
  return ids;
}
std::vector<std::string> Ids(const std::vector<Group>& groups) {
  std::vector<std::string> ids;
  for (const Group& group : groups) ids.push_back(group.id);
  return ids;
}
using Names = std::vector<std::string>;

TEST_CASE("Groups are leased in order, each to one worker, and a batch holds them in order", "[trainer][coordinator]") {
  FakeClock clock;
  const auto table = Table(clock);
  REQUIRE(table->Open(Requests("a", 3), 7, 0).ok());
  const auto first = LeaseNow(*table, clock, "w1", 2), second = LeaseNow(*table, clock, "w2", 2);
  CHECK(Ids(first) == Names{"a0", "a1"});
  CHECK(Ids(second) == Names{"a2"});
  CHECK(first[0].seed == 7);
  CHECK(first[1].request.prompt_ids == std::vector<int32_t>{1, 2, 1});
  CHECK(LeaseNow(*table, clock, "w3", 1).empty());
  for (const auto& lease : {second[0], first[1], first[0]})
    CHECK(table->Deliver(lease.lease, SampledGroup(lease, 0)).value());
  const CutBatch cut = table->Cut(clock.Now()).value();
  CHECK(Ids(cut.groups) == Names{"a0", "a1", "a2"});
  CHECK(cut.groups[1] == SampledGroup(first[1], 0));
  CHECK(cut.carried_over == 0);
  CHECK(absl::IsFailedPrecondition(table->Cut(clock.Now()).status()));
}

TEST_CASE("None of several workers gets more than its share of a batch at a time", "[trainer][coordinator]") {
  FakeClock clock;
  const auto table = Table(clock);
  REQUIRE(table->Open(Requests("a", 5), 7, 0).ok());
  CHECK(Ids(table->Lease("w1", 100, clock.Now(), /*workers=*/2).value()) == Names{"a0", "a1", "a2"});
  CHECK(Ids(table->Lease("w2", 100, clock.Now(), 2).value()) == Names{"a3", "a4"});
}

TEST_CASE("A worker that leaves gives its group back without prejudice", "[trainer][coordinator]") {
  FakeClock clock;
  const auto table = Table(clock, {.max_attempts = 1});
  REQUIRE(table->Open(Requests("a", 1), 7, 0).ok());
  for (int i = 0; i < 3; ++i) {
    const auto lease = LeaseNow(*table, clock, "w", 1);
    REQUIRE(lease.size() == 1);
    REQUIRE(table->GiveBack(lease[0].lease, "the worker leaves", /*leaving=*/true).ok());
  }
  const auto lease = LeaseNow(*table, clock, "w", 1);
  REQUIRE(table->Deliver(lease[0].lease, SampledGroup(lease[0], 0)).value());
  CHECK(table->Cut(clock.Now()).value().returned_leases == 3);
}

TEST_CASE("A lease of an earlier start of the run is void, although the group has the same name", "[trainer][coordinator]") {
  FakeClock clock;
  const auto before = Table(clock, {.session = "one-"}), now = Table(clock, {.session = "two-"});
  REQUIRE(before->Open(Requests("a", 1), 7, 0).ok());
  REQUIRE(now->Open(Requests("a", 1), 7, 0).ok());
  const auto old = LeaseNow(*before, clock, "w", 1), valid = LeaseNow(*now, clock, "w", 1);
  CHECK_FALSE(now->Deliver(old[0].lease, SampledGroup(old[0], 3)).value());
  CHECK(now->Deliver(valid[0].lease, SampledGroup(valid[0], 0)).value());
}

TEST_CASE("A lease that is not renewed is lost, and its group is the next to be leased", "[trainer][coordinator]") {
  FakeClock clock;
  const auto table = Table(clock, {.lease = absl::Seconds(10)});
  REQUIRE(table->Open(Requests("a", 3), 1, 0).ok());
  const auto kept = LeaseNow(*table, clock, "w1", 1), lost = LeaseNow(*table, clock, "w2", 1);
  clock.Advance(absl::Seconds(6));
  CHECK(table->Renew("w1", Names{kept[0].lease}).empty());
  CHECK(table->Renew("w3", Names{kept[0].lease, "never given"}) == Names{kept[0].lease, "never given"});
  clock.Advance(absl::Seconds(6));
  const auto again = LeaseNow(*table, clock, "w3", 2);
  CHECK(Ids(again) == Names{"a1", "a2"});
  CHECK(again[0].seed == lost[0].seed);
  CHECK(table->Renew("w2", Names{lost[0].lease}) == Names{lost[0].lease});
  for (const auto& lease : {kept[0], again[0], again[1]})
    CHECK(table->Deliver(lease.lease, SampledGroup(lease, 0)).value());
  CHECK(table->Cut(clock.Now()).value().lost_leases == 1);
}

TEST_CASE("Work that comes after its lease was lost counts if it is the first, and counts once",
          "[trainer][coordinator]") {
  FakeClock clock;
  const auto table = Table(clock, {.lease = absl::Seconds(10)});
  REQUIRE(table->Open(Requests("a", 1), 1, 0).ok());
  const auto slow = LeaseNow(*table, clock, "slow", 1);
  clock.Advance(absl::Seconds(10));
  const auto other = LeaseNow(*table, clock, "other", 1);
  REQUIRE(other.size() == 1);
  CHECK(table->Deliver(slow[0].lease, SampledGroup(slow[0], 0)).value());
  CHECK(table->Renew("other", Names{other[0].lease}) == Names{other[0].lease});
  CHECK_FALSE(table->Deliver(other[0].lease, SampledGroup(other[0], 0)).value());
  CHECK(table->Cut(clock.Now()).value().groups.size() == 1);
  CHECK_FALSE(table->Deliver(other[0].lease, SampledGroup(other[0], 0)).value());
  CHECK(absl::IsNotFound(table->Deliver("b0#3", SampledGroup(other[0], 0)).status()));
}

TEST_CASE("A batch is cut at its quorum after the grace, and the stragglers go with the next one",
          "[trainer][coordinator]") {
  FakeClock clock;
  const auto table = Table(clock, {.lease = absl::Seconds(1000), .quorum = 0.75, .grace = absl::Seconds(30)});
  REQUIRE(table->Open(Requests("a", 4), 1, 0).ok());
  const auto a = LeaseNow(*table, clock, "w", 4);
  for (int i : {0, 1}) REQUIRE(table->Deliver(a[i].lease, SampledGroup(a[i], 0)).value());
  clock.Advance(absl::Seconds(100));
  CHECK(table->Cut(clock.Now()).status().message() == "batch 0 waits for groups a2 at worker w, a3 at worker w");
  REQUIRE(table->Deliver(a[3].lease, SampledGroup(a[3], 0)).value());
  CHECK(absl::IsDeadlineExceeded(table->Cut(clock.Now()).status()));
  clock.Advance(absl::Seconds(30));
  const CutBatch first = table->Cut(clock.Now()).value();
  CHECK(Ids(first.groups) == Names{"a0", "a1", "a3"});
  CHECK(first.carried_over == 1);

  REQUIRE(table->Open(Requests("b", 1), 2, 0).ok());
  const auto b = LeaseNow(*table, clock, "w", 1);
  REQUIRE(table->Deliver(a[2].lease, SampledGroup(a[2], 0)).value());
  REQUIRE(table->Deliver(b[0].lease, SampledGroup(b[0], 0)).value());
  const CutBatch second = table->Cut(clock.Now()).value();
  CHECK(Ids(second.groups) == Names{"b0", "a2"});
  CHECK(second.carried_in == 1);
  CHECK(second.carried_over == 0);
}

TEST_CASE("A batch that is whole does not wait for the grace", "[trainer][coordinator]") {
  const auto table = LeaseTable::Create({.quorum = 0.5, .grace = absl::Hours(1)}).value();
  REQUIRE(table->Open(Requests("a", 2), 1, 0).ok());
  const auto a = table->Lease("w", 2, SteadyTime::Now()).value();
  std::thread late([&] {
    for (const auto& lease : a) table->Deliver(lease.lease, SampledGroup(lease, 0)).value();
  });
  CHECK(table->Cut(SteadyTime::Now() + absl::Seconds(30)).value().groups.size() == 2);
  late.join();
}

TEST_CASE("A straggler that is too old for the batch it comes with is dropped and counted", "[trainer][coordinator]") {
  FakeClock clock;
  const auto table = Table(clock, {.lease = absl::Seconds(1000), .quorum = 0.5, .grace = absl::ZeroDuration()});
  REQUIRE(table->Open(Requests("a", 3), 1, 0).ok());
  const auto a = LeaseNow(*table, clock, "w", 3);
  for (int i : {0, 1}) REQUIRE(table->Deliver(a[i].lease, SampledGroup(a[i], 0)).value());
  REQUIRE(table->Cut(clock.Now()).ok());
  REQUIRE(table->Open(Requests("b", 1), 1, 1).ok());
  REQUIRE(table->Deliver(a[2].lease, SampledGroup(a[2], 0)).value());  // by version 0
  const auto b = LeaseNow(*table, clock, "w", 1);
  CHECK(b[0].oldest_version == 1);
  REQUIRE(table->Deliver(b[0].lease, SampledGroup(b[0], 1)).value());
  const CutBatch cut = table->Cut(clock.Now()).value();
  CHECK(Ids(cut.groups) == Names{"b0"});
  CHECK(cut.stale == 1);
}

TEST_CASE("A straggler whose worker is lost is sampled by a newer policy, before newer groups",
          "[trainer][coordinator]") {
  FakeClock clock;
  const auto table = Table(clock, {.lease = absl::Seconds(10), .quorum = 0.5, .grace = absl::ZeroDuration()});
  REQUIRE(table->Open(Requests("a", 2), 1, 0).ok());
  const auto a = LeaseNow(*table, clock, "w", 2);
  REQUIRE(table->Deliver(a[0].lease, SampledGroup(a[0], 0)).value());
  REQUIRE(table->Cut(clock.Now()).ok());
  REQUIRE(table->Open(Requests("b", 1), 1, 4).ok());
  clock.Advance(absl::Seconds(10));
  const auto next = LeaseNow(*table, clock, "w2", 2);
  CHECK(Ids(next) == Names{"a1", "b0"});
  CHECK(next[0].oldest_version == 4);
  for (const auto& lease : next) REQUIRE(table->Deliver(lease.lease, SampledGroup(lease, 4)).value());
  CHECK(Ids(table->Cut(clock.Now()).value().groups) == Names{"b0", "a1"});
}

TEST_CASE("A group that nobody can sample is given up by name, and its batch is cut without it",
          "[trainer][coordinator]") {
  FakeClock clock;
  const auto table = Table(clock, {.max_attempts = 3});
  REQUIRE(table->Open(Requests("a", 2), 1, 0).ok());
  const auto good = LeaseNow(*table, clock, "w", 1);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto bad = LeaseNow(*table, clock, "w", 1);
    REQUIRE(Ids(bad) == Names{"a1"});
    REQUIRE(table->GiveBack(bad[0].lease, "no memory").ok());
  }
  CHECK(LeaseNow(*table, clock, "w", 1).empty());
  REQUIRE(table->Deliver(good[0].lease, SampledGroup(good[0], 0)).value());
  const CutBatch cut = table->Cut(clock.Now()).value();
  CHECK(Ids(cut.groups) == Names{"a0"});
  CHECK(cut.failed == Names{"group a1: no memory"});
}

TEST_CASE("Groups that a learner could not use are refused with the reason and sampled again",
          "[trainer][coordinator]") {
  FakeClock clock;
  const auto table = Table(clock, {.max_attempts = 100});
  REQUIRE(table->Open(Requests("a", 1), 1, 3).ok());
  const auto refused = [&](auto&& spoil) {
    const auto lease = LeaseNow(*table, clock, "w", 1);
    REQUIRE(lease.size() == 1);
    Group group = SampledGroup(lease[0], 3);
    spoil(group);
    const auto delivered = table->Deliver(lease[0].lease, group);
    CHECK(absl::IsInvalidArgument(delivered.status()));
    return std::string(delivered.status().message());
  };
  const auto turn = [](Group& group) -> Turn& { return group.episodes[1].turns[0]; };
  CHECK(refused([](Group& g) { g.id = "a7"; }) == "group a0: delivered as a7");
  CHECK(refused([](Group& g) { g.task_id = "gelu"; }) == "group a0: of task gelu, not softmax");
  CHECK(refused([](Group& g) { g.episodes.clear(); }) == "group a0: no episode");
  CHECK(refused([&](Group& g) { turn(g).log_probs.pop_back(); }) ==
        "group a0 episode 1 turn 0: 4 log-probs for 5 tokens");
  CHECK(refused([&](Group& g) { turn(g).log_probs[2] = std::nanf(""); }) ==
        "group a0 episode 1 turn 0: log-prob of token 2 is nan, allowed: finite and <= 0");
  CHECK(refused([&](Group& g) { turn(g).log_probs[0] = 0.5; }) ==
        "group a0 episode 1 turn 0: log-prob of token 0 is 0.5, allowed: finite and <= 0");
  CHECK(refused([&](Group& g) {
          turn(g).versions = {{0, 3, 3}};
        }) == "group a0 episode 1 turn 0: policy versions cover 3 of 5 tokens");
  CHECK(refused([&](Group& g) {
          turn(g).versions = {{0, 3, 3}, {2, 5, 3}};
        }) == "group a0 episode 1 turn 0: policy versions do not cover the response in order");
  CHECK(refused([&](Group& g) {
          turn(g).versions = {{0, 2, 3}, {2, 5, 2}};
        }) == "group a0 episode 1 turn 0: tokens of policy version 2, allowed >= 3");
  CHECK(refused([&](Group& g) { turn(g).response_ids.clear(); }) == "group a0 episode 1 turn 0: no response");
  const auto lease = LeaseNow(*table, clock, "w", 1);
  CHECK(table->Deliver(lease[0].lease, SampledGroup(lease[0], 3)).value());
}

TEST_CASE("Ids are unique in a run and versions do not go back", "[trainer][coordinator]") {
  FakeClock clock;
  const auto table = Table(clock);
  REQUIRE(table->Open(Requests("a", 1), 1, 3).ok());
  CHECK(table->Open(Requests("a", 1), 1, 3).message() == "coordinator: group id a0 is taken");
  CHECK(absl::IsInvalidArgument(table->Open(Requests("b", 1), 1, 2)));
  CHECK(absl::IsInvalidArgument(table->Open({}, 1, 3)));
  CHECK(table->Open(Requests("b", 1), 1, 3).ok());
}

TEST_CASE("Closing ends the waits of workers and learner with its reason", "[trainer][coordinator]") {
  const auto table = LeaseTable::Create({}).value();
  REQUIRE(table->Open(Requests("a", 1), 1, 0).ok());
  REQUIRE(table->Lease("w", 1, SteadyTime::Now()).value().size() == 1);
  absl::Status cut, lease;
  std::thread learner([&] { cut = table->Cut(SteadyTime::InfiniteFuture()).status(); });
  std::thread worker([&] { lease = table->Lease("v", 1, SteadyTime::InfiniteFuture()).status(); });
  table->Close(absl::CancelledError("the run is over"));
  learner.join();
  worker.join();
  CHECK(cut.message() == "the run is over");
  CHECK(absl::IsCancelled(lease));
}

TEST_CASE("Whatever workers do, every group goes into exactly one batch, as its lease decides",
          "[trainer][coordinator]") {
  const auto table =
      LeaseTable::Create(
          {.lease = absl::Milliseconds(4), .quorum = 0.8, .grace = absl::Milliseconds(2), .max_attempts = 1 << 20})
          .value();
  constexpr int kBatches = 30, kGroups = 8;
  std::vector<std::thread> workers;
  for (uint32_t w = 0; w < 6; ++w) {
    workers.emplace_back([&table, w] {
      std::minstd_rand random(w + 1);
      const std::string name = absl::StrCat("w", w);
      while (true) {
        const auto leased = table->Lease(name, 1 + random() % 3, SteadyTime::Now() + absl::Milliseconds(20));
        if (!leased.ok()) return;
        for (const LeasedGroup& lease : *leased) {
          Group group = SampledGroup(lease, lease.oldest_version);
          switch (random() % 8) {
            case 0:
              continue;  // dies
            case 1:
              table->GiveBack(lease.lease, "out of memory").IgnoreError();
              continue;
            case 2:
              group.episodes[0].turns[0].log_probs.pop_back();
              break;
            case 3:
              absl::SleepFor(absl::Milliseconds(6));
              break;
            case 4:
              table->Deliver(lease.lease, group).IgnoreError();
              break;
            default:
              break;
          }
          table->Deliver(lease.lease, group).IgnoreError();
        }
      }
    });
  }
  std::set<std::string> seen;
  int64_t opened = 0, came = 0, carried = 0;
  bool right = true;
  for (int b = 0; b < kBatches || carried > 0; ++b) {
    REQUIRE(b < 10 * kBatches);
    const int groups = b < kBatches ? kGroups : 1;
    opened += groups;
    REQUIRE(table->Open(Requests(absl::StrCat(b, "/"), groups), 5, 0).ok());
    const CutBatch cut = table->Cut(SteadyTime::Now() + absl::Seconds(30)).value();
    for (const Group& group : cut.groups) {
      ++came;
      seen.insert(group.id);
      LeasedGroup lease;
      lease.request.id = group.id;
      lease.request.task.id = "softmax";
      lease.request.prompt_ids = group.episodes[0].turns[0].prompt_ids;
      lease.seed = 5;
      right = right && group == SampledGroup(lease, 0);
    }
    CHECK(cut.failed.empty());
    carried = cut.carried_over;
  }
  table->Close(absl::CancelledError("the run is over"));
  for (std::thread& worker : workers) worker.join();
  CHECK(right);
  CHECK(came == static_cast<int64_t>(seen.size()));
  CHECK(came == opened);
}

TEST_CASE("Options out of range are named", "[trainer][coordinator]") {
  CHECK(LeaseTable::Create({.quorum = 0}).status().message() == "coordinator: quorum = 0, allowed (0, 1]");
  CHECK(LeaseTable::Create({.lease = absl::ZeroDuration()}).status().message() ==
        "coordinator: lease = 0, allowed > 0s");
  CHECK(LeaseTable::Create({.max_attempts = 0}).status().message() == "coordinator: max_attempts = 0, allowed >= 1");
}

}  // namespace
}  // namespace hone::trainer
