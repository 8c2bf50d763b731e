// `hone eval`: measures hone against recorded truth. `samples`: the verifier against a GPU's verdicts.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "base/verify_request.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "cli/samples/recorded_samples.h"
#include "cli/verifier_access.h"

namespace hone::cli {
namespace {

struct SamplesOptions {
  std::string file;
  std::string device = "cpu";
  VerifierChoice verifier;
  std::string screen = "off";
  bool json = false;
  bool timed = false;
};

/// Whether an answer's speed is compared with the recorded one.
bool IsTimed(const RecordedSample& sample, const SamplesOptions& options) {
  return options.timed && sample.verdict == "ok" && sample.candidate_ms > 0 && !sample.timing_size.empty();
}

/// hone's checks without timing.
Protocol ChecksOnly() {
  Protocol protocol;
  protocol.id = "checks-only";
  protocol.baselines.clear();
  return protocol;
}

using Signatures = std::map<std::string, Signature>;  // derived ones by task and shapes

absl::StatusOr<VerifyRequest> RequestFor(const RecordedSample& sample, const SamplesOptions& options,
                                         verifier::Client& client, Signatures& signatures) {
  VerifyRequest request;
  HONE_ASSIGN_OR_RETURN(request.task, TaskOfSample(sample, ResourcePath("samples/tasks")));
  if (!IsTimed(sample, options)) request.task.timing_gpu.clear();
  std::string key = sample.task;
  for (const Sizes& sizes : sample.check_sizes) absl::StrAppend(&key, ";", FormatSizes(sizes));
  if (signatures.count(key) == 0) {
    HONE_ASSIGN_OR_RETURN(signatures[key], client.DescribeTask(request.task));
  }
  HONE_ASSIGN_OR_RETURN(request.candidate.source, AdaptSource(sample, signatures[key]));
  request.candidate.backend = *ParseBackend(options.device);  // checked by the command line
  if (IsTimed(sample, options)) {
    // Nothing was checked at the recorded timing shapes, where a serial sum of 8,192 floats is off by more than 1e-4.
    request.task.tolerance = {1e-3, 1e-3};
  } else {
    request.protocol = ChecksOnly();
  }
  request.use_cache = false;
  return request;
}

absl::StatusOr<std::vector<VerifyRequest>> RequestsFor(const std::vector<RecordedSample>& samples,
                                                       const SamplesOptions& options, verifier::Client& client) {
  Signatures signatures;
  std::vector<VerifyRequest> requests;
  for (const RecordedSample& sample : samples) {
    absl::StatusOr<VerifyRequest> request = RequestFor(sample, options, client, signatures);
    if (!request.ok()) {
      return absl::Status(request.status().code(),
                          absl::StrCat(options.file, ":", sample.line, ": ", request.status().message()));
    }
    requests.push_back(*std::move(request));
  }
  return requests;
}

/// Says it where candidates run unprotected.
absl::Status CheckVerifier(const std::string& device, verifier::Client& client) {
  HONE_ASSIGN_OR_RETURN(const Capabilities capabilities, client.GetCapabilities());
  WarnOfSandbox(capabilities.sandbox);
  const std::vector<std::string>& backends = capabilities.backends;
  if (std::find(backends.begin(), backends.end(), device) != backends.end()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--device ", device, ": the verifier has ", absl::StrJoin(backends, ", ")));
}

bool Disagrees(const RecordedSample& sample, const Verdict& verdict) {
  return verdict.status == VerdictStatus::kInfra || verdict.ok() != (sample.verdict == "ok");
}

absl::StatusOr<std::vector<Verdict>> Judge(const std::vector<RecordedSample>& samples, const SamplesOptions& options) {
  HONE_ASSIGN_OR_RETURN(const VerifierAccess verifier,
                        OpenVerifier(options.verifier, {"rescue_flags=false",  // recorded with nvcc's bare command line
                                                        absl::StrCat("devices=[", options.device, "]"), "screen=" + options.screen}));
  HONE_RETURN_IF_ERROR(CheckVerifier(options.device, *verifier.client));
  HONE_ASSIGN_OR_RETURN(const std::vector<VerifyRequest> requests, RequestsFor(samples, options, *verifier.client));
  Progress progress("samples", static_cast<int64_t>(requests.size()));
  std::vector<Verdict> verdicts(requests.size());
  int done = 0, agreeing = 0;
  HONE_RETURN_IF_ERROR(verifier.client->VerifyAll(requests, [&](size_t index, const Verdict& verdict) {
    verdicts[index] = verdict;
    agreeing += Disagrees(samples[index], verdict) ? 0 : 1;
    ++done;
    progress.Update(done, absl::StrFormat("agreeing %d of %d", agreeing, done));
  }));
  progress.Finish(absl::StrFormat("agreeing %d of %d", agreeing, done));
  return verdicts;
}

void PrintClasses(const Agreement& agreement) {
  std::set<std::string> rows, columns;
  for (const auto& [pair, count] : agreement.classes) {
    rows.insert(pair.first);
    columns.insert(pair.second);
  }
  absl::PrintF("\n%-12s", "H200 \\ here");
  for (const std::string& column : columns) absl::PrintF(" %10s", column);
  absl::PrintF("\n");
  for (const std::string& row : rows) {
    absl::PrintF("%-12s", row);
    for (const std::string& column : columns) {
      const auto found = agreement.classes.find({row, column});
      absl::PrintF(" %10d", found == agreement.classes.end() ? 0 : found->second);
    }
    absl::PrintF("\n");
  }
}

/// What was recorded and what is measured, as a table of Markdown; nothing where nothing was timed.
void PrintSpeeds(const std::vector<RecordedSample>& samples, const std::vector<Verdict>& verdicts) {
  std::vector<double> ratios;
  std::string rows;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Timing* timing = verdicts[i].speed();
    if (timing == nullptr || samples[i].candidate_ms <= 0) continue;
    const double ratio = timing->candidate_ns / 1e6 / samples[i].candidate_ms;
    ratios.push_back(ratio);
    absl::StrAppend(&rows, absl::StrFormat("| %s | %d | %.4g | %.4g | %.3f | %.4g | %.4g [%.4g, %.4g] |\n", samples[i].task, samples[i].line,
                                           1e3 * samples[i].candidate_ms, timing->candidate_ns / 1e3, ratio,
                                           samples[i].eager_ms / samples[i].candidate_ms, timing->speedup.median, timing->speedup.low,
                                           timing->speedup.high));
  }
  if (ratios.empty()) return;
  std::sort(ratios.begin(), ratios.end());
  const auto within = [&](double share) {
    return std::count_if(ratios.begin(), ratios.end(), [&](double ratio) { return ratio <= 1 + share && ratio >= 1 / (1 + share); });
  };
  absl::PrintF("\ntimes of %d answers: measured / recorded from %.3f to %.3f, median %.3f; within 2 %%: %d, 5 %%: %d, 10 %%: %d\n\n",
               ratios.size(), ratios.front(), ratios.back(), ratios[ratios.size() / 2], within(0.02), within(0.05), within(0.1));
  absl::PrintF("| Task | Line | Recorded, us | Measured, us | Ratio | Recorded speedup | Measured speedup |\n"
               "|---|---:|---:|---:|---:|---:|---:|\n%s", rows);
}

void Print(const std::vector<RecordedSample>& samples, const std::vector<Verdict>& verdicts,
           const Agreement& agreement) {
  absl::PrintF("%-18s %d\n%-18s %d\n%-18s %d\n%-18s %d\n%-18s %d\n", "n", agreement.n, "both ok", agreement.both_ok,
               "both rejected", agreement.both_rejected, "wrongly accepted", agreement.wrongly_accepted,
               "wrongly rejected", agreement.wrongly_rejected);
  if (agreement.unjudged > 0) absl::PrintF("%-18s %d\n", "unjudged", agreement.unjudged);
  PrintClasses(agreement);
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!Disagrees(samples[i], verdicts[i])) continue;
    absl::PrintF("line %d, %s: H200 %s, here %s  %s\n", samples[i].line, samples[i].task, samples[i].verdict,
                 Name(verdicts[i].status), verdicts[i].message);
  }
  PrintSpeeds(samples, verdicts);
}

