#include "verifier/cache/result_cache.h"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "tests/support/memory_folder.h"

namespace hone::verifier {
namespace {

struct Fixture {
  TempFolder folder = MemoryFolder("result_cache_test");
  ResultCacheOptions options{folder.path() + "/results.db", "1"};
  std::unique_ptr<ResultCache> cache;

  Fixture() { Reopen(); }
  void Reopen() {
    cache.reset();
    auto opened = ResultCache::Open(options);
    INFO(opened.status().ToString());
    REQUIRE(opened.ok());
    cache = std::move(opened).value();
  }
  bool Has(const std::string& key) {
    auto found = cache->Find(key);
    REQUIRE(found.ok());
    return found->has_value();
  }
};

Verdict WithMessage(std::string message, VerdictStatus status = VerdictStatus::kOk) {
  Verdict verdict;
  verdict.status = status;
  verdict.message = std::move(message);
  return verdict;
}

TEST_CASE("A verdict comes back as it went in, marked as cached, also after a restart", "[verifier][cache]") {
  Fixture f;
  Verdict verdict = WithMessage("m", VerdictStatus::kIncorrect);
  verdict.mismatch.emplace().index = {1, 2};
  REQUIRE(f.cache->Put("k", verdict).ok());
  f.Reopen();
  const auto found = f.cache->Find("k");
  REQUIRE(found.ok());
  REQUIRE(found->has_value());
  CHECK((*found)->from_cache);
  verdict.from_cache = true;
  CHECK(**found == verdict);
  CHECK_FALSE(f.Has("other"));
}

TEST_CASE("Only verdicts that belong to the candidate are kept", "[verifier][cache]") {
  Fixture f;
  const std::set<VerdictStatus> kept = {VerdictStatus::kOk,      VerdictStatus::kParse,   VerdictStatus::kForbidden,
                                        VerdictStatus::kCompile, VerdictStatus::kRuntime, VerdictStatus::kIncorrect};
  for (int i = 0; i <= static_cast<int>(VerdictStatus::kInfra); ++i) {
    const auto status = static_cast<VerdictStatus>(i);
    const std::string key(Name(status));
    REQUIRE(f.cache->Put(key, WithMessage("m", status)).ok());
    INFO(key);
    CHECK(f.Has(key) == (kept.count(status) == 1));
  }
}

TEST_CASE("A later verdict replaces the earlier one", "[verifier][cache]") {
  Fixture f;
  REQUIRE(f.cache->Put("k", WithMessage("first")).ok());
  REQUIRE(f.cache->Put("k", WithMessage("second")).ok());
  CHECK((*f.cache->Find("k"))->message == "second");
  CHECK(f.cache->entries() == 1);
}

TEST_CASE("The cache stays within its bytes and forgets what was not used for longest", "[verifier][cache]") {
  Fixture f;
  f.options.limit_bytes = 400'000;
  f.Reopen();
  REQUIRE(f.cache->Put("favourite", WithMessage(std::string(1000, 'f'))).ok());
  for (int i = 0; i < 3000; ++i) {
    REQUIRE(f.cache->Put("k" + std::to_string(i), WithMessage(std::string(1000, 'x'))).ok());
    if (i % 100 == 0) CHECK(f.Has("favourite"));
  }
  CHECK(f.cache->bytes() <= 400'000);
  CHECK(f.cache->entries() > 200);
  CHECK(f.Has("favourite"));
  CHECK(f.Has("k2999"));
  CHECK_FALSE(f.Has("k0"));
  const int64_t bytes = f.cache->bytes();
  f.Reopen();
  CHECK(f.cache->bytes() == bytes);
}

TEST_CASE("Another version starts with an empty cache", "[verifier][cache]") {
  Fixture f;
  REQUIRE(f.cache->Put("k", WithMessage("m")).ok());
  f.options.version = "2";
  f.Reopen();
  CHECK_FALSE(f.Has("k"));
}

TEST_CASE("A key changes with everything a verdict depends on and with nothing else", "[verifier][cache]") {
  const Task task{.id = "t", .reference = "ref"};
  const Candidate candidate{Format::kNative, Backend::kCpu, "src"};
  const Protocol protocol;
  const std::string key = ResultKey(task, candidate, protocol, "cpu", "g++ 12");
  std::set<std::string> keys = {key};
  const auto differs = [&](auto change) {
    Task t = task;
    Candidate c = candidate;
    Protocol p = protocol;
    std::string device = "cpu", toolchain = "g++ 12";
    change(t, c, p, device, toolchain);
    return keys.insert(ResultKey(t, c, p, device, toolchain)).second;
  };
  using T = Task&;
  using C = Candidate&;
  using P = Protocol&;
  using S = std::string&;
  CHECK(differs([](T t, C, P, S, S) { t.reference = "other"; }));
  CHECK(differs([](T t, C, P, S, S) { t.tolerance.atol = 1; }));
  CHECK(differs([](T t, C, P, S, S) { t.variants = {{{"rows", 3}}}; }));
  CHECK(differs([](T t, C, P, S, S) { t.timing = {{"rows", 3}}; }));
  CHECK(differs([](T t, C, P, S, S) { t.legality.allow_library_kernels = true; }));
  CHECK(differs([](T t, C, P, S, S) { t.scalar_baseline = "b"; }));
  CHECK(differs([](T, C c, P, S, S) { c.source += " "; }));
  CHECK(differs([](T, C c, P, S, S) { c.backend = Backend::kCuda; }));
  CHECK(differs([](T, C, P p, S, S) { p.max_rounds += 1; }));
  CHECK(differs([](T, C, P, S device, S) { device = "NVIDIA H200"; }));
  CHECK(differs([](T, C, P, S, S toolchain) { toolchain = "g++ 13"; }));
  CHECK_FALSE(differs([](T t, C, P, S, S) {
    t.id = "renamed";
    t.description = "other words";
    t.split = Split::kHeldOut;
  }));
}

}  // namespace
}  // namespace hone::verifier
