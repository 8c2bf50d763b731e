#include "musa/suite.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/protocol.h"
#include "base/status_macros.h"
#include "base/task_suite.h"
#include "base/verify_request.h"
#include "rollout/sampler/family.h"
#include "rollout/sampler/generator.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"
#include "verifier/musify/musify.h"

namespace hone::musa {
namespace {

using rollout::GeneratedTask;

constexpr uint64_t kSeed = 9;
constexpr size_t kOfEvery = 5;  // tasks with a wrong kernel in the small suite

absl::StatusOr<std::string> ToMusa(const std::string& name, const std::string& cuda) {
  verifier::Musified musified = verifier::Musify(cuda, verifier::Language::kCxx, verifier::Direction::kToMusa);
  for (const verifier::MusifyFinding& finding : musified.findings) {
    if (finding.blocks)
      return absl::InternalError(absl::StrCat(name, ":", finding.line, ": ", finding.what, ": ", finding.why));
  }
  return std::move(musified.text);
}

absl::Status Add(std::string name, const Task& task, std::string cuda, bool flawed,
                 std::vector<SuiteProgram>& programs) {
  HONE_ASSIGN_OR_RETURN(std::string musa, ToMusa(name, cuda));
  programs.push_back({std::move(name), task, std::move(cuda), std::move(musa), flawed});
  return absl::OkStatus();
}

std::string Styled(const GeneratedTask& task, const std::string& style) {
  rollout::KernelChoices choices;
  choices.style = style;
  choices.spellings.resize(task.program.lines.size());
  return rollout::KernelSource(task.program, choices);
}

/// A kernel of the task that is wrong on purpose.
std::string Flawed(const GeneratedTask& task, rollout::SplitMix& random) {
  rollout::DemonstrationOptions options;
  options.flawed_share = 1;
  return rollout::DrawDemonstration(task.program, options, random).source;
}

absl::Status AddExamples(const std::string& folder, std::vector<SuiteProgram>& programs) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Task> tasks, LoadTasks(SuiteFolder() + "/softmax/tempered_softmax.py"));
  for (const bool flawed : {false, true}) {
    const std::string name = flawed ? "softmax_wrong.cu" : "softmax.cu";
    HONE_ASSIGN_OR_RETURN(std::string source, ReadFile(absl::StrCat(folder, "/", name)));
    HONE_RETURN_IF_ERROR(Add("examples/" + name, tasks.front(), std::move(source), flawed, programs));
  }
  return absl::OkStatus();
}

/// One drawn example of each family that the recipe for a language model teaches: other shapes and types than the named tasks.
absl::Status AddFamilies(const std::string& folder, rollout::SplitMix& random, std::vector<SuiteProgram>& programs) {
  HONE_ASSIGN_OR_RETURN(const std::vector<rollout::Family> families, rollout::LoadFamilies(folder));
  for (const rollout::Family& family : families) {
    HONE_ASSIGN_OR_RETURN(rollout::FamilyExample example, family.Draw(random));
    HONE_RETURN_IF_ERROR(Add(absl::StrCat("family/", example.task.id, "/", example.style), example.task,
                             std::move(example.source), /*flawed=*/true, programs));
  }
  return absl::OkStatus();
}

VerifyRequest RequestFor(const SuiteProgram& program, const SuiteOptions& options, bool musa, bool timed) {
  VerifyRequest request;
  request.task = program.task;
  request.candidate.source = musa ? program.musa : program.cuda;
  request.candidate.backend = musa ? Backend::kMusa : *ParseBackend(options.device);
  request.protocol = ProtocolById("quick").value();
  request.protocol.baselines = {Baseline::kEager};
  request.protocol.min_rounds = request.protocol.max_rounds = 3;
  if (!timed) request.protocol.baselines.clear();
  request.use_cache = false;
  return request;
}

}  // namespace

absl::StatusOr<std::vector<SuiteProgram>> MusaSuite(SuiteSize size, const std::string& examples) {
  std::vector<SuiteProgram> programs;
  rollout::SplitMix random(kSeed);
  size_t count = 0;
  for (const Split split : {Split::kTrain, Split::kHeldOut}) {
    for (const GeneratedTask& task : rollout::NamedTasks(split)) {
      std::vector<std::string> styles = rollout::StylesOf(task.program.tail);
      if (size == SuiteSize::kOne) styles.resize(1);
      for (const std::string& style : styles) {
        HONE_RETURN_IF_ERROR(
            Add(absl::StrCat(task.task.id, "/", style), task.task, Styled(task, style), false, programs));
      }
      if (size == SuiteSize::kAll || count++ % kOfEvery == 0) {
        HONE_RETURN_IF_ERROR(
            Add(absl::StrCat(task.task.id, "/wrong"), task.task, Flawed(task, random), true, programs));
      }
    }
  }
  HONE_RETURN_IF_ERROR(AddExamples(examples, programs));
  if (size == SuiteSize::kAll) {
    HONE_RETURN_IF_ERROR(AddFamilies(examples + "/qwen2.5-coder-1.5b/families", random, programs));
  }
  return programs;
}

absl::StatusOr<std::vector<SuitePair>> JudgeSuite(
    const std::vector<SuiteProgram>& programs, const SuiteOptions& options,
    const std::function<void(size_t index, bool musa, const Verdict& verdict)>& seen) {
  verifier::LocalServerOptions server_options;
  server_options.program = options.program;
  server_options.python = options.python;
  server_options.log_path = options.log;
  server_options.extra_args = {absl::StrCat("--set=devices=[", options.device, ", musa]"),
                               absl::StrCat("--set=musa_toolchain=", options.toolchain), "--set=lanes=1",
                               "--set=screen=off"};
  HONE_ASSIGN_OR_RETURN(const auto server, verifier::LocalServer::Start(server_options));
  verifier::ClientOptions client_options;
  client_options.endpoints = {server->endpoint()};
  client_options.deadline = absl::Minutes(30);
  HONE_ASSIGN_OR_RETURN(const auto client, verifier::Client::Create(client_options));
  std::vector<SuitePair> pairs(programs.size());
  std::vector<VerifyRequest> requests;
  for (size_t i = 0; i < programs.size(); ++i) {
    const bool timed = static_cast<int>(i) < options.timed;
    for (const bool musa : {false, true}) requests.push_back(RequestFor(programs[i], options, musa, timed));
  }
  HONE_RETURN_IF_ERROR(client->VerifyAll(requests, [&](size_t index, const Verdict& verdict) {
    const bool musa = index % 2 == 1;
    (musa ? pairs[index / 2].musa : pairs[index / 2].cuda) = verdict;
    seen(index / 2, musa, verdict);
  }));
  return pairs;
}

}  // namespace hone::musa
