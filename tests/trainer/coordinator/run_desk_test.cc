#include "trainer/coordinator/run_desk.h"

#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "absl/time/clock.h"

namespace hone::trainer {
namespace {

TEST_CASE("A worker that waits for weights gets the grant that is made for it, once", "[trainer][coordinator]") {
  RunDesk desk({.session = "s"}, absl::Seconds(10));
  std::optional<WeightGrant> granted;
  std::thread worker([&] { granted = desk.Await({"w", 3, true}, SteadyTime::Now() + absl::Seconds(20)); });
  while (desk.Waiting().empty()) absl::SleepFor(absl::Milliseconds(1));
  CHECK(desk.Waiting()[0].held == 3);
  CHECK(desk.Waiting()[0].connected);
  CHECK_FALSE(desk.Grant("another", {}));
  CHECK(desk.Grant("w", {"meeting", true, false}));
  CHECK_FALSE(desk.Grant("w", {"a second meeting", true, false}));
  worker.join();
  REQUIRE(granted);
  CHECK(granted->channel == "meeting");
  CHECK(desk.Waiting().empty());
}

TEST_CASE("A worker that nobody grants weights waits until its deadline and is then forgotten", "[trainer][coordinator]") {
  RunDesk desk({}, absl::Seconds(10));
  CHECK_FALSE(desk.Await({"w"}, SteadyTime::Now()));
  CHECK(desk.Waiting().empty());
  CHECK_FALSE(desk.Grant("w", {}));
}

TEST_CASE("Workers live while they are heard of, until they leave", "[trainer][coordinator]") {
  RunDesk desk({}, absl::Milliseconds(200));
  desk.Seen("a");
  desk.Seen("b");
  CHECK(desk.Alive() == std::vector<std::string>{"a", "b"});
  desk.Left("a");
  CHECK(desk.Alive() == std::vector<std::string>{"b"});
  absl::SleepFor(absl::Milliseconds(250));
  CHECK(desk.Alive().empty());
}

TEST_CASE("Workers' seconds are added up until they are taken", "[trainer][coordinator]") {
  RunDesk desk({}, absl::Seconds(1));
  desk.AddSeconds({1, 2});
  desk.AddSeconds({0.5, 0});
  const WorkSeconds taken = desk.TakeSeconds();
  CHECK(taken.generate == 1.5);
  CHECK(taken.verify == 2);
  CHECK(desk.TakeSeconds().generate == 0);
}

}  // namespace
}  // namespace hone::trainer
