#pragma once

// An engine with a builder and lanes that do what a candidate's source tells them to, so that tests can script a
// verifier's misfortunes. The first word of the source decides:
//   ok, incorrect, timeout      verdicts of the lane
//   compile, forbidden          verdicts of the builder
//   no_compiler, build_breaks   Statuses of the builder
//   crash, infra, bad_judge     the lane dies; says INFRA; calls the task unusable
//   crash_once                  dies the first time it sees this source
//   hang                        judges until interrupted or released

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "tests/support/memory_folder.h"
#include "verifier/queue/sqlite_queue.h"
#include "verifier/service/engine.h"

namespace hone::verifier {

inline std::string FirstWord(const std::string& text) { return text.substr(0, text.find(' ')); }

/// What happened, counted over all fakes of one fixture.
struct Counts {
  std::atomic<int> builds{0}, reads{0}, describes{0}, judgements{0}, lane_starts{0}, hanging{0};
  absl::Mutex mutex;
  std::vector<std::string> judged;    // sources, in order
  std::set<std::string> crashed_once;
  absl::Notification release;         // ends every hang

  std::vector<std::string> Judged() {
    absl::MutexLock lock(&mutex);
    return judged;
  }
};

class FakeBuilder final : public Builder {
 public:
  FakeBuilder(std::string folder, Counts& counts) : folder_(std::move(folder)), counts_(counts) {}

  absl::StatusOr<BuildResult> Build(const BuildRequest& request) override {
    ++counts_.builds;
    const std::string word = FirstWord(request.candidate.source);
    BuildResult result;
    result.toolchain = "fake 1";
    if (word == "no_compiler") return absl::FailedPreconditionError("no compiler: g++");
    if (word == "build_breaks") return absl::InternalError("the compiler's sandbox broke");
    if (word == "compile" || word == "forbidden") {
      result.status = word == "compile" ? VerdictStatus::kCompile : VerdictStatus::kForbidden;
      result.message = "line 1: " + word;
      return result;
    }
    result.artefact = absl::StrCat(folder_, "/", Sha256Hex(request.candidate.source), ".so");
    if (absl::Status written = WriteFileAtomically(result.artefact, request.candidate.source); !written.ok()) return written;
    return result;
  }
  absl::StatusOr<std::optional<BuildResult>> RejectUnbuilt(const BuildRequest& request) override {
    ++counts_.reads;
    const std::string word = FirstWord(request.candidate.source);
    if (word == "read_breaks") return absl::InternalError("the scan's sandbox broke");
    if (word != "forbidden") return std::nullopt;
    BuildResult result;
    result.status = VerdictStatus::kForbidden;
    result.message = "line 1: forbidden";
    return result;
  }
  std::string Toolchain(Backend) const override { return "fake 1"; }

 private:
  const std::string folder_;
  Counts& counts_;
};

class FakeLane final : public Lane {
 public:
  explicit FakeLane(Counts& counts) : counts_(counts) {}

  absl::StatusOr<Verdict> Judge(const LaneJob& job) override {
    const absl::StatusOr<std::string> source = ReadFile(job.build.artefact);
    if (!source.ok()) return source.status();
    ++counts_.judgements;
    const std::string word = FirstWord(*source);
    {
      absl::MutexLock lock(&counts_.mutex);
      counts_.judged.push_back(*source);
      if (word == "crash_once" && counts_.crashed_once.insert(*source).second) {
        return absl::UnavailableError("the lane died of signal 11");
      }
    }
    if (word == "crash") return absl::UnavailableError("the lane died of signal 11");
    if (word == "bad_judge") return absl::InvalidArgumentError("get_inputs returns no tensors");
    if (word == "hang" && !Hang()) return absl::CancelledError("the lane was stopped");
    Verdict verdict;
    verdict.status = word == "incorrect" ? VerdictStatus::kIncorrect
                     : word == "timeout" ? VerdictStatus::kTimeout
                     : word == "infra"   ? VerdictStatus::kInfra
                                         : VerdictStatus::kOk;
    verdict.message = "judged " + *source;
    verdict.device = "fake cpu";
    verdict.seconds.check = 0.25;
    return verdict;
  }

