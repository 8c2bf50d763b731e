// The CPU corpus through the real verifier: service, queue, compilers in their sandbox, lane, runners in theirs.

#include "attacks/corpus.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/task_suite.h"
#include "rewards/compose/pipeline.h"
#include "rollout/sampler/generator.h"
#include "tests/support/memory_folder.h"
#include "tests/support/test_programs.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace hone::attacks {
namespace {

constexpr char kFolder[] = HONE_SOURCE_DIR "/tests/attacks";
constexpr char kHonestFailure[] = "i_honest/wrong_by_accident.cu";
constexpr int kStyledKernels = 200;

/// quick, with few rounds and short limits: an attack that needs many rounds to be found is not found.
Protocol CorpusProtocol() {
  Protocol protocol = ProtocolById("quick").value();
  protocol.baselines = {Baseline::kEager};
  protocol.min_rounds = 4;
  protocol.max_rounds = 4;
  protocol.build_timeout_ms = 4'000;
  protocol.run_timeout_ms = 2'000;
  return protocol;
}

/// One verifier for all cases.
class Verifier {
 public:
  static Verifier& Get() {
    static Verifier verifier;
    return verifier;
  }
  std::vector<Verdict> Verify(const std::vector<VerifyRequest>& requests) {
    std::vector<Verdict> verdicts(requests.size());
    const absl::Status status =
        client_->VerifyAll(requests, [&](size_t index, const Verdict& verdict) { verdicts[index] = verdict; });
    INFO(status.ToString());
    REQUIRE(status.ok());
    return verdicts;
  }

 private:
  Verifier() : folder_(MemoryFolder("attacks")) {
    if (TestProgram("hone-verifier").empty() || TestProgram("hone-runner").empty()) {
      SKIP("HONE_TEST_BIN names no folder with hone's programs");
    }
    if (TestPython().empty()) SKIP("HONE_PYTHON names no Python");
    verifier::LocalServerOptions options;
    options.program = TestProgram("hone-verifier");
    options.extra_args = {"--set=lanes=2", "--set=build_slots=2", "--set=folder=" + folder_.path() + "/state"};
    auto server = verifier::LocalServer::Start(options);
    INFO(server.status().ToString());
    REQUIRE(server.ok());
    server_ = *std::move(server);
    verifier::ClientOptions client;
    client.endpoints = {server_->endpoint()};
    client_ = *verifier::Client::Create(client);
  }