void PrintJson(const std::vector<RecordedSample>& samples, const std::vector<Verdict>& verdicts,
               const Agreement& agreement) {
  nlohmann::ordered_json json = {{"n", agreement.n},
                                 {"both_ok", agreement.both_ok},
                                 {"both_rejected", agreement.both_rejected},
                                 {"wrongly_accepted", agreement.wrongly_accepted},
                                 {"wrongly_rejected", agreement.wrongly_rejected},
                                 {"unjudged", agreement.unjudged}};
  for (const auto& [pair, count] : agreement.classes) json["classes"][pair.first][pair.second] = count;
  for (size_t i = 0; i < samples.size(); ++i) {
    json["samples"].push_back({{"line", samples[i].line},
                               {"task", samples[i].task},
                               {"h200", samples[i].verdict},
                               {"status", std::string(Name(verdicts[i].status))},
                               {"message", verdicts[i].message}});
    if (const Timing* timing = verdicts[i].speed()) {
      json["samples"].back()["recorded_ms"] = samples[i].candidate_ms;
      json["samples"].back()["measured_ms"] = timing->candidate_ns / 1e6;
    }
  }
  absl::PrintF("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

absl::StatusOr<int> Samples(const SamplesOptions& options) {
  if (options.timed && options.device != "cuda") {
    return absl::InvalidArgumentError("--timed: the recorded times are a GPU's, and --device is not cuda");
  }
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.file));
  HONE_ASSIGN_OR_RETURN(const std::vector<RecordedSample> samples, ParseRecordedSamples(text, options.file));
  HONE_ASSIGN_OR_RETURN(const std::vector<Verdict> verdicts, Judge(samples, options));
  const Agreement agreement = Compare(samples, verdicts);
  if (options.json) {
    PrintJson(samples, verdicts, agreement);
  } else {
    Print(samples, verdicts, agreement);
  }
  if (agreement.unjudged > 0) return kOurFault;
  return agreement.wrongly_accepted + agreement.wrongly_rejected > 0 ? kAskedForFailed : kDone;
}

}  // namespace

