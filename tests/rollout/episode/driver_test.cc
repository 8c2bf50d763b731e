#include "rollout/episode/driver.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <algorithm>
#include <deque>
#include <set>

#include "tests/rollout/groups.h"

namespace hone::rollout {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinAbs;

/// Answers one token 1000 + n, n counting samples.
class CountingEngine final : public Engine {
 public:
  absl::StatusOr<std::vector<std::vector<Sample>>> Generate(absl::Span<const GenerationRequest> asked,
                                                            const GenerateOptions& options) override {
    std::vector<std::vector<Sample>> result;
    for (const GenerationRequest& request : asked) {
      requests.push_back(request);
      std::vector<Sample>& samples = result.emplace_back();
      for (int64_t i = 0; i < request.samples; ++i) {
        const bool aborted = options.abort != nullptr && *options.abort;
        samples.push_back({{1000 + count++}, {-0.5f}, {{0, 1, 7}}, aborted ? FinishReason::kAborted : finish});
      }
    }
    if (drop_one) result.back().pop_back();
    return result;
  }
  absl::Status SetPolicyVersion(int64_t) override { return absl::OkStatus(); }
  int64_t policy_version() const override { return 7; }

  int32_t count = 0;
  bool drop_one = false;
  FinishReason finish = FinishReason::kStop;
  std::vector<GenerationRequest> requests;
};

class PlainEncoder final : public TurnEncoder {
 public:
  absl::StatusOr<std::vector<int32_t>> EncodeFeedback(const Turn& answered) override {
    return std::vector<int32_t>{-1, static_cast<int32_t>(answered.verdict.status)};
  }
  std::string TextOf(absl::Span<const int32_t> ids) override { return "candidate " + std::to_string(ids[0] - 1000); }
  std::optional<std::string> CandidateOf(const std::string& response) override {
    if (no_code) return std::nullopt;
    return response;
  }
  bool no_code = false;
};

/// Hands out scripted verdicts by source, in the order given; last to first, as a farm would.
class ScriptedClient final : public verifier::Client {
 public:
  absl::StatusOr<Verdict> Verify(const VerifyRequest& request) override { return Next(request); }
  absl::Status VerifyAll(absl::Span<const VerifyRequest> requests,
                         const std::function<void(size_t, const Verdict&)>& on_verdict) override {
    for (size_t i = requests.size(); i-- > 0;) on_verdict(i, Next(requests[i]));
    return status;
  }
  absl::StatusOr<Signature> DescribeTask(const Task&) override { return Signature{}; }
  absl::StatusOr<Capabilities> GetCapabilities() override { return Capabilities{}; }

  Verdict Next(const VerifyRequest& request) {
    asked.push_back(request);
    std::deque<Verdict>& script = scripts[request.candidate.source];
    if (script.empty()) return VerdictOf(VerdictStatus::kCompile);
    const Verdict verdict = script.front();
    script.pop_front();
    return verdict;
  }
  std::map<std::string, std::deque<Verdict>> scripts;
  std::vector<VerifyRequest> asked;
  absl::Status status;
};

struct Fixture {
  CountingEngine engine;
  PlainEncoder encoder;
  ScriptedClient client;
  DriverConfig config;
  SamplingOptions sampling;
  std::optional<double> best;
  std::atomic<bool> abort = false;

