#include "verifier/service/engine.h"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/steady_time.h"
#include "tests/verifier/service/fakes.h"
#include "verifier/service/noop_lane.h"

namespace hone::verifier {
namespace {

struct Fixture : EngineFixture {
  Fixture(int lane_count = 1, int slots = 2) {
    lanes = lane_count;
    build_slots = slots;
    const absl::Status started = Start();
    INFO(started.ToString());
    REQUIRE(started.ok());
  }
  absl::StatusOr<Verdict> Verify(const VerifyRequest& request) {
    Answer<Verdict> answer;
    engine->Verify(request, answer.Callback());
    return answer.Wait();
  }
  absl::StatusOr<Verdict> Verify(const std::string& source) { return Verify(Request(source)); }
  VerdictStatus StatusOf(const VerifyRequest& request) {
    absl::StatusOr<Verdict> verdict = Verify(request);
    INFO(verdict.status().ToString());
    REQUIRE(verdict.ok());
    return verdict->status;
  }
};

TEST_CASE("A verdict carries the lane's words and the engine's evidence", "[verifier][service]") {
  Fixture f;
  VerifyRequest request = Request("incorrect a");
  request.protocol = *ProtocolById("quick");
  const absl::StatusOr<Verdict> verdict = f.Verify(request);
  REQUIRE(verdict.ok());
  CHECK(verdict->status == VerdictStatus::kIncorrect);
  CHECK(verdict->message == "judged incorrect a");
  CHECK(verdict->protocol == "quick");
  CHECK(verdict->device == "fake cpu");
  CHECK(verdict->seconds.check == 0.25);
  CHECK(verdict->seconds.build > 0);
  CHECK_FALSE(verdict->from_cache);
}

TEST_CASE("What does not build never reaches a lane", "[verifier][service]") {
  Fixture f;
  CHECK(f.StatusOf(Request("compile")) == VerdictStatus::kCompile);
  CHECK(f.StatusOf(Request("forbidden")) == VerdictStatus::kForbidden);
  CHECK(f.Verify("compile")->message == "line 1: compile");
  CHECK(f.counts.judgements == 0);
}

TEST_CASE("What the text of a Python candidate rejects has its verdict before its task is described", "[verifier][service]") {
  Fixture f;
  VerifyRequest request = Request("forbidden");
  request.candidate.format = GENERATE(Format::kTorch, Format::kTriton);
  CHECK(f.StatusOf(request) == VerdictStatus::kForbidden);
  CHECK(f.Verify(request)->message == "line 1: forbidden");
  CHECK(f.counts.describes == 0);
  CHECK(f.counts.builds == 0);
  CHECK(f.counts.reads == 1);  // the second verdict is the cache's
  SECTION("what it does not reject is described, built and judged") {
    request.candidate.source = "ok";
    CHECK(f.StatusOf(request) == VerdictStatus::kOk);
    CHECK(f.counts.describes == 1);
    CHECK(f.counts.builds == 1);
    CHECK(f.counts.reads == 2);
    SECTION("and read no more by itself where the task is known") {
      request.candidate.source = "ok again";
      CHECK(f.StatusOf(request) == VerdictStatus::kOk);
      CHECK(f.counts.reads == 2);
    }
  }
  SECTION("a read that breaks is tried again and then told") {
    request.candidate.source = "read_breaks";
    const absl::StatusOr<Verdict> verdict = f.Verify(request);
    REQUIRE(verdict.ok());
    CHECK(verdict->status == VerdictStatus::kInfra);
    CHECK(f.counts.reads == 4);
  }
  SECTION("a task that nobody can describe is still an error") {
    request.candidate.source = "ok";
    request.task.reference = "raises";
    CHECK(f.Verify(request).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("The same content is measured once, unless asked again or not the candidate's own", "[verifier][service]") {
  Fixture f;
  VerifyRequest request = Request("ok");
  CHECK_FALSE(f.Verify(request)->from_cache);
  const absl::StatusOr<Verdict> cached = f.Verify(request);
  CHECK(cached->from_cache);
  CHECK(cached->message == "judged ok");
  CHECK(f.counts.judgements == 1);
  SECTION("another candidate is another content") {
    CHECK_FALSE(f.Verify("ok other")->from_cache);
  }
  SECTION("another protocol is another content") {
    request.protocol = *ProtocolById("quick");
    CHECK_FALSE(f.Verify(request)->from_cache);
  }
  SECTION("asked again") {
    request.use_cache = false;
    CHECK_FALSE(f.Verify(request)->from_cache);
    CHECK(f.counts.judgements == 2);
  }
  SECTION("a time-out may have been the machine's") {
    CHECK_FALSE(f.Verify("timeout")->from_cache);
    CHECK_FALSE(f.Verify("timeout")->from_cache);
    CHECK(f.counts.judgements == 3);
  }
}

TEST_CASE("Requests of one content in flight are one job, and each gets the verdict", "[verifier][service]") {
  Fixture f;
  std::vector<Answer<Verdict>> answers(20);
  for (Answer<Verdict>& answer : answers) f.engine->Verify(Request("hang"), answer.Callback());
  REQUIRE(Eventually([&] { return f.counts.hanging == 1; }));
  f.counts.release.Notify();
  for (Answer<Verdict>& answer : answers) {
    CHECK(answer.Wait()->ok());
    CHECK(answer.count() == 1);
  }
  CHECK(f.counts.judgements == 1);
}

TEST_CASE("A task is described once for all its candidates", "[verifier][service]") {
  Fixture f;
  Answer<Signature> signature;
  f.engine->Describe(Request("").task, signature.Callback());
  REQUIRE(signature.Wait().ok());
  CHECK(signature.Wait()->sizes.front().name == "n");
  for (int i = 0; i < 5; ++i) CHECK(f.StatusOf(Request("ok " + std::to_string(i))) == VerdictStatus::kOk);
  CHECK(f.counts.describes == 1);
  VerifyRequest other = Request("ok");
  other.task.reference = "another reference";
  CHECK(f.StatusOf(other) == VerdictStatus::kOk);
  CHECK(f.counts.describes == 2);
}

TEST_CASE("A lane that dies costs one try: the job is judged by the next one", "[verifier][service]") {
  Fixture f;
  Answer<Verdict> answer;
  f.engine->Verify(Request("crash_once"), answer.Callback());
  CHECK(answer.Wait()->status == VerdictStatus::kOk);
  CHECK(f.counts.lane_starts == 2);
  CHECK(f.StatusOf(Request("ok")) == VerdictStatus::kOk);
  CHECK(answer.count() == 1);
}

TEST_CASE("A job that fails three times is INFRA with the reason, is not remembered, and harms nobody", "[verifier][service]") {
  Fixture f;
  const std::string source = GENERATE("crash", "infra", "build_breaks");
  INFO(source);
  std::vector<Answer<Verdict>> others(10);
  for (size_t i = 0; i < others.size(); ++i) f.engine->Verify(Request("ok " + std::to_string(i)), others[i].Callback());
  const absl::StatusOr<Verdict> verdict = f.Verify(source);
  REQUIRE(verdict.ok());
  CHECK(verdict->status == VerdictStatus::kInfra);
  CHECK(verdict->message.find("(3 tries)") != std::string::npos);
  for (Answer<Verdict>& other : others) CHECK(other.Wait()->status == VerdictStatus::kOk);
  const int tries = f.counts.builds + f.counts.judgements;
  CHECK(f.Verify(source)->status == VerdictStatus::kInfra);
  CHECK(f.counts.builds + f.counts.judgements > tries);
}

TEST_CASE("What the caller must mend is an error at once, not a verdict and not a try", "[verifier][service]") {
  Fixture f;
  SECTION("a module that raises") {
    VerifyRequest request = Request("ok");
    request.task.reference = "raises";
    const absl::Status status = f.Verify(request).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message() == "line 3: NameError: x");
    Answer<Signature> signature;
    f.engine->Describe(request.task, signature.Callback());
    CHECK(absl::IsInvalidArgument(signature.Wait().status()));
  }
  SECTION("a module that fails when it is judged") {
    CHECK(absl::IsInvalidArgument(f.Verify("bad_judge").status()));
    CHECK(f.counts.judgements == 1);
    CHECK(f.counts.lane_starts == 1);
  }
  SECTION("a missing compiler") {
    const absl::Status status = f.Verify("no_compiler").status();
    CHECK(absl::IsFailedPrecondition(status));
    CHECK(status.message() == "no compiler: g++");
    CHECK(f.counts.builds == 1);
  }
  SECTION("a scalar baseline that does not build") {
    VerifyRequest request = Request("ok");
    request.protocol.baselines = {Baseline::kScalar};
    request.task.scalar_baseline = "compile";
    CHECK(absl::IsInvalidArgument(f.Verify(request).status()));
  }
  SECTION("a backend that is not there") {
    VerifyRequest request = Request("ok");
    request.candidate.backend = Backend::kMusa;
    const absl::Status status = f.Verify(request).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message() == "this verifier has no musa device; it has: cpu");
  }
}

TEST_CASE("The scalar baseline is built only when the protocol asks for it and the task has one", "[verifier][service]") {
  Fixture f;
  VerifyRequest request = Request("ok");
  request.task.scalar_baseline = "ok scalar";
  CHECK(f.StatusOf(request) == VerdictStatus::kOk);
  CHECK(f.counts.builds == 1);
  request.protocol.baselines = {Baseline::kEager, Baseline::kScalar};
  CHECK(f.StatusOf(request) == VerdictStatus::kOk);
  CHECK(f.counts.builds == 3);
  request.task.scalar_baseline.clear();
  CHECK(f.StatusOf(request) == VerdictStatus::kOk);
  CHECK(f.counts.builds == 4);
}

TEST_CASE("A worker that dies while describing is tried again and then told as an error", "[verifier][service]") {
  Fixture f;
  VerifyRequest request = Request("ok");
  request.task.reference = "breaks";
  CHECK(f.StatusOf(request) == VerdictStatus::kInfra);
  CHECK(f.counts.describes == 3);
  Answer<Signature> signature;
  f.engine->Describe(request.task, signature.Callback());
  CHECK(absl::IsInternal(signature.Wait().status()));
}

TEST_CASE("An evaluation somebody waits for overtakes a training batch", "[verifier][service]") {
  Fixture f(1, 1);
  Answer<Verdict> hanging;
  f.engine->Verify(Request("hang"), hanging.Callback());
  REQUIRE(Eventually([&] { return f.counts.hanging == 1; }));
  std::vector<Answer<Verdict>> batch(5);
  for (size_t i = 0; i < batch.size(); ++i) f.engine->Verify(Request("ok " + std::to_string(i)), batch[i].Callback());
  VerifyRequest urgent = Request("ok urgent");
  urgent.priority = Priority::kHigh;
  Answer<Verdict> first;
  f.engine->Verify(urgent, first.Callback());
  REQUIRE(Eventually([&] { return f.counts.builds == 7; }));
  f.counts.release.Notify();
  for (Answer<Verdict>& answer : batch) REQUIRE(answer.Wait().ok());
  CHECK(f.counts.Judged().at(1) == "ok urgent");
}

TEST_CASE("Cancel ends what waits and what runs under a key, and nothing else", "[verifier][service]") {
  Fixture f;
  VerifyRequest running = Request("hang");
  running.key = "mine";
  VerifyRequest waiting = Request("ok waiting");
  waiting.key = "mine";
  VerifyRequest shared = Request("ok waiting");
  shared.key = "yours";
  Answer<Verdict> one, two, other;
  f.engine->Verify(running, one.Callback());
  REQUIRE(Eventually([&] { return f.counts.hanging == 1; }));
  f.engine->Verify(waiting, two.Callback());
  f.engine->Verify(shared, other.Callback());
  CHECK(f.engine->Cancel("mine") == 2);
  CHECK(absl::IsCancelled(one.Wait().status()));
  CHECK(absl::IsCancelled(two.Wait().status()));
  CHECK(f.engine->Cancel("mine") == 0);
  f.counts.release.Notify();
  CHECK(other.Wait()->ok());
  CHECK(one.count() == 1);
  CHECK(two.count() == 1);
}

TEST_CASE("A job that nobody waits for any more is not judged", "[verifier][service]") {
  Fixture f;
  Answer<Verdict> hanging, gone;
  f.engine->Verify(Request("hang"), hanging.Callback());
  REQUIRE(Eventually([&] { return f.counts.hanging == 1; }));
  const auto call = f.engine->Verify(Request("ok gone"), gone.Callback());
  REQUIRE(Eventually([&] { return f.counts.builds == 2; }));
  REQUIRE(Eventually([&] { return f.queue->Stats().kinds["lane/cpu"].waiting == 1; }));
  f.engine->Abandon(call);
  f.counts.release.Notify();
  CHECK(hanging.Wait()->ok());
  CHECK(f.StatusOf(Request("ok last")) == VerdictStatus::kOk);
  CHECK(gone.count() == 0);
  CHECK(f.counts.Judged() == std::vector<std::string>{"hang", "ok last"});
}

TEST_CASE("A key joins a second request that bypasses the cache to the first one's job", "[verifier][service]") {
  Fixture f;
  VerifyRequest request = Request("ok");
  request.use_cache = false;
  request.key = "once";
  CHECK(f.StatusOf(request) == VerdictStatus::kOk);
  CHECK(f.StatusOf(request) == VerdictStatus::kOk);
  CHECK(f.counts.judgements == 1);
  request.key = "twice";
  CHECK(f.StatusOf(request) == VerdictStatus::kOk);
  CHECK(f.counts.judgements == 2);
  request.candidate.source = "ok other";
  CHECK(absl::IsInvalidArgument(f.Verify(request).status()));
}

TEST_CASE("Draining refuses new requests and waits for the open ones", "[verifier][service]") {
  Fixture f;
  Answer<Verdict> open;
  f.engine->Verify(Request("hang"), open.Callback());
  REQUIRE(Eventually([&] { return f.counts.hanging == 1; }));
  SECTION("until they are done") {
    std::thread drain([&] { f.engine->Drain(SteadyTime::Now() + absl::Seconds(30)); });
    REQUIRE(Eventually([&] { return absl::IsUnavailable(f.Verify("compile").status()); }));
    CHECK(open.count() == 0);
    f.counts.release.Notify();
    drain.join();
    CHECK(open.Wait()->ok());
  }
  SECTION("until its time is over, and then tells the callers so") {
    f.engine->Drain(SteadyTime::Now());
    CHECK(absl::IsUnavailable(open.Wait().status()));
  }
}

TEST_CASE("What an engine leaves behind is finished by the next one over the same queue", "[verifier][service]") {
  Fixture f;
  Answer<Verdict> running, waiting;
  f.engine->Verify(Request("hang"), running.Callback());
  REQUIRE(Eventually([&] { return f.counts.hanging == 1; }));
  f.engine->Verify(Request("ok waiting"), waiting.Callback());
  REQUIRE(Eventually([&] { return f.queue->Stats().kinds["lane/cpu"].waiting == 1; }));
  f.Stop();
  CHECK(absl::IsUnavailable(running.Wait().status()));
  CHECK(absl::IsUnavailable(waiting.Wait().status()));
  f.counts.release.Notify();
  REQUIRE(f.Start().ok());
  CHECK(f.StatusOf(Request("hang")) == VerdictStatus::kOk);
  CHECK(f.StatusOf(Request("ok waiting")) == VerdictStatus::kOk);
  CHECK(f.counts.Judged() == std::vector<std::string>{"hang", "hang", "ok waiting"});
}

TEST_CASE("An artefact that left the store while its job waited is built again", "[verifier][service]") {
  Fixture f;
  Answer<Verdict> hanging, waiting;
  f.engine->Verify(Request("hang"), hanging.Callback());
  REQUIRE(Eventually([&] { return f.counts.hanging == 1; }));
  f.engine->Verify(Request("ok evicted"), waiting.Callback());
  REQUIRE(Eventually([&] { return f.queue->Stats().kinds["lane/cpu"].waiting == 1; }));
  REQUIRE(unlink((f.folder.path() + "/" + Sha256Hex("ok evicted") + ".so").c_str()) == 0);
  f.counts.release.Notify();
  CHECK(waiting.Wait()->status == VerdictStatus::kOk);
  CHECK(f.counts.builds == 3);
}

TEST_CASE("Several lanes judge at the same time", "[verifier][service]") {
  Fixture f(3);
  std::vector<Answer<Verdict>> answers(3);
  for (size_t i = 0; i < 3; ++i) f.engine->Verify(Request("hang " + std::to_string(i)), answers[i].Callback());
  CHECK(Eventually([&] { return f.counts.hanging == 3; }));
  f.counts.release.Notify();
  for (Answer<Verdict>& answer : answers) CHECK(answer.Wait()->ok());
}

/// Judged by any lane but that of `first`.
VerifyRequest Elsewhere(const std::string& source, const Verdict& first) {
  VerifyRequest request = Request(source);
  request.avoid_lane = first.lane;
  return request;
}

TEST_CASE("A second measurement waits for another lane of the kind, while the avoided one does other work",
          "[verifier][service]") {
  EngineFixture f;
  f.lanes = 2;
  REQUIRE(f.Start().ok());
  Answer<Verdict> first, hung, second, other;
  f.engine->Verify(Request("ok first"), first.Callback());
  REQUIRE(first.Wait().ok());
  const std::string avoided = first.Wait()->lane;
  CHECK((avoided == "here/cpu:0" || avoided == "here/cpu:1"));
  f.engine->Verify(Elsewhere("hang", *first.Wait()), hung.Callback());
  REQUIRE(Eventually([&] { return f.counts.hanging == 1; }));
  f.engine->Verify(Elsewhere("ok first", *first.Wait()), second.Callback());
  f.engine->Verify(Request("ok other"), other.Callback());
  REQUIRE(other.Wait().ok());
  CHECK(other.Wait()->lane == avoided);
  CHECK(second.count() == 0);
  f.counts.release.Notify();
  REQUIRE(second.Wait().ok());
  CHECK(second.Wait()->ok());
  CHECK_FALSE(second.Wait()->from_cache);
  CHECK(second.Wait()->lane != avoided);
  CHECK(second.Wait()->lane == hung.Wait()->lane);
}

TEST_CASE("A second measurement is made by the avoided lane where there is no other, or none that comes to it",
          "[verifier][service]") {
  EngineFixture f;
  Answer<Verdict> first, hung, second;
  SECTION("no other") {
    f.lanes = 1;
    REQUIRE(f.Start().ok());
    f.engine->Verify(Request("ok"), first.Callback());
    REQUIRE(first.Wait().ok());
  }
  SECTION("none that comes to it") {
    f.lanes = 2;
    f.most_passes = 3;
    REQUIRE(f.Start().ok());
    f.engine->Verify(Request("hang"), hung.Callback());
    REQUIRE(Eventually([&] { return f.counts.hanging == 1; }));
    f.engine->Verify(Request("ok"), first.Callback());
    REQUIRE(first.Wait().ok());
  }
  f.engine->Verify(Elsewhere("ok", *first.Wait()), second.Callback());
  REQUIRE(second.Wait().ok());
  CHECK(second.Wait()->lane == first.Wait()->lane);
  f.counts.release.Notify();
}

TEST_CASE("Thousands of requests from many threads get one verdict each", "[verifier][service]") {
  Fixture f(2);
  constexpr int kThreads = 4, kEach = 250;
  std::vector<std::vector<Answer<Verdict>>> answers;
  for (int t = 0; t < kThreads; ++t) answers.emplace_back(kEach);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const char* word = i % 50 == 7 ? "crash_once " : i % 3 == 0 ? "incorrect " : i % 5 == 0 ? "compile " : "ok ";
        // Half of the contents are asked for by two threads.
        const int id = i % 2 == 0 ? i : t * kEach + i;
        f.engine->Verify(Request(word + std::to_string(id)), answers[t][i].Callback());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kEach; ++i) {
      const absl::StatusOr<Verdict> verdict = answers[t][i].Wait();
      REQUIRE(verdict.ok());
      const VerdictStatus expected = i % 50 == 7 ? VerdictStatus::kOk
                                     : i % 3 == 0 ? VerdictStatus::kIncorrect
                                     : i % 5 == 0 ? VerdictStatus::kCompile
                                                  : VerdictStatus::kOk;
      CHECK(verdict->status == expected);
      CHECK(answers[t][i].count() == 1);
    }
  }
  CHECK(f.queue->Stats().bytes == 0);
}

TEST_CASE("A lane that cannot be started is the engine's error", "[verifier][service]") {
  EngineFixture f;
  f.OpenStores();
  EngineOptions options;
  options.lanes = {{"cpu", "cpu:0", [] { return absl::FailedPreconditionError("python3 has no torch"); }}};
  const absl::Status status =
      Engine::Create(std::move(options), *f.queue, *f.cache, f.builder, *f.metrics, Logger::Discard()).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(status.message() == "lane cpu:0: python3 has no torch");
}

/// A lane of which every job dies while `broken`, beside what judges.
class FlakyLane final : public Lane {
 public:
  FlakyLane(Counts& counts, std::atomic<bool>& broken, std::atomic<int>& judged)
      : inner_(counts), broken_(broken), judged_(judged) {}
  absl::StatusOr<Verdict> Judge(const LaneJob& job) override {
    ++judged_;
    if (broken_) return absl::UnavailableError("cuda device: comparing an output: cudaErrorECCUncorrectable");
    return inner_.Judge(job);
  }
  absl::StatusOr<Signature> Describe(const Task& task) override { return inner_.Describe(task); }
  LaneFacts Facts() const override { return inner_.Facts(); }

