// `hone demonstrations`: a data set of kernels that a verifier accepted, for `hone sft`: drawn from families of tasks
// (rollout/sampler/family.h) and from the quickstart's generator, each as the chat prompt of its task and the answer.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "base/task_file.h"
#include "base/task_suite.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "cli/verifier_access.h"
#include "rollout/prompt/layouts.h"
#include "rollout/prompt/markdown.h"
#include "rollout/prompt/skeleton.h"
#include "rollout/prompt/worked_examples.h"
#include "rollout/sampler/family.h"
#include "rollout/sampler/generator.h"
#include "rollout/sampler/near_copies.h"

namespace hone::cli {
namespace {

using Json = nlohmann::json;
using rollout::FamilyExample;

struct DemonstrationsOptions {
  std::string families;
  int64_t per_family = 20;
  int64_t generated = 0;
  std::vector<std::string> away_from;
  double threshold = 0.8;
  uint64_t seed = 1;
  std::string out;
  std::string tasks;
  std::string rejected;
  VerifierChoice verifier;
  int64_t build_slots = 2;
  int64_t lanes = 1;
};

// As the entry point that a policy is asked to fill has them.
constexpr char kHeaders[] = "#include <cuda_runtime.h>\n#include <float.h>\n#include <math.h>\n\n";

/// hone's checks without timing.
Protocol ChecksOnly() {
  Protocol protocol;
  protocol.id = "checks-only";
  protocol.baselines.clear();
  protocol.run_timeout_ms = 20'000;
  return protocol;
}

// Different texts only, of families and of the generator.
absl::StatusOr<std::vector<FamilyExample>> DrawAll(const DemonstrationsOptions& options) {
  std::vector<FamilyExample> examples;
  std::set<std::string> seen;
  const auto keep = [&](FamilyExample example) {
    example.source = absl::StrCat(kHeaders, absl::StripTrailingAsciiWhitespace(example.source), "\n");
    if (seen.insert(example.task.reference + example.source).second) examples.push_back(std::move(example));
  };
  if (!options.families.empty()) {
    HONE_ASSIGN_OR_RETURN(const std::vector<rollout::Family> families, rollout::LoadFamilies(options.families));
    for (const rollout::Family& family : families) {
      uint64_t seed = options.seed;  // of its own: a new family changes no other's examples
      for (const char c : family.name()) seed = rollout::SplitMix(seed ^ static_cast<unsigned char>(c)).Next();
      rollout::SplitMix random(seed);
      for (int64_t i = 0; i < options.per_family; ++i) {
        HONE_ASSIGN_OR_RETURN(FamilyExample example, family.Draw(random));
        keep(std::move(example));
      }
    }
  }
  rollout::GeneratorOptions right;
  right.demonstrations.flawed_share = 0;
  right.demonstrations.double_share = 0;
  rollout::Generator generator(options.seed, right);
  for (int64_t i = 0; i < options.generated; ++i) {
    const rollout::Example example = generator.NextExample();
    const std::optional<rollout::Program> program = rollout::ParsePrompt(example.prompt);
    HONE_CHECK(program.has_value());
    keep({rollout::MakeTask(*program).task, example.demonstration.source, "generated", example.demonstration.style});
  }
  // Mixed: hone sft holds out the end of the file.
  rollout::SplitMix random(options.seed);
  for (size_t i = examples.size(); i > 1; --i) std::swap(examples[i - 1], examples[random.Below(static_cast<int64_t>(i))]);
  return examples;
}

// Leaves out examples whose task is nearly one of those to be kept away from; says how many.
absl::StatusOr<int64_t> Decontaminate(const DemonstrationsOptions& options, std::vector<FamilyExample>& examples) {
  std::vector<rollout::TaskPrint> forbidden;
  for (const std::string& path : options.away_from) {
    const bool suite = path == "suite";
    HONE_ASSIGN_OR_RETURN(const std::vector<Task> tasks, LoadTasks(suite ? SuiteFolder() : path));
    for (const Task& task : tasks) {
      if (!suite || task.split == Split::kHeldOut) forbidden.push_back(rollout::PrintOf(task.id, task.reference));
    }
  }
  if (forbidden.empty()) return 0;
  return static_cast<int64_t>(std::erase_if(examples, [&](const FamilyExample& example) {
    const rollout::TaskPrint print = rollout::PrintOf(example.task.id, example.task.reference);
    return rollout::Nearest(print, forbidden, options.threshold).kind != rollout::CopyKind::kNone;
  }));
}

Json Message(const char* role, std::string content) { return Json{{"role", role}, {"content", std::move(content)}}; }

/// As hone puts a task to a chat model: a worked example of the task's shape as an earlier turn, then the task.
Json LineOf(const FamilyExample& example, const std::string& entry_point, const Verdict& verdict) {
  const rollout::WorkedExample shown = rollout::ExampleOf(rollout::ShapeOf(example.task));
  return Json{{"task_id", example.task.id},
              {"messages",
               {Message("user", rollout::TaskPrompt(shown.task, shown.skeleton, {})),
                Message("assistant", rollout::CodeBlock("cuda", shown.source)),
                Message("user", rollout::TaskPrompt(example.task, entry_point, {})),
                Message("assistant", rollout::CodeBlock("cuda", example.source))}},
              {"family", example.family},
              {"style", example.style},
              {"provenance",
               {{"method", "demonstration"},
                {"protocol", verdict.protocol},
                {"device", verdict.device},
                {"toolchain", verdict.toolchain},
                {"status", std::string(Name(verdict.status))}}}};
}

struct Counts {
  int64_t right = 0, wrong = 0;
};

absl::Status Write(const DemonstrationsOptions& options, const std::vector<FamilyExample>& examples,
                   const std::vector<Verdict>& verdicts, verifier::Client& client) {
  std::string text, rejected;
  std::map<std::string, Counts> by_style;
  std::map<std::string, std::string> entry_points;  // by task id
  std::string tasks;
  Progress progress("entry points", static_cast<int64_t>(examples.size()));
  for (size_t i = 0; i < examples.size(); ++i) {
    const FamilyExample& example = examples[i];
    Counts& counts = by_style[absl::StrCat(example.family, "/", example.style)];
    progress.Update(static_cast<int64_t>(i) + 1);
    if (!verdicts[i].ok()) {
      ++counts.wrong;
      absl::StrAppend(&rejected, "==== ", example.task.id, " ", example.style, "\n", rollout::Evidence(verdicts[i], {}), "\n",
                      example.task.reference, "\n----\n", example.source, "\n");
      continue;
    }
    ++counts.right;
    std::string& entry_point = entry_points[example.task.id];
    if (entry_point.empty()) {
      HONE_ASSIGN_OR_RETURN(const Signature signature, client.DescribeTask(example.task));
      entry_point = rollout::Skeleton(signature);
      absl::StrAppend(&tasks, TaskToJson(example.task), "\n");
    }
    absl::StrAppend(&text, LineOf(example, entry_point, verdicts[i]).dump(-1, ' ', false, Json::error_handler_t::replace), "\n");
  }
  progress.Finish();
  HONE_RETURN_IF_ERROR(WriteFileAtomically(options.out, text));
  if (!options.tasks.empty()) HONE_RETURN_IF_ERROR(WriteFileAtomically(options.tasks, tasks));
  if (!options.rejected.empty()) HONE_RETURN_IF_ERROR(WriteFileAtomically(options.rejected, rejected));
  int64_t right = 0;
  for (const auto& [style, counts] : by_style) {
    absl::PrintF("%-40s %5d accepted %5d rejected\n", style, counts.right, counts.wrong);
    right += counts.right;
  }
  absl::PrintF("%s: %d examples of %d tasks\n", options.out, right, entry_points.size());
  return absl::OkStatus();
}

absl::Status Run(const DemonstrationsOptions& options) {
  HONE_RETURN_IF_ERROR(CheckOutput("--out", options.out));
  HONE_RETURN_IF_ERROR(CheckOutput("--tasks", options.tasks));
  HONE_RETURN_IF_ERROR(CheckOutput("--rejected", options.rejected));
  HONE_ASSIGN_OR_RETURN(std::vector<FamilyExample> examples, DrawAll(options));
  const size_t drawn = examples.size();
  HONE_ASSIGN_OR_RETURN(const int64_t copies, Decontaminate(options, examples));
  absl::PrintF("%d drawn, %d left out as near copies of tasks to be evaluated on\n", drawn, copies);
  if (examples.empty()) return absl::InvalidArgumentError("nothing to verify: give --families or --generated");

  HONE_ASSIGN_OR_RETURN(const VerifierAccess verifier,
                        OpenVerifier(options.verifier, {absl::StrCat("build_slots=", options.build_slots),
                                                        absl::StrCat("lanes=", options.lanes)}));
  HONE_ASSIGN_OR_RETURN(const Capabilities capabilities, verifier.client->GetCapabilities());
  WarnOfSandbox(capabilities.sandbox);

  std::vector<VerifyRequest> requests;
  for (const FamilyExample& example : examples) {
    VerifyRequest request;
    request.task = example.task;
    request.task.timing.clear();
    request.candidate = {Format::kNative, Backend::kCpu, example.source};
    request.protocol = ChecksOnly();
    requests.push_back(std::move(request));
  }
  std::vector<Verdict> verdicts(requests.size());
  Progress progress("verify", static_cast<int64_t>(requests.size()));
  int64_t done = 0, right = 0;
  HONE_RETURN_IF_ERROR(verifier.client->VerifyAll(requests, [&](size_t index, const Verdict& verdict) {
    verdicts[index] = verdict;
    right += verdict.ok() ? 1 : 0;
    ++done;
    progress.Update(done, absl::StrFormat("right %d of %d", right, done));
  }));
  progress.Finish(absl::StrFormat("right %d of %d", right, done));
  return Write(options, examples, verdicts, *verifier.client);
}

}  // namespace

void AddDemonstrations(CLI::App& app, Action& action) {
  auto options = std::make_shared<DemonstrationsOptions>();
  CLI::App* command = app.add_subcommand("demonstrations", "Draw kernels from families of tasks, keep the right ones: a data set for hone sft");
  command->add_option("--families", options->families, "Folder of families (*.txt; rollout/sampler/family.h)");
  command->add_option("--per-family", options->per_family, "Examples drawn of each")->check(CLI::Range(int64_t{0}, int64_t{100000}));
  command->add_option("--generated", options->generated, "Examples of the quickstart's generator")->check(CLI::Range(int64_t{0}, int64_t{1000000}));
  command->add_option("--away-from", options->away_from,
                      "Tasks to be evaluated on; near copies are left out. suite: its held-out tasks; else a collection");
  command->add_option("--threshold", options->threshold, "Similarity from which a task is a near copy")->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", options->seed, "Of the draws");
  command->add_option("--out", options->out, "The data set to write (.jsonl)")->required();
  command->add_option("--tasks", options->tasks, "Where to write their tasks, as a collection (.jsonl): to sample, or to evaluate on");
  command->add_option("--rejected", options->rejected, "Where to write what the verifier rejected, with its reasons");
  AddVerifierChoice(*command, options->verifier);
  command->add_option("--build-slots", options->build_slots, "Of the verifier of its own")->check(CLI::Range(int64_t{1}, int64_t{1024}));
  command->add_option("--lanes", options->lanes, "Of the verifier of its own")->check(CLI::Range(int64_t{1}, int64_t{256}));
  command->footer("Example:\n  hone demonstrations --families examples/qwen2.5-coder-1.5b/families --per-family 30 --generated 600 "
                  "--away-from suite --away-from kb1.jsonl --out sft.jsonl");
  command->callback([options, &action] { action = [options] { return Report(Run(*options)); }; });
}

}  // namespace hone::cli