  absl::StatusOr<Signature> Describe(const Task& task) override {
    ++counts_.describes;
    if (FirstWord(task.reference) == "raises") return absl::InvalidArgumentError("line 3: NameError: x");
    if (FirstWord(task.reference) == "breaks") return absl::UnavailableError("the reference worker died");
    Signature signature;
    signature.sizes = {{"n", 7, false}};
    return signature;
  }

  LaneFacts Facts() const override { return {"fake cpu", "none"}; }
  RunnerSupply Supply() const override { return {5, 0.25}; }
  void Interrupt() override {
    if (!interrupted_.HasBeenNotified()) interrupted_.Notify();
  }

 private:
  bool Hang() {
    ++counts_.hanging;
    while (!counts_.release.HasBeenNotified() && !interrupted_.HasBeenNotified()) absl::SleepFor(absl::Milliseconds(1));
    --counts_.hanging;
    return !interrupted_.HasBeenNotified();
  }

  Counts& counts_;
  absl::Notification interrupted_;
};

/// The dependencies of an engine, which tests may start and drop over the same files.
struct EngineFixture {
  TempFolder folder = MemoryFolder("engine_test");
  Counts counts;
  FakeBuilder builder{folder.path(), counts};
  int lanes = 1;
  int build_slots = 2;
  int most_passes = 1'000'000;
  std::unique_ptr<Queue> queue;
  std::unique_ptr<ResultCache> cache;
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<Engine> engine;

  ~EngineFixture() { Stop(); }

  void OpenStores() {
    SqliteQueueOptions queue_options;
    queue_options.path = folder.path() + "/queue.db";
    queue_options.version = "test";
    queue = *OpenSqliteQueue(queue_options);
    ResultCacheOptions cache_options;
    cache_options.path = folder.path() + "/results.db";
    cache_options.version = "test";
    cache = *ResultCache::Open(cache_options);
    metrics = std::make_unique<Metrics>(*queue, *cache);
  }
  absl::Status Start() {
    OpenStores();
    EngineOptions options;
    options.version = "test";
    options.node = "here";
    options.pass_on_pause = absl::Milliseconds(1);
    options.most_passes = most_passes;
    options.build_slots = build_slots;
    options.lane_backoff_min = absl::Milliseconds(1);
    for (int i = 0; i < lanes; ++i) {
      options.lanes.push_back({"cpu", absl::StrCat("cpu:", i), [this]() -> absl::StatusOr<std::unique_ptr<Lane>> {
                                 ++counts.lane_starts;
                                 return std::make_unique<FakeLane>(counts);
                               }});
    }
    absl::StatusOr<std::unique_ptr<Engine>> started =
        Engine::Create(std::move(options), *queue, *cache, builder, *metrics, Logger::Discard());
    if (started.ok()) engine = *std::move(started);
    return started.status();
  }
  void Stop() {
    engine.reset();
    metrics.reset();
    cache.reset();
    queue.reset();
  }
};

inline VerifyRequest Request(const std::string& source) {
  VerifyRequest request;
  request.task.id = "t";
  request.task.reference = "reference";
  request.candidate.source = source;
  return request;
}

/// The answer to one call, waited for.
template <class T>
class Answer {
 public:
  std::function<void(absl::StatusOr<T>)> Callback() {
    return [state = state_](absl::StatusOr<T> value) {
      absl::MutexLock lock(&state->mutex);
      ++state->count;
      state->value = std::move(value);
    };
  }
  absl::StatusOr<T> Wait() const {
    absl::MutexLock lock(&state_->mutex);
    const auto there = [](State* state) { return state->count > 0; };
    if (!state_->mutex.AwaitWithTimeout(absl::Condition(+there, state_.get()), absl::Seconds(30))) {
      return absl::DeadlineExceededError("no answer within the test's patience");
    }
    return state_->value;
  }
  int count() const {
    absl::MutexLock lock(&state_->mutex);
    return state_->count;
  }

 private:
  struct State {
    absl::Mutex mutex;
    int count = 0;
    absl::StatusOr<T> value;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Waits for what other threads are about to do.
template <class Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 30'000; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

}  // namespace hone::verifier
