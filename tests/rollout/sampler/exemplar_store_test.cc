#include "rollout/sampler/exemplar_store.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>

#include "base/file.h"
#include "tests/rollout/groups.h"

namespace hone::rollout {
namespace {

using Catch::Matchers::ContainsSubstring;

/// A store in a folder of its own.
struct Fixture {
  TempFolder folder = *TempFolder::Create("exemplars");
  ExemplarConfig config;
  std::unique_ptr<ExemplarStore> store;

  Fixture() { config.remeasure.absolute = 1e9, config.remeasure.over_best = 1e9; }
  ExemplarStore& Open() {
    store.reset();
    absl::StatusOr<std::unique_ptr<ExemplarStore>> opened = ExemplarStore::Open(path(), config);
    INFO(opened.status());
    REQUIRE(opened.ok());
    store = *std::move(opened);
    return *store;
  }
  std::string path() const { return folder.path() + "/exemplars.db"; }
};

OfferResult Offer(ExemplarStore& store, const std::string& source, const Verdict& verdict,
                  std::optional<Verdict> second = std::nullopt, const std::string& task = "softmax") {
  const absl::StatusOr<OfferResult> result = store.Offer({task, source, verdict, second});
  INFO(result.status());
  REQUIRE(result.ok());
  return *result;
}

/// Every source that 300 draws showed.
std::set<std::string> Shown(ExemplarStore& store, const std::string& task = "softmax") {
  SplitMix random(5);
  std::set<std::string> shown;
  for (int i = 0; i < 300; ++i) {
    const auto pair = *store.Draw(task, random);
    if (!pair) return {};
    shown.insert(pair->first.source);
    shown.insert(pair->second.source);
  }
  return shown;
}

TEST_CASE("Two exemplars come from distinct buckets, the slower first", "[sampler]") {
  Fixture fixture;
  ExemplarStore& store = fixture.Open();
  Offer(store, "slow", PassedAt(1.01));
  Offer(store, "slow too", PassedAt(1.05));
  SplitMix random(3);
  CHECK_FALSE(store.Draw("softmax", random)->has_value());  // one bucket is no contrast
  Offer(store, "fast", PassedAt(2.5));
  for (int i = 0; i < 50; ++i) {
    const auto pair = **store.Draw("softmax", random);
    CHECK(pair.first.speedup < 1.1);
    CHECK(pair.second == Exemplar{"fast", 2.5});
  }
  CHECK(Shown(store) == std::set<std::string>{"slow", "slow too", "fast"});
  CHECK_FALSE(store.Draw("another task", random)->has_value());
}

TEST_CASE("Nothing but a verified pass with a speedup is ever stored", "[sampler]") {
  Fixture fixture;
  ExemplarStore& store = fixture.Open();
  for (const VerdictStatus status :
       {VerdictStatus::kParse, VerdictStatus::kForbidden, VerdictStatus::kCompile, VerdictStatus::kCompileTimeout,
        VerdictStatus::kRuntime, VerdictStatus::kTimeout, VerdictStatus::kOom, VerdictStatus::kIncorrect,
        VerdictStatus::kCheat, VerdictStatus::kInfra}) {
    Verdict verdict = PassedAt(2);  // even when a timing is attached
    verdict.status = status;
    CHECK(Offer(store, "source", verdict) == OfferResult::kIneligible);
  }
  CHECK(Offer(store, "source", VerdictOf(VerdictStatus::kOk, 1)) == OfferResult::kIneligible);  // not timed
  CHECK(Offer(store, "", PassedAt(2)) == OfferResult::kIneligible);
  CHECK(*store.Size() == 0);
}

TEST_CASE("The same source is stored once per task", "[sampler]") {
  Fixture fixture;
  ExemplarStore& store = fixture.Open();
  CHECK(Offer(store, "source", PassedAt(2)) == OfferResult::kStored);
  CHECK(Offer(store, "source", PassedAt(2.2)) == OfferResult::kKnown);
  CHECK(Offer(store, "source", PassedAt(2), std::nullopt, "relu") == OfferResult::kStored);
  CHECK(*store.Size() == 2);
}

TEST_CASE("A score too good to be believed is stored only when a second measurement confirms it", "[sampler]") {
  Fixture fixture;
  fixture.config.remeasure = {};
  ExemplarStore& store = fixture.Open();
  CHECK(Offer(store, "plain", PassedAt(1.2)) == OfferResult::kStored);
  CHECK(Offer(store, "wonder", PassedAt(4.0)) == OfferResult::kDoubted);  // above 3
  CHECK(Offer(store, "jump", PassedAt(2.5)) == OfferResult::kDoubted);    // above 2 * 1.2
  CHECK(Offer(store, "wonder", PassedAt(4.0), VerdictOf(VerdictStatus::kInfra)) == OfferResult::kDoubted);
  CHECK(Offer(store, "wonder", PassedAt(4.0), PassedAt(1.1)) == OfferResult::kRefuted);
  CHECK(Offer(store, "wonder", PassedAt(4.0), VerdictOf(VerdictStatus::kCheat)) == OfferResult::kRefuted);
  Verdict other_device = PassedAt(4.0);
  other_device.device = "NVIDIA H200";
  CHECK(Offer(store, "wonder", PassedAt(4.0), other_device) == OfferResult::kRefuted);
  CHECK(*store.Size() == 1);
  CHECK(Offer(store, "wonder", PassedAt(4.0), PassedAt(3.8)) == OfferResult::kStored);
  CHECK(*store.Best("softmax") == 3.8);  // the smaller of the two counts
}

TEST_CASE("Scores of another device or baseline are refused by name", "[sampler]") {
  Fixture fixture;
  ExemplarStore& store = fixture.Open();
  Offer(store, "source", PassedAt(2));
  Verdict gpu = PassedAt(2);
  gpu.device = "NVIDIA H200";
  const absl::Status status = store.Offer({"softmax", "other", gpu}).status();
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(status.message()), ContainsSubstring("'cpu'") && ContainsSubstring("'NVIDIA H200'"));
  CHECK(store.Offer({"softmax", "other", PassedAt(2, Baseline::kCompile)}).status().code() ==
        absl::StatusCode::kFailedPrecondition);
  CHECK(*store.Size() == 1);
}

TEST_CASE("A full bucket gives up its oldest, a full task that of its fullest bucket", "[sampler]") {
  Fixture fixture;
  fixture.config.per_bucket = 2;
  fixture.config.per_task = 3;
  ExemplarStore& store = fixture.Open();
  Offer(store, "a", PassedAt(1.01));
  Offer(store, "b", PassedAt(1.02));
  Offer(store, "c", PassedAt(1.03));  // the bucket is full: a goes
  Offer(store, "x", PassedAt(2.0));
  CHECK(Shown(store) == std::set<std::string>{"b", "c", "x"});
  Offer(store, "y", PassedAt(3.0));  // the task is full: b goes, of the fullest bucket
  CHECK(Shown(store) == std::set<std::string>{"c", "x", "y"});
  Offer(store, "z", PassedAt(4.0));  // all equally full: the slowest bucket's
  CHECK(*store.Size() == 3);
  CHECK(*store.Best("softmax") == 4.0);
  CHECK_FALSE(Shown(store).contains("c"));
}

TEST_CASE("The store outlives its process, and another process cannot open it meanwhile", "[sampler]") {
  Fixture fixture;
  Offer(fixture.Open(), "slow", PassedAt(1));
  CHECK(ExemplarStore::Open(fixture.path(), fixture.config).status().code() == absl::StatusCode::kFailedPrecondition);
  Offer(fixture.Open(), "fast", PassedAt(2));
  CHECK(Shown(fixture.Open()) == std::set<std::string>{"slow", "fast"});
}

TEST_CASE("Every offer that returned is there after kill -9", "[sampler]") {
  Fixture fixture;
  fixture.config.per_task = 100000;
  fixture.config.per_bucket = 100000;
  int pipe_fds[2];
  REQUIRE(pipe(pipe_fds) == 0);
  const pid_t child = fork();
  if (child == 0) {
    absl::StatusOr<std::unique_ptr<ExemplarStore>> store = ExemplarStore::Open(fixture.path(), fixture.config);
    for (int i = 0; store.ok(); ++i) {
      if (!(*store)->Offer({"softmax", "source " + std::to_string(i), PassedAt(1 + i % 9)}).ok()) break;
      if (write(pipe_fds[1], &i, sizeof(i)) != sizeof(i)) break;
    }
    _exit(1);
  }
  close(pipe_fds[1]);
  int last = -1;
  while (last < 40) REQUIRE(read(pipe_fds[0], &last, sizeof(last)) == sizeof(last));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  while (read(pipe_fds[0], &last, sizeof(last)) == sizeof(last)) {
  }
  close(pipe_fds[0]);
  const int64_t size = *fixture.Open().Size();
  CHECK(size >= last + 1);
  CHECK(size <= last + 2);  // one more may have been committed without having been reported
}

TEST_CASE("A mark brings back the store of that moment, those evicted since included", "[sampler]") {
  Fixture fixture;
  fixture.config.per_bucket = 1;
  ExemplarStore& store = fixture.Open();
  Offer(store, "a", PassedAt(1.0));
  Offer(store, "x", PassedAt(2.0));
  const int64_t mark = *store.Mark();
  Offer(store, "b", PassedAt(1.0));  // evicts a
  Offer(store, "y", PassedAt(3.0));
  const int64_t later = *store.Mark();
  REQUIRE(Shown(store) == std::set<std::string>{"b", "x", "y"});
  REQUIRE(store.RestoreTo(mark).ok());
  CHECK(Shown(store) == std::set<std::string>{"a", "x"});
  // The same offers again lead to the same store under the same mark.
  Offer(store, "b", PassedAt(1.0));
  Offer(store, "y", PassedAt(3.0));
  CHECK(*store.Mark() == later);
  CHECK(Shown(store) == std::set<std::string>{"b", "x", "y"});
  REQUIRE(store.Forget(later).ok());
  CHECK(store.RestoreTo(mark).code() == absl::StatusCode::kNotFound);
  CHECK(store.RestoreTo(later + 1).code() == absl::StatusCode::kNotFound);
  CHECK(store.RestoreTo(later).ok());
}

TEST_CASE("A file that is no store is refused and left as it is", "[sampler]") {
  Fixture fixture;
  REQUIRE(WriteFileAtomically(fixture.path(), "not a database, but long enough to look like one to a reader").ok());
  CHECK(ExemplarStore::Open(fixture.path(), fixture.config).status().code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(*ReadFile(fixture.path()), ContainsSubstring("not a database"));
  const std::string other = fixture.folder.path() + "/other.db";
  {
    std::unique_ptr<Database> database = *Database::Open(other);
    REQUIRE(database->Execute("CREATE TABLE things (a)").ok());
  }
  CHECK(ExemplarStore::Open(other, fixture.config).status().code() == absl::StatusCode::kDataLoss);
  {
    std::unique_ptr<Database> database = *Database::Open(other);
    REQUIRE(database->Execute("PRAGMA user_version = 99").ok());
  }
  CHECK(ExemplarStore::Open(other, fixture.config).status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hone::rollout