 private:
  FakeLane inner_;
  std::atomic<bool>& broken_;
  std::atomic<int>& judged_;
};

TEST_CASE("A GPU that fails one job after the other is kept from jobs until it starts again in order", "[verifier][service]") {
  EngineFixture f;
  f.OpenStores();
  std::atomic<bool> broken = true, starts = true;
  std::atomic<int> judged_by_broken = 0;
  EngineOptions options;
  options.version = "test";
  options.build_slots = 2;
  options.lane_backoff_min = absl::Milliseconds(1);
  options.quarantine_min = absl::Seconds(1);
  options.lanes.push_back({"cpu", "cpu:0", [&]() -> absl::StatusOr<std::unique_ptr<Lane>> {
                             if (!starts) return absl::FailedPreconditionError("its probe after a fault: wrong");
                             return std::make_unique<FlakyLane>(f.counts, broken, judged_by_broken);
                           }});
  options.lanes.push_back({"cpu", "cpu:1", [&]() -> absl::StatusOr<std::unique_ptr<Lane>> {
                             return std::make_unique<FakeLane>(f.counts);
                           }});
  auto engine = Engine::Create(std::move(options), *f.queue, *f.cache, f.builder, *f.metrics, Logger::Discard());
  REQUIRE(engine.ok());
  const auto in_quarantine = [&] {
    return f.metrics->Text().find("hone_lane_state{lane=\"cpu:0\",state=\"quarantined\"} 1") != std::string::npos;
  };
  int sent = 0;
  const auto verify = [&] {
    Answer<Verdict> answer;
    VerifyRequest request = Request(absl::StrCat("ok ", ++sent));
    request.task.reference = absl::StrCat("reference ", sent);
    (*engine)->Verify(request, answer.Callback());
    return answer.Wait();
  };
  while (!in_quarantine()) REQUIRE(verify().ok());
  CHECK(judged_by_broken >= 3);
  starts = false;  // the probe finds it broken still
  const int before = judged_by_broken;
  for (int i = 0; i < 20; ++i) CHECK(verify()->status == VerdictStatus::kOk);
  CHECK(Eventually([&] { return !in_quarantine(); }));
  CHECK(judged_by_broken <= before + 1);  // one may have been on its way
  broken = false;
  starts = true;
  CHECK(Eventually([&] {
    (void)verify();
    return judged_by_broken > before + 1;
  }));
}

TEST_CASE("One task that kills every lane it meets quarantines none", "[verifier][service]") {
  Fixture f;
  for (int i = 0; i < 3; ++i) CHECK(f.Verify(absl::StrCat("crash ", i))->status == VerdictStatus::kInfra);
  CHECK(f.StatusOf(Request("ok")) == VerdictStatus::kOk);
  CHECK(f.metrics->Text().find("state=\"quarantined\"} 1") == std::string::npos);
}

TEST_CASE("While lanes are held requests are traced, built and refused, and are judged afterwards in their order", "[verifier][service]") {
  Fixture f(/*lane_count=*/1, /*slots=*/1);
  REQUIRE(f.StatusOf(Request("ok before")) == VerdictStatus::kOk);
  absl::SleepFor(absl::Milliseconds(20));  // the lane waits for its next job when the hold comes
  bool quiet = false;
  std::shared_ptr<void> hold = f.engine->HoldLanes([&] { quiet = true; });
  CHECK(quiet);
  std::shared_ptr<void> another = f.engine->HoldLanes([] {});
  std::vector<Answer<Verdict>> answers(4);
  std::vector<std::string> expected = {"ok before"};
  for (size_t i = 0; i < answers.size(); ++i) {
    VerifyRequest request = Request(expected.emplace_back(absl::StrCat("ok ", i)));
    request.task.reference = absl::StrCat("another reference ", i / 2);  // that the held lane traces
    f.engine->Verify(request, answers[i].Callback());
  }
  CHECK(f.StatusOf(Request("compile")) == VerdictStatus::kCompile);
  CHECK(Eventually([&] { return f.counts.builds == 6; }));
  CHECK(f.counts.describes == 3);
  absl::SleepFor(absl::Milliseconds(50));
  CHECK(f.counts.judgements == 1);
  hold.reset();
  absl::SleepFor(absl::Milliseconds(50));
  CHECK(f.counts.judgements == 1);  // the other hold is still there
  another.reset();
  for (Answer<Verdict>& answer : answers) CHECK(answer.Wait()->status == VerdictStatus::kOk);
  CHECK(f.counts.Judged() == expected);
  CHECK(f.metrics->Text().find("hone_failed_tries_total{") == std::string::npos);
}

TEST_CASE("A hold is quiet when what was being judged is", "[verifier][service]") {
  Fixture f(/*lane_count=*/2);
  Answer<Verdict> first, second;
  f.engine->Verify(Request("hang a"), first.Callback());
  f.engine->Verify(Request("hang b"), second.Callback());
  REQUIRE(Eventually([&] { return f.counts.hanging == 2; }));
  std::atomic<bool> quiet = false;
  const std::shared_ptr<void> hold = f.engine->HoldLanes([&] { quiet = true; });
  absl::SleepFor(absl::Milliseconds(20));
  CHECK_FALSE(quiet);
  f.counts.release.Notify();
  CHECK(first.Wait()->status == VerdictStatus::kOk);
  CHECK(second.Wait()->status == VerdictStatus::kOk);
  CHECK(Eventually([&] { return quiet.load(); }));
}

TEST_CASE("An engine stops although its lanes are held", "[verifier][service]") {
  Fixture f;
  std::shared_ptr<void> hold = f.engine->HoldLanes([] {});
  Answer<Verdict> answer;
  f.engine->Verify(Request("ok"), answer.Callback());
  f.engine->Drain(SteadyTime::Now() + absl::Milliseconds(50));
  CHECK(absl::IsUnavailable(answer.Wait().status()));
  hold.reset();
}

TEST_CASE("A verifier of several devices starts with those that are in order", "[verifier][service]") {
  EngineFixture f;
  f.OpenStores();
  std::atomic<int> tries = 0;
  EngineOptions options;
  options.lane_backoff_min = absl::Milliseconds(1);
  options.lanes.push_back({"cpu", "cpu:0", [&]() -> absl::StatusOr<std::unique_ptr<Lane>> {
                             if (++tries < 3) return absl::FailedPreconditionError("its probe: wrong");
                             return std::make_unique<FakeLane>(f.counts);
                           }});
  options.lanes.push_back({"cpu", "cpu:1", [&]() -> absl::StatusOr<std::unique_ptr<Lane>> {
                             return std::make_unique<FakeLane>(f.counts);
                           }});
  auto engine = Engine::Create(std::move(options), *f.queue, *f.cache, f.builder, *f.metrics, Logger::Discard());
  REQUIRE(engine.ok());
  CHECK(Eventually([&] { return tries >= 3; }));
}

TEST_CASE("The no-op device says OK by its own name and is never remembered", "[verifier][service]") {
  EngineFixture f;
  f.OpenStores();
  EngineOptions options;
  options.lanes = {{kNoopDevice, "noop:0", [] { return MakeNoopLane(); }}};
  auto engine = Engine::Create(std::move(options), *f.queue, *f.cache, f.builder, *f.metrics, Logger::Discard());
  REQUIRE(engine.ok());
  Answer<Verdict> answer;
  (*engine)->Verify(Request("anything"), answer.Callback());
  const absl::StatusOr<Verdict> verdict = answer.Wait();
  REQUIRE(verdict.ok());
  CHECK(verdict->status == VerdictStatus::kOk);
  CHECK(verdict->device == "noop");
  CHECK(f.cache->entries() == 0);
}

TEST_CASE("Metrics count what happened", "[verifier][service]") {
  Fixture f;
  for (const char* source : {"ok", "ok", "incorrect", "compile", "crash_once"}) REQUIRE(f.Verify(source).ok());
  const std::string text = f.metrics->Text();
  for (const char* line : {
           "hone_verdicts_total{device=\"fake cpu\",status=\"OK\"} 2",
           "hone_verdicts_total{device=\"fake cpu\",status=\"INCORRECT\"} 1",
           "hone_verdicts_total{device=\"fake cpu\",status=\"COMPILE\"} 1",
           "hone_request_seconds_count{cache=\"hit\"} 1",
           "hone_request_seconds_count{cache=\"miss\"} 4",
           "hone_phase_seconds_count{phase=\"build\"} 4",
           "hone_failed_tries_total{stage=\"lane\"} 1",
           "hone_lane_starts_total{lane=\"cpu:0\"} 2",
           "hone_runners_ahead{lane=\"cpu:0\"} 5",
           "hone_runner_wait_seconds_total{lane=\"cpu:0\"} 0.75",
           "hone_result_cache_entries 4",
           "hone_queue_bytes 0",
       }) {
    INFO(line);
    CHECK(text.find(std::string(line) + "\n") != std::string::npos);
  }
}

}  // namespace
}  // namespace hone::verifier