  Fixture() { config.group_size = 1; }
  absl::StatusOr<std::vector<Group>> TryRun(uint64_t seed = 1, int groups = 1) {
    EpisodeDriver driver(config, sampling, {}, {}, {&engine, &encoder, &client, {}, &abort});
    std::vector<GroupRequest> requests(groups);
    for (int g = 0; g < groups; ++g) {
      requests[g].id = "group-" + std::to_string(g);
      requests[g].task.id = "softmax";
      requests[g].prompt_ids = {1, 2, 3};
      requests[g].best = best;
    }
    return driver.Run(requests, seed);
  }
  Group Run() {
    absl::StatusOr<std::vector<Group>> groups = TryRun();
    INFO(groups.status());
    REQUIRE(groups.ok());
    return (*groups)[0];
  }
};

TEST_CASE("An episode ends at its first pass", "[episode]") {
  Fixture fixture;
  fixture.client.scripts["candidate 1"] = {PassedAt(2)};
  const Group group = fixture.Run();
  REQUIRE(group.episodes[0].turns.size() == 2);
  CHECK(group.episodes[0].turns[0].verdict.status == VerdictStatus::kCompile);
  CHECK(group.episodes[0].turns[1].verdict.ok());
}

/// Says each sample as it ends, and when.
class SpeakingEngine final : public Engine {
 public:
  absl::StatusOr<std::vector<std::vector<Sample>>> Generate(absl::Span<const GenerationRequest> asked,
                                                            const GenerateOptions& options) override {
    std::vector<std::vector<Sample>> result(asked.size());
    for (size_t i = 0; i < asked.size(); ++i) result[i].resize(asked[i].samples);
    // The last first, as it happens where answers differ in length.
    for (size_t i = asked.size(); i-- > 0;) {
      for (size_t j = result[i].size(); j-- > 0;) {
        result[i][j] = {{static_cast<int32_t>(1000 + 10 * i + j)}, {-0.5f}, {{0, 1, 7}}, FinishReason::kStop};
        if (options.on_sample) options.on_sample(i, j, result[i][j]);
        log->push_back("said");
      }
    }
    log->push_back("all said");
    return result;
  }
  absl::Status SetPolicyVersion(int64_t) override { return absl::OkStatus(); }
  int64_t policy_version() const override { return 7; }
  std::vector<std::string>* log = nullptr;
};

/// Judges at once what is submitted, and notes it.
class PromptClient final : public verifier::Client {
 public:
  absl::StatusOr<Verdict> Verify(const VerifyRequest&) override { return absl::UnimplementedError("not asked"); }
  absl::Status VerifyAll(absl::Span<const VerifyRequest>, const std::function<void(size_t, const Verdict&)>&) override {
    return absl::UnimplementedError("not asked");
  }
  std::unique_ptr<verifier::VerdictStream> OpenStream(std::function<void(size_t, const Verdict&)> on_verdict) override {
    struct Stream final : verifier::VerdictStream {
      void Submit(const VerifyRequest& request) override {
        client->log.push_back("asked");
        Verdict verdict = VerdictOf(VerdictStatus::kCompile);
        verdict.message = request.candidate.source;
        on_verdict(count++, verdict);
      }
      absl::Status Finish() override { return absl::OkStatus(); }
      PromptClient* client = nullptr;
      std::function<void(size_t, const Verdict&)> on_verdict;
      size_t count = 0;
    };
    auto stream = std::make_unique<Stream>();
    stream->client = this;
    stream->on_verdict = std::move(on_verdict);
    return stream;
  }
  absl::StatusOr<std::unique_ptr<verifier::LaneHold>> HoldLanes() override {
    struct Hold final : verifier::LaneHold {
      explicit Hold(std::vector<std::string>& log) : log(log) { log.push_back("held"); }
      ~Hold() override { log.push_back("free"); }
      std::vector<std::string>& log;
    };
    return std::make_unique<Hold>(log);
  }
  absl::StatusOr<Signature> DescribeTask(const Task&) override { return Signature{}; }
  absl::StatusOr<Capabilities> GetCapabilities() override { return Capabilities{}; }
  std::vector<std::string> log;
};

TEST_CASE("A response is verified while others are generated, and every verdict finds its own turn", "[episode]") {
  for (const bool stream : {true, false}) {
    SpeakingEngine engine;
    PlainEncoder encoder;
    PromptClient client;
    engine.log = &client.log;
    DriverConfig config;
    config.group_size = 3;
    config.turns = 1;
    config.stream = stream;
    int meanwhile = 0;
    EpisodeDriver::Parts parts{&engine, &encoder, &client};
    parts.meanwhile = [&](absl::Span<const Turn* const> answers) {
      CHECK(answers.size() == 6);
      CHECK(answers[4]->response == "candidate 11");
      client.log.push_back("meanwhile");
      ++meanwhile;
      return absl::OkStatus();
    };
    EpisodeDriver driver(config, {}, {}, {}, parts);
    std::vector<GroupRequest> requests(2);
    for (int g = 0; g < 2; ++g) requests[g] = {"group-" + std::to_string(g), {}, {1, 2}, false, {}};
    const std::vector<Group> groups = driver.Run(requests, 1).value();
    for (int g = 0; g < 2; ++g) {
      for (int e = 0; e < 3; ++e) {
        const Turn& turn = groups[g].episodes[e].turns[0];
        CHECK(turn.verdict.message == "candidate " + std::to_string(10 * g + e));
        CHECK(turn.verdict.message == turn.source);
      }
    }
    CHECK(client.log[0] == (stream ? "asked" : "said"));
    CHECK(client.log.back() == "meanwhile");
    CHECK(std::count(client.log.begin(), client.log.end(), "asked") == 6);
    CHECK(meanwhile == 1);
    CHECK(driver.seconds().judging > 0);
  }
}

TEST_CASE("Nothing is timed while responses are generated on the verifier's device, and they are asked about all the same", "[episode]") {
  SpeakingEngine engine;
  PlainEncoder encoder;
  PromptClient client;
  engine.log = &client.log;
  DriverConfig config;
  config.group_size = 2;
  config.turns = 1;
  config.stream = config.hold_lanes = true;
  EpisodeDriver driver(config, {}, {}, {}, {&engine, &encoder, &client});
  const std::vector<GroupRequest> requests = {{"group", {}, {1, 2}, false, {}}};
  REQUIRE(driver.Run(requests, 1).ok());
  CHECK(client.log == std::vector<std::string>{"held", "asked", "said", "asked", "said", "all said", "free"});
}

TEST_CASE("A request's own seed decides its draws, whatever is asked for beside it", "[episode]") {
  Fixture alone, beside;
  EpisodeDriver one(alone.config, alone.sampling, {}, {}, {&alone.engine, &alone.encoder, &alone.client});
  EpisodeDriver two(beside.config, beside.sampling, {}, {}, {&beside.engine, &beside.encoder, &beside.client});
  const GroupRequest request{"b", {}, {1}, false, 77}, other{"a", {}, {1}, false, {}};
  REQUIRE(one.Run({&request, 1}, 5).ok());
  const std::vector<GroupRequest> both = {other, request};
  REQUIRE(two.Run(both, 6).ok());
  CHECK(alone.engine.requests[0].seed == beside.engine.requests[1].seed);
  CHECK(beside.engine.requests[0].seed != beside.engine.requests[1].seed);
}

TEST_CASE("An episode that never passes ends with its turn budget", "[episode]") {
  Fixture fixture;
  CHECK(fixture.Run().episodes[0].turns.size() == 3);
}

TEST_CASE("A pass may be followed by further turns when asked to go on", "[episode]") {
  Fixture fixture;
  fixture.config.stop_at_pass = false;
  fixture.client.scripts["candidate 0"] = {PassedAt(1.5)};
  CHECK(fixture.Run().episodes[0].turns.size() == 3);
}

TEST_CASE("A later prompt is the earlier prompt, the exact response and the feedback, id by id", "[episode]") {
  Fixture fixture;
  const Group group = fixture.Run();
  const auto compile = static_cast<int32_t>(VerdictStatus::kCompile);
  const std::vector<Turn>& turns = group.episodes[0].turns;
  CHECK(turns[0].prompt_ids == std::vector<int32_t>{1, 2, 3});
  CHECK(turns[0].response_ids == std::vector<int32_t>{1000});
  CHECK(turns[1].prompt_ids == std::vector<int32_t>{1, 2, 3, 1000, -1, compile});
  CHECK(turns[2].prompt_ids == std::vector<int32_t>{1, 2, 3, 1000, -1, compile, 1001, -1, compile});
  CHECK(fixture.engine.requests[2].prompt_ids == turns[2].prompt_ids);
  CHECK(turns[0].log_probs == std::vector<float>{-0.5f});
  CHECK(turns[0].versions == std::vector<VersionSpan>{{0, 1, 7}});
}

TEST_CASE("An episode ends before a prompt that does not fit the context", "[episode]") {
  Fixture fixture;
  fixture.sampling.max_tokens = 10;
  fixture.config.max_context_tokens = 16;  // the second turn's prompt has 6 tokens, the third's 9
  CHECK(fixture.Run().episodes[0].turns.size() == 2);
}

TEST_CASE("INFRA ends an episode: there is nothing to feed back", "[episode]") {
  Fixture fixture;
  fixture.client.scripts["candidate 0"] = {VerdictOf(VerdictStatus::kInfra)};
  CHECK(fixture.Run().episodes[0].turns.size() == 1);
}

TEST_CASE("An answer without code is a PARSE verdict that costs no verification", "[episode]") {
  Fixture fixture;
  fixture.encoder.no_code = true;
  const Group group = fixture.Run();
  CHECK(group.episodes[0].turns[0].verdict.status == VerdictStatus::kParse);
  CHECK(fixture.client.asked.empty());
}

TEST_CASE("Verdicts find their episodes whatever the order they come in", "[episode]") {
  Fixture fixture;
  fixture.config.group_size = 4;
  fixture.config.turns = 1;
  fixture.client.scripts["candidate 2"] = {PassedAt(2)};
  fixture.client.scripts["candidate 3"] = {VerdictOf(VerdictStatus::kIncorrect, 0.5)};
  const Group group = fixture.Run();
  CHECK(group.episodes[1].turns[0].verdict.status == VerdictStatus::kCompile);
  CHECK(group.episodes[2].turns[0].verdict.ok());
  CHECK(group.episodes[3].turns[0].verdict.correct_rate == 0.5);
}

TEST_CASE("A group is one request at turn 1 and one request an episode afterwards", "[episode]") {
  Fixture fixture;
  fixture.config.group_size = 4;
  fixture.client.scripts["candidate 1"] = {PassedAt(2)};
  fixture.Run();
  REQUIRE(fixture.engine.requests.size() == 1 + 3 + 3);
  CHECK(fixture.engine.requests[0].samples == 4);
  for (size_t i = 1; i < fixture.engine.requests.size(); ++i) CHECK(fixture.engine.requests[i].samples == 1);
}

TEST_CASE("Requests have private seeds that depend on nothing but seed, episode and turn", "[episode]") {
  const auto seeds_of = [](uint64_t seed, int groups) {
    Fixture fixture;
    fixture.config.group_size = 2;
    REQUIRE(fixture.TryRun(seed, groups).ok());
    std::vector<uint64_t> seeds;
    for (const GenerationRequest& request : fixture.engine.requests) seeds.push_back(request.seed);
    return seeds;
  };
  const std::vector<uint64_t> both = seeds_of(1, 2);  // two groups, then four episodes, then four
  const std::vector<uint64_t> alone = seeds_of(1, 1);
  CHECK(std::set<uint64_t>(both.begin(), both.end()).size() == both.size());
  CHECK(alone == std::vector<uint64_t>{both[0], both[2], both[3], both[6], both[7]});
  CHECK(seeds_of(2, 1)[0] != alone[0]);
}

TEST_CASE("A response cut by the length limit is marked", "[episode]") {
  Fixture fixture;
  fixture.engine.finish = FinishReason::kLength;
  CHECK(fixture.Run().episodes[0].turns[0].truncated);
}

TEST_CASE("An aborted generation ends the batch as cancelled, with nothing half-done", "[episode]") {
  Fixture fixture;
  fixture.abort = true;
  CHECK(fixture.TryRun().status().code() == absl::StatusCode::kCancelled);
  CHECK(fixture.client.asked.empty());
}

TEST_CASE("A pass too fast to be believed is measured again, without the cache, and the slower result counts",
          "[episode]") {
  Fixture fixture;
  fixture.client.scripts["candidate 0"] = {PassedAt(4.0), PassedAt(3.8)};
  const Group group = fixture.Run();
  REQUIRE(fixture.client.asked.size() == 2);
  CHECK(fixture.client.asked[0].use_cache);
  CHECK_FALSE(fixture.client.asked[1].use_cache);
  CHECK(group.episodes[0].turns[0].verdict.speed()->speedup.low == 3.8);
}

TEST_CASE("The second measurement is asked of another lane, and the verdict says where it was confirmed", "[episode]") {
  Fixture fixture;
  Verdict first = PassedAt(3.8), second = PassedAt(4.0);
  first.lane = "a/cuda:0";
  second.lane = "b/cuda:0";
  fixture.client.scripts["candidate 0"] = {first, second};
  const Group group = fixture.Run();
  REQUIRE(fixture.client.asked.size() == 2);
  CHECK(fixture.client.asked[0].avoid_lane.empty());
  CHECK(fixture.client.asked[1].avoid_lane == "a/cuda:0");
  CHECK(group.episodes[0].turns[0].verdict.lane == "a/cuda:0");
  CHECK(group.episodes[0].turns[0].verdict.confirmed_on == "b/cuda:0");
}

TEST_CASE("A pass that a second measurement does not confirm is no sample", "[episode]") {
  Fixture fixture;
  fixture.client.scripts["candidate 0"] = {PassedAt(4.0), PassedAt(1.0)};
  const Group group = fixture.Run();
  CHECK(group.episodes[0].turns.size() == 1);
  CHECK(group.episodes[0].turns[0].verdict.status == VerdictStatus::kInfra);
  CHECK_THAT(group.episodes[0].turns[0].verdict.message, ContainsSubstring("disagree"));
}

TEST_CASE("Twice the task's best so far is doubted too", "[episode]") {
  Fixture fixture;
  fixture.best = 1.1;
  fixture.client.scripts["candidate 0"] = {PassedAt(2.3), PassedAt(2.3)};
  fixture.Run();
  CHECK(fixture.client.asked.size() == 2);
}

TEST_CASE("A second measurement that fails counts as a failure, one that is our fault as no result", "[episode]") {
  CHECK(Settle(PassedAt(4), VerdictOf(VerdictStatus::kCheat), {}).status == VerdictStatus::kCheat);
  CHECK(Settle(PassedAt(4), VerdictOf(VerdictStatus::kInfra), {}).status == VerdictStatus::kInfra);
  Verdict other_device = PassedAt(4);
  other_device.device = "NVIDIA H200";
  CHECK(Settle(PassedAt(4), other_device, {}).status == VerdictStatus::kInfra);
}

TEST_CASE("An engine or verifier that breaks its contract ends the batch with a Status", "[episode]") {
  Fixture fixture;
  fixture.engine.drop_one = true;
  CHECK(fixture.TryRun().status().code() == absl::StatusCode::kInternal);
  Fixture unavailable;
  unavailable.client.status = absl::UnavailableError("no verifier");
  CHECK(unavailable.TryRun().status().code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("Episode metrics count first-turn and best-turn passes and leave our own faults out", "[episode]") {
  const Verdict fail = VerdictOf(VerdictStatus::kRuntime);
  Group group;
  const auto add = [&](const std::vector<Verdict>& verdicts) {
    Episode& episode = group.episodes.emplace_back();
    for (const Verdict& verdict : verdicts) {
      Turn turn;
      turn.verdict = verdict;
      episode.turns.push_back(turn);
    }
  };
  add({PassedAt(1)});
  add({fail, PassedAt(1)});
  add({fail, fail, fail});
  add({fail, fail, PassedAt(1)});
  add({VerdictOf(VerdictStatus::kInfra)});
  group.episodes[2].turns[1].truncated = true;
  std::map<std::string, double> metrics = EpisodeMetrics({group});
  CHECK(metrics["episodes/first_turn_correct"] == 0.25);
  CHECK(metrics["episodes/best_turn_correct"] == 0.75);
  CHECK(metrics["episodes/turns_mean"] == 2.25);       // 1 + 2 + 3 + 3 over 4
  CHECK(metrics["episodes/turns_to_success"] == 2.0);  // 1, 2, 3
  CHECK(metrics["episodes/passed_at_turn_2"] == 0.25);
  CHECK_THAT(metrics["episodes/truncated"], WithinAbs(1.0 / 9, 1e-12));
  CHECK(metrics["episodes/infra"] == 0.2);
  CHECK(EpisodeMetrics({})["episodes/first_turn_correct"] == 0);
}

}  // namespace
}  // namespace hone::rollout
