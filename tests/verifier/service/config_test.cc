#include "verifier/service/config.h"

#include <catch2/catch_test_macros.hpp>
#include <set>

#include "verifier/lane/affinity.h"

namespace hone::verifier {
namespace {

TEST_CASE("Lanes of one process get a core each, from the one that it runs on", "[verifier][service]") {
  CHECK(LaneCores(3, {0, 1, 2, 3}, 2) == std::vector<int>{2, 3, 0});
  CHECK(LaneCores(2, {4, 7, 9}, 9) == std::vector<int>{9, 4});
  CHECK(LaneCores(2, {4, 7}, 5) == std::vector<int>{4, 7});  // moved since it looked
}

TEST_CASE("A lane alone is bound to no core, and lanes beyond the cores share them", "[verifier][service]") {
  CHECK(LaneCores(1, {0, 1}, 1) == std::vector<int>{-1});
  CHECK(LaneCores(5, {3, 5}, 3) == std::vector<int>{3, 5, 3, 5, 3});
}

TEST_CASE("What is timed on a GPU has three cores that no compiler gets", "[verifier][service]") {
  const CoreShares one = ShareCores(1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(one.lanes == std::vector<std::vector<int>>{{7, 8, 9}});
  CHECK(one.others == std::vector<int>{0, 1, 2, 3, 4, 5, 6});
  const CoreShares two = ShareCores(2, {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31});
  CHECK(two.lanes == std::vector<std::vector<int>>{{21, 23, 25}, {27, 29, 31}});
  CHECK(two.others.size() == 10);
}

TEST_CASE("Lanes of GPUs never take more than half of the cores, and a small machine shares all", "[verifier][service]") {
  const CoreShares crowded = ShareCores(3, {0, 1, 2, 3, 4, 5});
  CHECK(crowded.lanes == std::vector<std::vector<int>>(3, {3, 4, 5}));
  CHECK(crowded.others == std::vector<int>{0, 1, 2});
  const CoreShares small = ShareCores(1, {0, 1});
  CHECK(small.lanes == std::vector<std::vector<int>>(1));
  CHECK(small.others.empty());
  CHECK(ShareCores(0, {0, 1, 2, 3, 4}).others.empty());
}

TEST_CASE("Threads and what they start keep to the cores they are given, for as long as it is said", "[verifier][service]") {
  const std::vector<int> all = AllowedCores();
  {
    const ScopedCores last({all.back()});
    CHECK(AllowedCores() == std::vector<int>{all.back()});
  }
  CHECK(AllowedCores() == all);
  const ScopedCores any({});
  CHECK(AllowedCores() == all);
}

TEST_CASE("Only cores of the affinity mask count, for lanes and for build slots", "[verifier][service]") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  const std::vector<int> all = AllowedCores();
  {
    const ScopedCore one(all.back());
    CHECK(AllowedCores() == std::vector<int>{all.back()});
    ServerConfig config;
    config.devices = {"noop"};
    REQUIRE(Resolve(config).ok());
    CHECK(config.lanes == 1);
    CHECK(config.build_slots == 1);
  }
  CHECK(AllowedCores() == all);
}

}  // namespace
}  // namespace hone::verifier
