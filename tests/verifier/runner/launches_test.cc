// The library before CUDA's runtime, with a runtime of the test's.

#include <dlfcn.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>

namespace {

template <class Function>
Function* Find(void* library, const char* name) {
  void* found = dlsym(library, name);
  INFO(name);
  REQUIRE(found != nullptr);
  return reinterpret_cast<Function*>(found);
}

struct Loaded {
  void* launches = dlopen(HONE_LAUNCHES, RTLD_NOW | RTLD_GLOBAL);
  void* runtime = dlopen(HONE_FAKE_RUNTIME, RTLD_NOW | RTLD_GLOBAL);
  void* artefact = dlopen(HONE_ARTEFACT, RTLD_NOW | RTLD_LOCAL);
};

Loaded Load() {
  Loaded loaded;
  REQUIRE(loaded.launches != nullptr);
  REQUIRE(loaded.runtime != nullptr);
  INFO(dlerror());
  REQUIRE(loaded.artefact != nullptr);
  CHECK(Find<int()>(loaded.launches, "hone_launches_start")() == 1);
  return loaded;
}

TEST_CASE("A library that no artefact would find first, or without a runtime, says so", "[verifier][runner]") {
  void* launches = dlopen(HONE_LAUNCHES, RTLD_NOW | RTLD_GLOBAL);
  REQUIRE(launches != nullptr);
  CHECK(Find<int()>(launches, "hone_launches_start")() == 0);
}

TEST_CASE("Launches reach the runtime with their arguments and their error, and are counted", "[verifier][runner]") {
  const Loaded loaded = Load();
  const auto count = Find<uint64_t()>(loaded.launches, "hone_launches_count");
  const auto seen = Find<long long()>(loaded.runtime, "fake_runtime_seen");
  const uint64_t before = count();
  const long long before_seen = seen();
  CHECK(Find<int(unsigned)>(loaded.artefact, "launch")(3) == 0);
  CHECK(seen() - before_seen == 3'005'007);
  CHECK(Find<int(unsigned)>(loaded.artefact, "launch")(0) == 9);
  CHECK(Find<int()>(loaded.artefact, "launch_graph")() == 0);
  CHECK(seen() - before_seen == 3'005'007 + 5'007 + 1);
  CHECK(count() - before == 3);
}

TEST_CASE("Launches that are switched off succeed, count and do nothing, until they are on again", "[verifier][runner]") {
  const Loaded loaded = Load();
  const auto count = Find<uint64_t()>(loaded.launches, "hone_launches_count");
  const auto seen = Find<long long()>(loaded.runtime, "fake_runtime_seen");
  const auto switch_to = Find<void(int)>(loaded.launches, "hone_launches_switch");
  const uint64_t before = count();
  const long long before_seen = seen();
  switch_to(0);
  CHECK(Find<int(unsigned)>(loaded.artefact, "launch")(3) == 0);
  CHECK(Find<int()>(loaded.artefact, "launch_graph")() == 0);
  CHECK(seen() == before_seen);
  CHECK(count() - before == 2);
  switch_to(1);
  CHECK(Find<int(unsigned)>(loaded.artefact, "launch")(1) == 0);
  CHECK(seen() > before_seen);
}

}  // namespace