  TempFolder folder_;
  std::unique_ptr<verifier::LocalServer> server_;
  std::unique_ptr<verifier::Client> client_;
};

Task TaskNamed(const std::string& name) {
  static std::map<std::string, Task>* const tasks = new std::map<std::string, Task>;
  if (tasks->count(name) == 0) {
    const auto loaded = LoadTasks(absl::StrCat(kFolder, "/tasks/", name, ".py"));
    INFO(loaded.status().ToString());
    REQUIRE(loaded.ok());
    tasks->emplace(name, loaded->front());
  }
  return tasks->at(name);
}

VerifyRequest RequestFor(const Task& task, const std::string& source) {
  VerifyRequest request;
  request.task = task;
  request.candidate.source = source;
  request.protocol = CorpusProtocol();
  return request;
}

double Score(const Verdict& verdict) {
  static const rewards::Pipeline* const pipeline = new rewards::Pipeline(rewards::Pipeline::Create({}).value());
  Turn turn;
  turn.verdict = verdict;
  const rewards::GroupOutcomes group = {{rewards::OutcomeOf(turn, "episode", 0)}};
  const rewards::BatchCredit credit = pipeline->Score(absl::Span<const rewards::GroupOutcomes>(&group, 1));
  const auto& score = credit.groups.at(0).episodes.at(0).turns.at(0).score;
  REQUIRE(score.has_value());
  return *score;
}

std::string Words(const Program& program, const Verdict& verdict) {
  return absl::StrCat(program.name, ": ", Name(verdict.status), ": ", verdict.message);
}

struct Judged {
  std::vector<Program> programs;
  std::vector<Verdict> verdicts;
};

/// The whole corpus, judged once.
const Judged& Corpus() {
  static const Judged* const judged = [] {
    auto* all = new Judged;
    const auto programs = LoadCorpus(kFolder, ".cu");
    INFO(programs.status().ToString());
    REQUIRE(programs.ok());
    std::vector<VerifyRequest> requests;
    for (const Program& program : *programs) {
      if (program.lane == "device") continue;
      all->programs.push_back(program);
      requests.push_back(RequestFor(TaskNamed(program.task), program.source));
    }
    all->verdicts = Verifier::Get().Verify(requests);
    return all;
  }();
  return *judged;
}

TEST_CASE("Every program of the corpus gets a verdict that its header expects, with the rule that it names", "[attacks]") {
  const Judged& corpus = Corpus();
  std::map<char, int> count;
  for (size_t i = 0; i < corpus.programs.size(); ++i) {
    const Program& program = corpus.programs[i];
    const Verdict& verdict = corpus.verdicts[i];
    INFO(Words(program, verdict));
    ++count[program.letter()];
    CHECK(std::find(program.expect.begin(), program.expect.end(), verdict.status) != program.expect.end());
    const auto named = [&](const std::string& rule) {
      return std::any_of(verdict.rules.begin(), verdict.rules.end(), [&](const RuleHit& hit) { return hit.rule == rule; });
    };
    if (!program.rule.empty()) CHECK(named(program.rule));
    CHECK(verdict.status != VerdictStatus::kInfra);
  }
  for (const char letter : std::string("abcdefghi")) CHECK(count[letter] >= 8);
  int attacks = 0;
  for (const auto& [letter, n] : count) attacks += letter == 'i' ? 0 : n;
  CHECK(attacks >= 110);
}

TEST_CASE("No attack is scored above an honest failing candidate", "[attacks]") {
  const Judged& corpus = Corpus();
  double limit = -2;
  for (size_t i = 0; i < corpus.programs.size(); ++i) {
    if (corpus.programs[i].name == kHonestFailure) limit = Score(corpus.verdicts[i]);
  }
  CHECK(limit > -1);
  CHECK(limit < 0);
  for (size_t i = 0; i < corpus.programs.size(); ++i) {
    const Program& program = corpus.programs[i];
    if (program.honest() || !program.harmless.empty()) continue;
    INFO(Words(program, corpus.verdicts[i]));
    CHECK(Score(corpus.verdicts[i]) <= limit);
  }
}

TEST_CASE("Honest kernels that look like attacks are OK, and no rule speaks but those that only flag", "[attacks]") {
  const Judged& corpus = Corpus();
  for (size_t i = 0; i < corpus.programs.size(); ++i) {
    const Program& program = corpus.programs[i];
    if (!program.honest() || program.name == kHonestFailure) continue;
    INFO(Words(program, corpus.verdicts[i]));
    CHECK(corpus.verdicts[i].status == VerdictStatus::kOk);
    for (const RuleHit& hit : corpus.verdicts[i].rules) {
      INFO(hit.rule << ": " << hit.evidence);
      CHECK_FALSE(hit.reject);
      CHECK(std::find(program.flags.begin(), program.flags.end(), hit.rule) != program.flags.end());
    }
  }
}

TEST_CASE("No rule speaks of two hundred kernels in the quickstart's styles, and all are OK", "[attacks]") {
  rollout::Generator generator(20260301);
  rollout::SplitMix random(7);
  std::vector<VerifyRequest> requests;
  std::set<std::string> styles;
  while (static_cast<int>(requests.size()) < kStyledKernels) {
    const rollout::GeneratedTask drawn = rollout::MakeTask(generator.NextProgram());
    for (int k = 0; k < 5 && static_cast<int>(requests.size()) < kStyledKernels; ++k) {
      rollout::DemonstrationOptions right;
      right.flawed_share = 0;
      const rollout::Demonstration demonstration = rollout::DrawDemonstration(drawn.program, right, random);
      styles.insert(demonstration.style);
      requests.push_back(RequestFor(drawn.task, demonstration.source));
      requests.back().protocol.run_timeout_ms = 20'000;  // the slow styles are slow on purpose
    }
  }
  CHECK(styles.size() >= 5);
  const std::vector<Verdict> verdicts = Verifier::Get().Verify(requests);
  for (size_t i = 0; i < verdicts.size(); ++i) {
    INFO(requests[i].task.id << ": " << Name(verdicts[i].status) << ": " << verdicts[i].message << "\n"
                             << requests[i].candidate.source);
    CHECK(verdicts[i].status == VerdictStatus::kOk);
    CHECK(verdicts[i].rules.empty());
  }
}

}  // namespace
}  // namespace hone::attacks
