// What the processes of a farm share through a real redis-server.

#include "verifier/cache/shared_bytes.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "tests/support/redis_server.h"
#include "verifier/cache/artefact_store.h"
#include "verifier/cache/result_cache.h"

namespace hone::verifier {
namespace {

const std::string kKey(64, 'a');

TEST_CASE("Shared bytes come back as they were, and the least recently used make room", "[verifier][cache][redis]") {
  RedisServer redis;
  const RedisAddress address = *ParseRedisUrl(redis.url());
  const auto one = MakeRedisBytes(address, "test", 10'000);
  const auto two = MakeRedisBytes(address, "test", 10'000);
  const std::string binary("a\0b\r\n\xff", 6);
  REQUIRE(one->Put("k", binary).ok());
  CHECK(**two->Get("k") == binary);
  CHECK_FALSE((*two->Get("other")).has_value());
  CHECK(two->entries() == 1);
  CHECK(two->bytes() == 6 + 128);
  REQUIRE(one->Put("k", "shorter").ok());
  CHECK(two->bytes() == 7 + 128);
  for (int i = 0; i < 10; ++i) REQUIRE(one->Put("big" + std::to_string(i), std::string(2'000, 'x')).ok());
  CHECK(one->bytes() <= 10'000);
  CHECK((*one->Get("big9")).has_value());
}

TEST_CASE("A cache that cannot be reached says so and is there again when Redis is", "[verifier][cache][redis]") {
  RedisServer redis;
  const auto cache = MakeRedisBytes(*ParseRedisUrl(redis.url()), "test", 10'000);
  REQUIRE(cache->Put("k", "v").ok());
  redis.Kill();
  CHECK(absl::IsUnavailable(cache->Get("k").status()));
  redis.Start();
  absl::StatusOr<std::optional<std::string>> found = cache->Get("k");
  for (int i = 0; i < 100 && !found.ok(); ++i) {
    absl::SleepFor(absl::Milliseconds(50));
    found = cache->Get("k");
  }
  REQUIRE(found.ok());
  CHECK(**found == "v");
}

TEST_CASE("A verdict that one front kept answers at another, marked as cached", "[verifier][cache][redis]") {
  RedisServer redis;
  const RedisAddress address = *ParseRedisUrl(redis.url());
  const auto one = ResultCache::Over(MakeRedisBytes(address, "verdicts", 1 << 20));
  const auto two = ResultCache::Over(MakeRedisBytes(address, "verdicts", 1 << 20));
  Verdict verdict;
  verdict.status = VerdictStatus::kIncorrect;
  verdict.message = "wrong";
  REQUIRE(one->Put(kKey, verdict).ok());
  const auto found = two->Find(kKey);
  REQUIRE(found.ok());
  REQUIRE(found->has_value());
  CHECK((*found)->message == "wrong");
  CHECK((*found)->from_cache);
  verdict.status = VerdictStatus::kTimeout;
  REQUIRE(one->Put(std::string(64, 'b'), verdict).ok());
  CHECK_FALSE((*two->Find(std::string(64, 'b'))).has_value());
}

TEST_CASE("An artefact built on one host is found on another by the path that the first one named",
          "[verifier][cache][redis]") {
  RedisServer redis;
  const RedisAddress address = *ParseRedisUrl(redis.url());
  const TempFolder folder = MemoryFolder("shared_artefacts");
  const auto shared = MakeRedisBytes(address, "artefacts", 1 << 20);
  ArtefactStoreOptions here_options, there_options;
  here_options.folder = folder.path() + "/here";
  there_options.folder = folder.path() + "/there";
  here_options.shared = there_options.shared = shared.get();
  const auto here = *ArtefactStore::Create(here_options);
  const auto there = *ArtefactStore::Create(there_options);
  int made = 0;
  const auto make = [&]() -> absl::StatusOr<ArtefactContents> {
    ++made;
    return ArtefactContents{"record", {{"artefact.so", std::string("bytes\0more", 10)}}, true};
  };
  const Artefact artefact = *here->FindOrMake(kKey, make);
  const std::string path = artefact.folder + "/artefact.so";
  CHECK(*here->Locate(path) == path);
  const absl::StatusOr<std::string> located = there->Locate(path);
  REQUIRE(located.ok());
  CHECK(*located != path);
  CHECK(*ReadFile(*located) == std::string("bytes\0more", 10));
  CHECK(there->FindOrMake(kKey, make)->found);
  CHECK(made == 1);
  INFO("gone everywhere");
  CHECK(absl::IsNotFound(there->Locate("/x/v1/bb/" + std::string(64, 'b') + "/artefact.so").status()));
  CHECK(*there->Locate("/usr/lib/some.so") == "/usr/lib/some.so");
}

}  // namespace
}  // namespace hone::verifier
