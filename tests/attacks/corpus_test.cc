// The corpus through the real verifier on the CPU device: service, queue, compilers in their sandbox, lane, runners in
// theirs. Python programs run twice: as their task says, and where every rule over their text is off, so that only structure
// is left to stop them.

#include "attacks/corpus.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rewards/compose/pipeline.h"
#include "rollout/sampler/generator.h"
#include "tests/support/memory_folder.h"
#include "tests/support/test_programs.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"
#include "verifier/rules/rule.h"

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
    options.extra_args = {"--set=lanes=2", "--set=build_slots=2", "--set=build_niceness=0", "--set=folder=" + folder_.path() + "/state"};
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

/// A program, or one behind the rules over its text.
struct Trial {
  Program program;
  bool open = false;

  const std::vector<VerdictStatus>& expect() const { return open ? program.behind : program.expect; }
  std::string Words(const Verdict& verdict) const {
    return absl::StrCat(program.name, open ? " behind the rules: " : ": ", std::string(Name(verdict.status)), ": ", verdict.message);
  }
};

Task TaskFor(const Program& program, bool open) {
  static std::map<std::pair<std::string, bool>, Task>* const tasks = new std::map<std::pair<std::string, bool>, Task>;
  const auto known = tasks->find({program.task, open});
  if (known != tasks->end()) return known->second;
  const auto loaded = TaskOf(program, kFolder, open);
  INFO(loaded.status().ToString());
  REQUIRE(loaded.ok());
  return tasks->emplace(std::make_pair(program.task, open), *loaded).first->second;
}

VerifyRequest RequestFor(const Task& task, const std::string& source) {
  VerifyRequest request;
  request.task = task;
  request.candidate.source = source;
  request.protocol = CorpusProtocol();
  return request;
}

VerifyRequest RequestFor(const Trial& trial) {
  VerifyRequest request = RequestFor(TaskFor(trial.program, trial.open), trial.program.source);
  request.candidate.format = trial.program.format();
  if (trial.program.format() == Format::kNative) return request;
  // Modules are slow to load, and Triton's interpreter is slow; those that never end need not be waited for.
  const bool endless = std::count(trial.expect().begin(), trial.expect().end(), VerdictStatus::kTimeout) > 0;
  request.protocol.run_timeout_ms = endless ? 8'000 : 40'000;
  request.protocol.build_timeout_ms = 100'000;
  return request;
}

/// Whether a program means anything without a GPU: those of CUDA sources are read by the rules before anything is built.
bool RunsHere(const Program& program) {
  if (program.lane != "device") return true;
  const verifier::Rule* rule = verifier::FindRule(program.rule);
  return program.format() != Format::kNative && rule != nullptr && rule->severity == verifier::Severity::kReject;
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

struct Judged {
  std::vector<Trial> trials;
  std::vector<Verdict> verdicts;
};

Judged JudgeAll(const std::string& extension) {
  Judged all;
  const auto programs = LoadCorpus(kFolder, extension);
  INFO(programs.status().ToString());
  REQUIRE(programs.ok());
  for (const Program& program : *programs) {
    if (!RunsHere(program)) continue;
    all.trials.push_back({program, false});
    if (!program.behind.empty() && program.lane != "device") all.trials.push_back({program, true});
  }
  std::vector<VerifyRequest> requests;
  for (const Trial& trial : all.trials) requests.push_back(RequestFor(trial));
  all.verdicts = Verifier::Get().Verify(requests);
  return all;
}

/// Each judged once.
const Judged& NativeCorpus() {
  static const Judged* const judged = new Judged(JudgeAll(".cu"));
  return *judged;
}
const Judged& PythonCorpus() {
  static const Judged* const judged = new Judged(JudgeAll(".py"));
  return *judged;
}

bool Names(const Verdict& verdict, const std::string& rule) {
  return std::any_of(verdict.rules.begin(), verdict.rules.end(), [&](const RuleHit& hit) { return hit.rule == rule; });
}

bool LacksTriton(const Verdict& verdict) { return absl::StrContains(verdict.message, "No module named 'triton'"); }

void CheckExpected(const Trial& trial, const Verdict& verdict) {
  INFO(trial.Words(verdict));
  CHECK(std::count(trial.expect().begin(), trial.expect().end(), verdict.status) == 1);
  if (!trial.program.rule.empty() && !trial.open) CHECK(Names(verdict, trial.program.rule));
}

TEST_CASE("Every program of the corpus gets a verdict that its header expects, with the rule that it names", "[attacks]") {
  const Judged& corpus = NativeCorpus();
  std::map<char, int> count;
  for (size_t i = 0; i < corpus.trials.size(); ++i) {
    ++count[corpus.trials[i].program.letter()];
    CheckExpected(corpus.trials[i], corpus.verdicts[i]);
  }
  for (const char letter : std::string("abcdefghi")) CHECK(count[letter] >= 8);
  int attacks = 0;
  for (const auto& [letter, n] : count) attacks += letter == 'i' ? 0 : n;
  CHECK(attacks >= 110);
}

TEST_CASE("Every Python program is refused by the rule that it names, and by structure where no rule reads it", "[attacks]") {
  const Judged& corpus = PythonCorpus();
  int behind = 0;
  for (size_t i = 0; i < corpus.trials.size(); ++i) {
    if (LacksTriton(corpus.verdicts[i])) continue;
    behind += corpus.trials[i].open;
    CheckExpected(corpus.trials[i], corpus.verdicts[i]);
  }
  CHECK(behind >= 50);
}

TEST_CASE("No attack is scored above an honest failing candidate", "[attacks]") {
  double limit = -2;
  for (size_t i = 0; i < NativeCorpus().trials.size(); ++i) {
    if (NativeCorpus().trials[i].program.name == kHonestFailure) limit = Score(NativeCorpus().verdicts[i]);
  }
  CHECK(limit > -1);
  CHECK(limit < 0);
  for (const Judged* corpus : {&NativeCorpus(), &PythonCorpus()}) {
    for (size_t i = 0; i < corpus->trials.size(); ++i) {
      const Program& program = corpus->trials[i].program;
      if (program.honest() || !program.harmless.empty()) continue;
      INFO(corpus->trials[i].Words(corpus->verdicts[i]));
      CHECK(Score(corpus->verdicts[i]) <= limit);
    }
  }
}

TEST_CASE("Honest kernels that look like attacks are OK, and no rule speaks but those that only flag", "[attacks]") {
  for (const Judged* corpus : {&NativeCorpus(), &PythonCorpus()}) {
    for (size_t i = 0; i < corpus->trials.size(); ++i) {
      const Program& program = corpus->trials[i].program;
      const Verdict& verdict = corpus->verdicts[i];
      if (!program.honest() || program.name == kHonestFailure || LacksTriton(verdict)) continue;
      INFO(corpus->trials[i].Words(verdict));
      CHECK(verdict.status == VerdictStatus::kOk);
      for (const RuleHit& hit : verdict.rules) {
        INFO(hit.rule << ": " << hit.evidence);
        CHECK_FALSE(hit.reject);
        CHECK(std::count(program.flags.begin(), program.flags.end(), hit.rule) == 1);
      }
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
