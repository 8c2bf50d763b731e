// `hone eval kernelbench`: candidates of KernelBench tasks against their references, resumable; `hone eval claims`:
// what such evaluations say about published speedups.

#include <fcntl.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "base/task_suite.h"
#include "cli/command.h"
#include "cli/kernelbench/candidates.h"
#include "cli/kernelbench/report.h"
#include "cli/kernelbench/results.h"
#include "cli/report_error.h"
#include "cli/verifier_access.h"
#include "verifier/build/torch_builder.h"
#include "verifier/cache/artefact_store.h"

namespace hone::cli {
namespace {

struct KernelBenchOptions {
  std::string candidates;
  std::string tasks;
  std::string out = "kernelbench-eval";
  std::string device = "cpu";
  std::string protocol = "hone-v1";
  std::string policy = "strict";
  std::vector<int> levels;
  std::vector<std::string> ids;
  int64_t run_timeout_s = 0;
  VerifierChoice verifier;
  std::vector<std::string> set;
};

/// Verdicts as they come, one line each, on disk before the next one is asked for.
class ResultFile {
 public:
  static absl::StatusOr<ResultFile> Open(const std::string& path) {
    UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!fd) return ErrnoStatus(errno, absl::StrCat("opening ", path));
    return ResultFile(std::move(fd), path);
  }
  absl::Status Add(const EvalResult& result) {
    const std::string line = EvalResultToJson(result) + "\n";
    if (write(fd_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      return ErrnoStatus(errno, absl::StrCat("writing ", path_));
    }
    return absl::OkStatus();
  }

 private:
  ResultFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  UniqueFd fd_;
  std::string path_;
};

EvalResult Begin(const EvalCandidate& candidate, const KernelBenchOptions& options) {
  EvalResult result;
  result.id = candidate.id;
  result.level = candidate.task.level;
  result.problem_id = candidate.problem_id;
  result.given = !candidate.source.empty();
  result.claimed_speedup = candidate.claimed_speedup;
  result.key = ContentKey({candidate.task.reference, candidate.source, std::string(Name(candidate.format)),
                           options.device, options.protocol, options.policy});
  return result;
}

absl::StatusOr<VerifyRequest> RequestFor(const EvalCandidate& candidate, const KernelBenchOptions& options) {
  VerifyRequest request;
  request.task = candidate.task;
  request.task.legality.allow_library_kernels = options.policy == "library";
  request.candidate.backend = *ParseBackend(options.device);  // checked by the command line
  request.candidate.format = candidate.format;
  request.candidate.source = candidate.source;
  HONE_ASSIGN_OR_RETURN(request.protocol, ProtocolById(options.protocol));
  if (options.run_timeout_s > 0) request.protocol.run_timeout_ms = options.run_timeout_s * 1000;
  return request;
}

/// Splits candidates into those judged already and those to judge; a candidate that is missing needs no judge.
struct Work {
  std::vector<EvalResult> results;  // of all, in order; verdicts filled where they are known
  std::vector<size_t> open;         // places of those to judge
};

absl::StatusOr<Work> Plan(const std::vector<EvalCandidate>& candidates, const KernelBenchOptions& options) {
  HONE_ASSIGN_OR_RETURN(const std::vector<EvalResult> known, ReadEvalResults(options.out + "/verdicts.jsonl"));
  std::map<std::string, const EvalResult*> by_id;
  for (const EvalResult& result : known) by_id[result.id] = &result;
  Work work;
  for (size_t i = 0; i < candidates.size(); ++i) {
    work.results.push_back(Begin(candidates[i], options));
    EvalResult& result = work.results.back();
    const auto found = by_id.find(result.id);
    const bool judged = found != by_id.end() && found->second->key == result.key &&
                        found->second->verdict.status != VerdictStatus::kInfra;
    if (judged) {
      result.verdict = found->second->verdict;
    } else if (result.given) {
      work.open.push_back(i);
    }
  }
  return work;
}

absl::Status Judge(const std::vector<EvalCandidate>& candidates, const KernelBenchOptions& options, Work& work) {
  std::vector<std::string> settings = {absl::StrCat("devices=[", options.device, "]")};
  settings.insert(settings.end(), options.set.begin(), options.set.end());
  verifier::ClientOptions client_options;
  client_options.deadline = absl::Hours(12);
  client_options.max_in_flight = 64;
  HONE_ASSIGN_OR_RETURN(const VerifierAccess verifier, OpenVerifier(options.verifier, settings, client_options));
  std::vector<VerifyRequest> requests;
  for (const size_t place : work.open) {
    HONE_ASSIGN_OR_RETURN(VerifyRequest request, RequestFor(candidates[place], options));
    requests.push_back(std::move(request));
  }
  HONE_ASSIGN_OR_RETURN(ResultFile file, ResultFile::Open(options.out + "/verdicts.jsonl"));
  const auto before = static_cast<int>(work.results.size() - work.open.size());
  int done = 0, correct = 0;
  Progress progress("kernelbench", static_cast<int64_t>(work.results.size()));
  absl::Status written;
  HONE_RETURN_IF_ERROR(verifier.client->VerifyAll(requests, [&](size_t index, const Verdict& verdict) {
    EvalResult& result = work.results[work.open[index]];
    result.verdict = verdict;
    correct += result.correct();
    if (written.ok()) written = file.Add(result);
    ++done;
    progress.Update(before + done, absl::StrFormat("correct %d of %d", correct, done));
  }));
  progress.Finish(absl::StrFormat("correct %d of %d", correct, done));
  return written;
}

absl::Status WriteReports(const std::vector<EvalResult>& results, const KernelBenchOptions& options) {
  const std::string subtitle = absl::StrCat(options.candidates, ", protocol ", options.protocol, ", device ",
                                            options.device, ", policy ", options.policy);
  HONE_RETURN_IF_ERROR(WriteFileAtomically(options.out + "/results.csv", FormatCsv(results)));
  HONE_RETURN_IF_ERROR(WriteFileAtomically(options.out + "/summary.json", FormatJson(results)));
  return WriteFileAtomically(options.out + "/report.html", FormatHtml("KernelBench evaluation", subtitle, results));
}

absl::StatusOr<int> Evaluate(const KernelBenchOptions& options) {
  std::vector<Task> tasks;
  if (!options.tasks.empty()) {
    HONE_ASSIGN_OR_RETURN(tasks, LoadTasks(options.tasks));
  }
  HONE_ASSIGN_OR_RETURN(const std::vector<EvalCandidate> candidates,
                        LoadCandidates(options.candidates, tasks, {options.levels, options.ids}));
  HONE_RETURN_IF_ERROR(ProtocolById(options.protocol).status());
  HONE_RETURN_IF_ERROR(MakeFolders(options.out));
  HONE_ASSIGN_OR_RETURN(Work work, Plan(candidates, options));
  if (!work.open.empty()) HONE_RETURN_IF_ERROR(Judge(candidates, options, work));
  HONE_RETURN_IF_ERROR(WriteReports(work.results, options));
  absl::PrintF("%s\nreport: %s/report.html\n", FormatTables(work.results), options.out);
  return Summarise(work.results).statuses.count("INFRA") > 0 ? kOurFault : kDone;
}

// ---- Claims. ----

struct ClaimsOptions {
  std::vector<std::string> folders;
  std::vector<std::string> library;  // of the other policy
  std::string candidates;
  std::string output;
  std::string python = "python3";
};

/// How each candidate asks for its extension, by the same scan that the verifier's build stage uses.
absl::StatusOr<std::vector<std::pair<std::string, int>>> WhereBuilt(const ClaimsOptions& options,
                                                                    const std::vector<EvalCandidate>& candidates) {
  std::vector<std::pair<std::string, int>> counts = {{"while it is imported", 0},
                                                     {"inside `try`", 0},
                                                     {"in a function, when first needed", 0},
                                                     {"from sources that only a run can tell", 0},
                                                     {"a Triton kernel", 0},
                                                     {"no extension: plain PyTorch", 0},
                                                     {"not a module", 0},
                                                     {"no candidate", 0}};
  for (const EvalCandidate& candidate : candidates) {
    if (candidate.source.empty()) {
      ++counts[7].second;
      continue;
    }
    HONE_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create("hone-claims"));
    HONE_RETURN_IF_ERROR(WriteFileAtomically(folder.path() + "/candidate.py", candidate.source));
    const UniqueFd input(open((folder.path() + "/candidate.py").c_str(), O_RDONLY | O_CLOEXEC));
    SpawnOptions spawn;
    spawn.argv = {options.python, "-I", "-S", ResourcePath("torch/torch_scan.py")};
    spawn.pass_fds = {{input.get(), 0}};
    HONE_ASSIGN_OR_RETURN(const RunResult run, Run(spawn, absl::Seconds(20), 16 << 20));
    const auto json = nlohmann::json::parse(run.output, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object())
      return absl::InternalError(absl::StrCat(candidate.id, ": the scan said ", run.output.substr(0, 200)));
    std::set<std::string> where;
    for (const auto& item : json.value("extensions", nlohmann::json::array())) where.insert(item.value("where", ""));
    const size_t row = !json.value("error", "").empty()                             ? 6
                       : !json.value("unresolved", nlohmann::json::array()).empty() ? 3
                       : where.count("try") > 0                                     ? 1
                       : where.count("function") > 0                                ? 2
                       : where.count("module") > 0                                  ? 0
                       : json.value("triton", false)                                ? 4
                                                                                    : 5;
    ++counts[row].second;
  }
  return counts;
}

/// In the order of the candidates; one without a verdict counts as not judged.
std::vector<EvalResult> InOrder(const std::vector<EvalCandidate>& candidates, const std::vector<EvalResult>& results) {
  std::map<std::string, const EvalResult*> by_id;
  for (const EvalResult& result : results) by_id[result.id] = &result;
  std::vector<EvalResult> ordered;
  for (const EvalCandidate& candidate : candidates) {
    EvalResult result = Begin(candidate, KernelBenchOptions());
    if (const auto found = by_id.find(candidate.id); found != by_id.end()) {
      result.verdict = found->second->verdict;
    } else {
      result.verdict.message = "no verdict yet";
    }
    ordered.push_back(std::move(result));
  }
  return ordered;
}

absl::StatusOr<std::vector<MeasuredClaims>> ReadMeasured(const std::vector<std::string>& folders,
                                                         const std::vector<EvalCandidate>& candidates) {
  std::vector<MeasuredClaims> measured;
  for (const std::string& folder : folders) {
    MeasuredClaims one;
    HONE_ASSIGN_OR_RETURN(one.results, ReadEvalResults(folder + "/verdicts.jsonl"));
    if (one.results.empty())
      return absl::InvalidArgumentError(absl::StrCat(folder, ": no verdicts.jsonl of an evaluation"));
    one.results = InOrder(candidates, one.results);
    for (const EvalResult& result : one.results) {
      if (one.protocol.empty()) one.protocol = result.verdict.protocol;
    }
    measured.push_back(std::move(one));
  }
  return measured;
}

absl::StatusOr<int> Claims(const ClaimsOptions& options) {
  HONE_ASSIGN_OR_RETURN(const std::vector<EvalCandidate> candidates, LoadCandidates(options.candidates, {}, {}));
  HONE_ASSIGN_OR_RETURN(const std::vector<MeasuredClaims> measured, ReadMeasured(options.folders, candidates));
  HONE_ASSIGN_OR_RETURN(const std::vector<MeasuredClaims> library, ReadMeasured(options.library, candidates));
  HONE_ASSIGN_OR_RETURN(const auto where_built, WhereBuilt(options, candidates));
  HONE_RETURN_IF_ERROR(WriteFileAtomically(options.output, FormatClaims(measured, where_built, library)));
  absl::PrintF("%s\n", options.output);
  return kDone;
}

// ---- Building ahead. ----

struct BuildOptions {
  std::string candidates;
  std::string tasks;
  std::string store;
  std::string out;
  std::string protocol = "hone-v1";
  std::string device = "cuda";
  std::string policy = "strict";
  std::string python;
  std::string target_python;
  std::string target_headers;
  std::string architecture = "sm_90";
  std::string sandbox;
  int jobs = 2;
  int niceness = 0;
};

/// The verdict of a candidate that no device needs to see.
EvalResult EndedAt(const verifier::BuildResult& built, const EvalCandidate& candidate, const KernelBenchOptions& options) {
  EvalResult result = Begin(candidate, options);
  result.verdict.status = built.status;
  result.verdict.message = built.message;
  result.verdict.compiler_output = built.compiler_output;
  result.verdict.rules = built.rules;
  result.verdict.toolchain = built.toolchain;
  result.verdict.protocol = options.protocol;
  result.verdict.seconds.build = built.seconds;
  return result;
}

absl::StatusOr<int> Build(const BuildOptions& options) {
  std::vector<Task> tasks;
  if (!options.tasks.empty()) {
    HONE_ASSIGN_OR_RETURN(tasks, LoadTasks(options.tasks));
  }
  HONE_ASSIGN_OR_RETURN(const std::vector<EvalCandidate> candidates, LoadCandidates(options.candidates, tasks, {}));
  verifier::ArtefactStoreOptions store_options;
  store_options.folder = options.store;
  store_options.limit_bytes = int64_t{64} << 30;
  HONE_ASSIGN_OR_RETURN(const auto store, verifier::ArtefactStore::Create(store_options));
  verifier::TorchBuilderOptions builder_options;
  HONE_ASSIGN_OR_RETURN(builder_options.python, verifier::PythonEnvironment::Probe(options.python));
  builder_options.architecture = options.architecture;
  builder_options.sandbox = options.sandbox;
  builder_options.target_version = options.target_python;
  builder_options.niceness = options.niceness;
  if (!options.target_headers.empty()) builder_options.target_includes = {options.target_headers};
  HONE_ASSIGN_OR_RETURN(const auto builder, verifier::CreateTorchBuilder(builder_options, store.get()));
  std::vector<size_t> open;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!candidates[i].source.empty() && candidates[i].format != Format::kNative) open.push_back(i);
  }
  std::optional<ResultFile> file;
  if (!options.out.empty()) {
    HONE_RETURN_IF_ERROR(MakeFolders(options.out));
    HONE_ASSIGN_OR_RETURN(file, ResultFile::Open(options.out + "/verdicts.jsonl"));
  }
  KernelBenchOptions evaluation;
  evaluation.device = options.device;
  evaluation.protocol = options.protocol;
  evaluation.policy = options.policy;
  std::atomic<size_t> next = 0;
  absl::Mutex mutex;
  std::map<std::string, int> statuses;
  absl::Status failed;
  Progress progress("build", static_cast<int64_t>(open.size()));
  std::vector<std::thread> workers;
  for (int w = 0; w < options.jobs; ++w) {
    workers.emplace_back([&] {
      for (size_t i = next++; i < open.size(); i = next++) {
        const EvalCandidate& candidate = candidates[open[i]];
        verifier::BuildRequest request;
        request.candidate = {candidate.format, *ParseBackend(options.device), candidate.source};
        request.legality = candidate.task.legality;
        request.legality.allow_library_kernels = options.policy == "library";
        request.timeout = absl::Minutes(10);
        const absl::StatusOr<verifier::BuildResult> built = builder->Build(request);
        absl::MutexLock lock(&mutex);
        if (!built.ok()) {
          failed = built.status();
          continue;
        }
        ++statuses[std::string(Name(built->status))];
        if (file && built->status != VerdictStatus::kOk) failed.Update(file->Add(EndedAt(*built, candidate, evaluation)));
        absl::PrintF("%s %s %.1fs %s\n", candidate.id, Name(built->status), built->seconds,
                     built->message.substr(0, 160));
        std::fflush(stdout);
        int done = 0;
        for (const auto& [status, count] : statuses) done += count;
        progress.Update(done);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  progress.Finish();
  HONE_RETURN_IF_ERROR(failed);
  for (const auto& [status, count] : statuses) absl::PrintF("%4d %s\n", count, status);
  return kDone;
}

}  // namespace

void AddKernelBench(CLI::App& eval, Action& action) {
  auto options = std::make_shared<KernelBenchOptions>();
  CLI::App* command =
      eval.add_subcommand("kernelbench", "Judges candidates of KernelBench tasks: correct, fast_p, per level");
  command->footer(
      "A candidate is judged once: verdicts go to OUT/verdicts.jsonl as they come, and a run that was killed goes on "
      "where\n"
      "it stood. Besides: results.csv, summary.json, report.html.\n"
      "Exit code: 0 all judged, 2 unusable input, 1 our own failure, or candidates left unjudged for one.\n"
      "Example:\n  hone eval kernelbench --candidates samples.jsonl --tasks KernelBench --device cuda --out run1");
  command->add_option("--candidates", options->candidates, "JSONL or folder of candidates")->required();
  command->add_option("--tasks", options->tasks,
                      "KernelBench checkout or JSONL, where the candidates do not bring theirs");
  command->add_option("--out", options->out, "Folder of verdicts and reports")->capture_default_str();
  command->add_option("--device", options->device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_option("--protocol", options->protocol, "hone-v1, kernelbench-v0.1 or quick")->capture_default_str();
  command->add_option("--policy", options->policy, "strict: own kernels do all the computing; library: PyTorch may")
      ->check(CLI::IsMember({"strict", "library"}));
  command->add_option("--levels", options->levels, "Only these levels")->delimiter(',');
  command->add_option("--ids", options->ids, "Only these tasks")->delimiter(',');
  command->add_option("--run-timeout", options->run_timeout_s,
                      "Seconds of a lane for one candidate; 0: the protocol's");
  AddVerifierChoice(*command, options->verifier);
  command->add_option("--set", options->set, "key=value for the verifier of its own")
      ->type_size(1)
      ->allow_extra_args(false);
  command->callback([options, &action] {
    action = [options]() -> int {
      const absl::StatusOr<int> code = Evaluate(*options);
      return code.ok() ? *code : Report(code.status());
    };
  });

  auto build = std::make_shared<BuildOptions>();
  CLI::App* ahead =
      eval.add_subcommand("build", "Builds Python candidates into an artefact store, ahead of their evaluation");
  ahead->footer(
      "For a machine without a GPU, and for another machine's Python of the same torch: a verifier whose folder holds "
      "the\n"
      "store as `artefacts` finds them built.\n"
      "Example:\n  hone eval build --candidates samples.jsonl --store verifier/artefacts --target-python 3.12 "
      "--target-headers inc");
  ahead->add_option("--candidates", build->candidates, "JSONL or folder of candidates")->required();
  ahead->add_option("--tasks", build->tasks, "KernelBench checkout or JSONL, where the candidates do not bring theirs");
  ahead->add_option("--store", build->store, "Folder of artefacts")->required();
  ahead->add_option("--out", build->out, "Folder of an evaluation: gets the verdicts of what ends here");
  ahead->add_option("--protocol", build->protocol, "As the evaluation's")->capture_default_str();
  ahead->add_option("--device", build->device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  ahead->add_option("--policy", build->policy, "As the evaluation's")->check(CLI::IsMember({"strict", "library"}));
  ahead->add_option("--python", build->python, "Interpreter with torch")->required();
  ahead->add_option("--target-python", build->target_python, "Version of the Python that will run them, as 3.12");
  ahead->add_option("--target-headers", build->target_headers, "Folder of that version's Python.h");
  ahead->add_option("--architecture", build->architecture, "Of the GPU")->capture_default_str();
  ahead->add_option("--sandbox", build->sandbox, "Of the compilers: bubblewrap or none; default: $HONE_SANDBOX, else bubblewrap")
      ->check(CLI::IsMember({"bubblewrap", "none"}));
  ahead->add_option("--jobs", build->jobs, "Builds at a time")->check(CLI::Range(1, 256));
  ahead->add_option("--niceness", build->niceness, "Of the compilers")->check(CLI::Range(0, 19));
  ahead->callback([build, &action] {
    action = [build]() -> int {
      const absl::StatusOr<int> code = Build(*build);
      return code.ok() ? *code : Report(code.status());
    };
  });

  auto claims = std::make_shared<ClaimsOptions>();
  CLI::App* compare = eval.add_subcommand("claims", "Writes what evaluations say about published speedups");
  compare->footer(
      "Example:\n  hone eval claims hone-v1 kernelbench-v0.1 --candidates cuda_l1_h100.jsonl --output claims.md");
  compare->add_option("folders", claims->folders, "Output folders of hone eval kernelbench, one a protocol")
      ->required();
  compare->add_option("--library", claims->library, "The same of evaluations under --policy library")
      ->type_size(1)
      ->allow_extra_args(false);
  compare->add_option("--candidates", claims->candidates, "The JSONL that was evaluated")->required();
  compare->add_option("--output", claims->output, "Markdown file to write")->required();
  compare->add_option("--python", claims->python, "Interpreter that reads the candidates")->capture_default_str();
  compare->callback([claims, &action] {
    action = [claims]() -> int {
      const absl::StatusOr<int> code = Claims(*claims);
      return code.ok() ? *code : Report(code.status());
    };
  });
}

}  // namespace hone::cli
