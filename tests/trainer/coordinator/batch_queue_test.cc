#include "trainer/coordinator/batch_queue.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <thread>
#include <vector>

namespace hone::trainer {
namespace {

using Queue = BatchQueue<int>;

SteadyTime Soon() { return SteadyTime::Now(); }

// Samples and learns at once for `batches` batches; what each was sampled by.
std::vector<int64_t> RunBoth(int64_t max_lag, int batches, std::vector<int64_t>* in_flight) {
  Queue queue(max_lag, {});
  std::vector<int64_t> versions(batches);
  std::atomic<int64_t> begun{0}, learned{0};
  const SteadyTime end = SteadyTime::Now() + absl::Seconds(30);
  std::thread sampler([&] {
    for (int b = 0; b < batches; ++b) {
      const BatchPermit permit = queue.Begin(end).value();
      in_flight->push_back(++begun - learned);
      versions[b] = permit.policy_version;
      if (!queue.Put(permit.number, permit.policy_version, b).ok()) std::abort();
    }
  });
  for (int b = 0; b < batches; ++b) {
    if (queue.Take(end).value() != b) std::abort();
    ++learned;
    if (!queue.Learned(b + 1).ok()) std::abort();
  }
  sampler.join();
  return versions;
}

TEST_CASE("With lag 0 sampling and learning take turns", "[trainer][queue]") {
  std::vector<int64_t> in_flight;
  const std::vector<int64_t> versions = RunBoth(0, 200, &in_flight);
  for (int64_t b = 0; b < 200; ++b) {
    CHECK(versions[b] == b);
    CHECK(in_flight[b] == 1);
  }
}

TEST_CASE("A batch is never sampled by a policy older than the lag allows", "[trainer][queue]") {
  for (int64_t lag : {1, 2, 5}) {
    std::vector<int64_t> in_flight;
    const std::vector<int64_t> versions = RunBoth(lag, 300, &in_flight);
    for (int64_t b = 0; b < 300; ++b) {
      CHECK(versions[b] >= b - lag);
      CHECK(versions[b] <= b);
      CHECK(in_flight[b] <= lag + 1);
    }
  }
}

TEST_CASE("The gate opens when the batch that it waits for has been learned from, not when it is taken",
          "[trainer][queue]") {
  Queue queue(1, {});
  REQUIRE(queue.Begin(Soon()).ok());
  REQUIRE(queue.Begin(Soon()).ok());
  REQUIRE(queue.Put(0, 0, 10).ok());
  CHECK(queue.Take(Soon()).value() == 10);
  const absl::Status shut = queue.Begin(Soon()).status();
  CHECK(absl::IsDeadlineExceeded(shut));
  CHECK(shut.message() == "batch 2 waits until batch 0 has been learned from; 0 batches have");
  REQUIRE(queue.Learned(1).ok());
  const BatchPermit permit = queue.Begin(Soon()).value();
  CHECK(permit.number == 2);
  CHECK(permit.policy_version == 1);
  CHECK(permit.oldest_version == 1);
}

TEST_CASE("Tokens of a policy that is too old are refused", "[trainer][queue]") {
  Queue queue(1, {});
  for (int64_t b = 0; b < 4; ++b) {
    REQUIRE(queue.Begin(Soon()).value().number == b);
    REQUIRE(queue.Put(b, 2 * b, 0).ok());
    REQUIRE(queue.Take(Soon()).ok());
    REQUIRE(queue.Learned(2 * (b + 1)).ok());  // two updates a batch
  }
  REQUIRE(queue.Begin(Soon()).value().oldest_version == 6);  // after batches 0, 1 and 2
  const absl::Status stale = queue.Put(4, 5, 0);
  CHECK(absl::IsFailedPrecondition(stale));
  CHECK(stale.message() == "batch 4 holds tokens of policy version 5, allowed >= 6");
  CHECK(queue.Put(4, 6, 0).ok());
  CHECK(absl::IsFailedPrecondition(queue.Put(4, 8, 0)));  // once
}

TEST_CASE("Batches are learned from in order, whatever the order they come in", "[trainer][queue]") {
  Queue queue(2, {7, 40});
  for (int64_t b = 7; b < 10; ++b) REQUIRE(queue.Begin(Soon()).value().number == b);
  REQUIRE(queue.Put(9, 40, 9).ok());
  REQUIRE(queue.Put(8, 40, 8).ok());
  CHECK(queue.Take(Soon()).status().message() == "batch 7 is still being sampled");
  REQUIRE(queue.Put(7, 40, 7).ok());
  for (int b = 7; b < 10; ++b) CHECK(queue.Take(Soon()).value() == b);
  CHECK(queue.Take(Soon()).status().message() == "batch 10 is not begun");
}

TEST_CASE("A policy version that goes back is refused, a skipped update is not", "[trainer][queue]") {
  Queue queue(0, {0, 3});
  CHECK(absl::IsFailedPrecondition(queue.Learned(4)));  // nothing taken
  for (int64_t b = 0; b < 2; ++b) {
    REQUIRE(queue.Begin(Soon()).ok());
    REQUIRE(queue.Put(b, 3, 0).ok());
    REQUIRE(queue.Take(Soon()).ok());
    if (b == 0) CHECK(absl::IsInvalidArgument(queue.Learned(2)));
    CHECK(queue.Learned(3).ok());
  }
}

TEST_CASE("Closing ends every wait with its reason", "[trainer][queue]") {
  Queue queue(0, {});
  REQUIRE(queue.Begin(SteadyTime::InfiniteFuture()).ok());
  absl::Status begin, take;
  std::thread sampler([&] { begin = queue.Begin(SteadyTime::InfiniteFuture()).status(); });
  std::thread learner([&] { take = queue.Take(SteadyTime::InfiniteFuture()).status(); });
  queue.Close(absl::UnavailableError("the engine is gone"));
  queue.Close(absl::InternalError("later"));
  sampler.join();
  learner.join();
  CHECK(begin.message() == "the engine is gone");
  CHECK(take.message() == "the engine is gone");
}

}  // namespace
}  // namespace hone::trainer