void AddEval(CLI::App& app, Action& action) {
  CLI::App* eval = app.add_subcommand("eval", "Measures hone against recorded truth");
  eval->require_subcommand(1);
  AddKernelBench(*eval, action);
#ifdef HONE_WITH_TORCH
  AddEvalPolicy(*eval, action);
#endif
  auto options = std::make_shared<SamplesOptions>();
  CLI::App* samples = eval->add_subcommand("samples", "Verifies recorded answers and compares with a GPU's verdicts");
  samples->footer(
      "The file has one JSON object a line: task, signature, check_sizes, source and verdict_h200 (ok, wrong, "
      "compile,\n"
      "oob_write or crash). Nothing is timed but with --timed. The recordings were compiled by nvcc's bare command line; a verifier "
      "given by\n"
      "--server agrees with them only where it runs with rescue_flags: false.\n"
      "Exit code: 0 all accepted and rejected alike, 3 an answer wrongly accepted or rejected, 2 unusable input, 1 our "
      "own\n"
      "failure.\n"
      "Example:\n  hone eval samples qwen_coder_native_samples.jsonl --device cpu --json");
  samples->add_option("file", options->file, "The recorded answers, .jsonl")->required();
  samples->add_option("--device", options->device, "cpu (the CUDA dialect emulated) or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  AddVerifierChoice(*samples, options->verifier);
  samples->add_option("--screen", options->screen, "Of the verifier of its own, with --device cuda: cpu or off")
      ->check(CLI::IsMember({"cpu", "off"}));
  samples->add_flag("--timed", options->timed, "On a GPU: right answers are timed, and compared with the recorded times");
  samples->add_flag("--json", options->json, "The agreement and each verdict as JSON");
  samples->callback([options, &action] {
    action = [options]() -> int {
      const absl::StatusOr<int> code = Samples(*options);
      return code.ok() ? *code : Report(code.status());
    };
  });
}

}  // namespace hone::cli
