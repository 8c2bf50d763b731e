// attack-corpus: runs the corpus on a device and writes what became of each program into a page.
//
//   attack-corpus --corpus tests/attacks --device cuda --results attacks.jsonl --out docs/attacks.md
//
// Every verdict is added to the results file as it comes, and what stands there is not run again: a run that was cut short
// goes on where it ended. --report only writes the page. Besides the corpus it judges honest kernels in the styles of the
// quickstart, drawn anew. The table replaces what stands between two marks of the page. Exit code 3: an attack was OK that is
// not marked as harmless, or an honest program was not.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "attacks/corpus.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "rollout/sampler/generator.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace hone::attacks {
namespace {

using Json = nlohmann::json;

constexpr char kBegin[] = "<!-- device table: begin -->\n";
constexpr char kEnd[] = "<!-- device table: end -->\n";
constexpr uint64_t kSeed = 20260301;  // of the honest kernels

struct Arguments {
  std::string corpus = "tests/attacks";
  std::string device = "cuda";
  std::string python;
  std::string out;
  std::string results = "attacks.jsonl";
  int lanes = 1;
  int styled = 200;
  bool report = false;
};

/// What became of one program.
struct Result {
  VerdictStatus status = VerdictStatus::kInfra;
  std::string message, device;
  std::vector<std::string> rules;
  bool rejected = false;  // by one of the rules
};

/// One program to judge: of the corpus, behind the rules over its text, or an honest kernel.
struct Trial {
  std::string name;
  Program program;
  VerifyRequest request;
  bool styled = false;
  bool open = false;

  bool honest() const { return styled || program.honest(); }
  /// Whether the verifier did what it should.
  bool Held(const Result& result) const {
    const bool ok = result.status == VerdictStatus::kOk;
    const bool honest_failure = !styled && program.honest() && program.expect.front() != VerdictStatus::kOk;
    if (result.status == VerdictStatus::kInfra) return false;
    if (honest()) return ok != honest_failure && !result.rejected;
    return !ok || !program.harmless.empty() || (request.candidate.backend != Backend::kCpu && !program.gpu.empty());
  }
};

/// Whether its build takes long: an extension's, or one that was made to.
bool BuildsLong(const Program& program) {
  return absl::StrContains(program.source, "load_inline(") || absl::StrContains(program.source, "cpp_extension") ||
         std::count(program.expect.begin(), program.expect.end(), VerdictStatus::kCompileTimeout) > 0;
}

/// hone-v1 with few and short rounds: what is asked is who gets through, not how fast he is.
Protocol CorpusProtocol(const Program& program) {
  Protocol protocol = ProtocolById("hone-v1").value();
  const bool honest = program.name.empty() || program.honest();
  protocol.min_rounds = protocol.max_rounds = honest ? 3 : 5;
  protocol.max_overhead = 0.04;
  protocol.build_timeout_ms = program.format() == Format::kNative ? 20'000 : 90'000;
  // Those that are meant to run for ever need not be waited for.
  const bool endless = std::count(program.expect.begin(), program.expect.end(), VerdictStatus::kTimeout) +
                           std::count(program.behind.begin(), program.behind.end(), VerdictStatus::kTimeout) > 0;
  protocol.run_timeout_ms = endless ? 2'500 : honest ? 15'000 : 8'000;
  return protocol;
}

absl::StatusOr<Trial> TrialOf(const Program& program, bool open, Backend backend, const Arguments& arguments) {
  Trial trial;
  trial.name = absl::StrCat(program.name, open ? ", rules off" : "");
  trial.program = program;
  trial.open = open;
  HONE_ASSIGN_OR_RETURN(trial.request.task, TaskOf(program, arguments.corpus, open));
  trial.request.candidate = {program.format(), backend, program.source};
  trial.request.protocol = CorpusProtocol(program);
  // The lane works while the compilers do: what takes them long first, what needs none next, the quickstart's kernels last.
  trial.request.priority = BuildsLong(program) ? Priority::kHigh : Priority::kNormal;
  return trial;
}

/// Honest kernels in the quickstart's styles, always the same ones.
std::vector<Trial> StyledTrials(int count, Backend backend) {
  rollout::Generator generator(kSeed);
  rollout::SplitMix random(7);
  std::vector<Trial> trials;
  while (static_cast<int>(trials.size()) < count) {
    const rollout::GeneratedTask drawn = rollout::MakeTask(generator.NextProgram());
    for (int k = 0; k < 5 && static_cast<int>(trials.size()) < count; ++k) {
      rollout::DemonstrationOptions right;
      right.flawed_share = 0;
      const rollout::Demonstration demonstration = rollout::DrawDemonstration(drawn.program, right, random);
      Trial trial;
      trial.name = absl::StrCat("styled/", trials.size(), "_", demonstration.style);
      trial.styled = true;
      trial.request.task = drawn.task;
      trial.request.candidate = {Format::kNative, backend, demonstration.source};
      trial.request.protocol = CorpusProtocol(trial.program);
      trial.request.priority = Priority::kLow;
      trials.push_back(std::move(trial));
    }
  }
  return trials;
}

absl::StatusOr<std::vector<Trial>> AllTrials(const Arguments& arguments) {
  const std::optional<Backend> backend = ParseBackend(arguments.device);
  if (!backend) return absl::InvalidArgumentError(absl::StrCat("--device: no backend ", arguments.device));
  std::vector<Trial> trials;
  for (const char* extension : {".py", ".cu"}) {
    HONE_ASSIGN_OR_RETURN(const std::vector<Program> programs, LoadCorpus(arguments.corpus, extension));
    for (const Program& program : programs) {
      if (*backend != Backend::kCpu && program.lane == "cpu") continue;
      if (*backend == Backend::kCpu && program.lane == "device") continue;
      for (const bool open : {false, true}) {
        if (open && program.behind.empty()) continue;
        HONE_ASSIGN_OR_RETURN(Trial trial, TrialOf(program, open, *backend, arguments));
        trials.push_back(std::move(trial));
      }
    }
  }
  for (Trial& trial : StyledTrials(arguments.styled, *backend)) trials.push_back(std::move(trial));
  return trials;
}

// ---- Results, a line each. ----

std::string ToLine(const std::string& name, const Verdict& verdict) {
  std::vector<std::string> rules;
  bool rejected = false;
  for (const RuleHit& hit : verdict.rules) {
    rules.push_back(hit.rule);
    rejected = rejected || hit.reject;
  }
  return Json{{"program", name},
              {"status", std::string(Name(verdict.status))},
              {"message", verdict.message},
              {"device", verdict.device},
              {"rules", rules},
              {"rejected", rejected}}
             .dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// By program; the last line of each counts, and a line that was cut short does not. Failures of ours are tried again.
std::map<std::string, Result> ReadResults(const std::string& path) {
  std::map<std::string, Result> results;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return results;
  for (absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const Json json = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    const std::optional<VerdictStatus> status = ParseVerdictStatus(json.value("status", ""));
    if (!status || *status == VerdictStatus::kInfra) continue;
    Result& result = results[json.value("program", "")];
    result = {*status, json.value("message", ""), json.value("device", ""),
              json.value("rules", std::vector<std::string>()), json.value("rejected", false)};
  }
  return results;
}

absl::Status RunTrials(const std::vector<Trial>& trials, const Arguments& arguments) {
  const std::map<std::string, Result> known = ReadResults(arguments.results);
  std::vector<VerifyRequest> requests;
  std::vector<std::string> names;
  for (const Trial& trial : trials) {
    if (known.count(trial.name) > 0) continue;
    requests.push_back(trial.request);
    names.push_back(trial.name);
  }
  std::fprintf(stderr, "%zu programs, %zu of them judged before\n", trials.size(), trials.size() - names.size());
  if (requests.empty()) return absl::OkStatus();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(arguments.results.c_str(), "a"), &std::fclose);
  if (file == nullptr) return ErrnoStatus(errno, absl::StrCat("opening ", arguments.results));
  verifier::LocalServerOptions options;
  options.python = arguments.python;
  options.log_path = "attack-corpus.log";
  options.extra_args = {absl::StrCat("--set=devices=[", arguments.device, "]"), absl::StrCat("--set=lanes=", arguments.lanes),
                        "--set=screen=off"};  // what the processor finds first would not have met the device
  HONE_ASSIGN_OR_RETURN(const auto server, verifier::LocalServer::Start(options));
  verifier::ClientOptions client_options;
  client_options.endpoints = {server->endpoint()};
  client_options.deadline = absl::Minutes(60);
  client_options.max_in_flight = static_cast<int>(requests.size());
  HONE_ASSIGN_OR_RETURN(const auto client, verifier::Client::Create(client_options));
  size_t done = 0;
  return client->VerifyAll(requests, [&](size_t index, const Verdict& verdict) {
    std::fputs(ToLine(names[index], verdict).c_str(), file.get());
    std::fflush(file.get());
    std::fprintf(stderr, "%zu/%zu %s: %s\n", ++done, names.size(), names[index].c_str(), std::string(Name(verdict.status)).c_str());
  });
}

// ---- The page. ----

std::string Cell(std::string text) {
  std::replace(text.begin(), text.end(), '|', '/');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string Table(const std::vector<Trial>& trials, const std::map<std::string, Result>& results, const std::string& fallback) {
  std::map<std::string, std::pair<int, int>> classes;  // letter, or the styled kernels -> {held, all}
  std::string device = fallback, rows;
  int missing = 0;
  for (const Trial& trial : trials) {
    const auto found = results.find(trial.name);
    if (found == results.end()) {
      ++missing;
      continue;
    }
    const Result& result = found->second;
    if (!result.device.empty()) device = result.device;
    const bool held = trial.Held(result);
    const std::string name = trial.styled ? "kernels in the quickstart's styles"
                                          : std::string(1, static_cast<char>(trial.program.letter() - 'a' + 'A'));
    auto& [kept, all] = classes[name];
    kept += held;
    ++all;
    if (trial.styled && held) continue;  // two hundred rows of OK say nothing
    const std::string what = trial.styled ? "an honest kernel" : trial.program.attack;
    absl::StrAppend(&rows, "| ", trial.name, " | ", Cell(what), " | ", Name(result.status), " | ",
                    absl::StrJoin(result.rules, ", "), " | ", held ? "yes" : absl::StrCat("**no**: ", Cell(result.message)), " |\n");
  }
  std::string text = absl::StrCat(kBegin, "On ", device, ", ", absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone()),
                                  ", held of judged:");
  for (const auto& [name, count] : classes) absl::StrAppend(&text, " ", name, " ", count.first, "/", count.second, ",");
  text.back() = '.';
  if (missing > 0) absl::StrAppend(&text, " Not judged: ", missing, ".");
  return absl::StrCat(text, "\n\n| Program | What it does | Verdict | Rules | Held |\n|---|---|---|---|---|\n", rows, kEnd);
}

absl::Status Write(const std::string& path, const std::string& table) {
  HONE_ASSIGN_OR_RETURN(std::string page, ReadFile(path));
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has no marks for the device table"));
  }
  page.replace(begin, end + std::string(kEnd).size() - begin, table);
  return WriteFileAtomically(path, page);
}

/// Whether all that was judged held, and all was judged.
absl::StatusOr<bool> Execute(const Arguments& arguments) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Trial> trials, AllTrials(arguments));
  if (!arguments.report) HONE_RETURN_IF_ERROR(RunTrials(trials, arguments));
  const std::map<std::string, Result> results = ReadResults(arguments.results);
  const std::string table = Table(trials, results, arguments.device);
  if (arguments.out.empty()) std::fputs(table.c_str(), stdout);
  if (!arguments.out.empty()) HONE_RETURN_IF_ERROR(Write(arguments.out, table));
  return std::all_of(trials.begin(), trials.end(), [&](const Trial& trial) {
    const auto found = results.find(trial.name);
    return found != results.end() && trial.Held(found->second);
  });
}

int Main(int argc, char** argv) {
  CLI::App app{"Runs the attack corpus on a device.\nExample: attack-corpus --corpus tests/attacks --device cuda --out docs/attacks.md"};
  Arguments arguments;
  app.add_option("--corpus", arguments.corpus, "folder of the corpus");
  app.add_option("--device", arguments.device, "cpu, cuda or musa");
  app.add_option("--python", arguments.python, "interpreter with torch");
  app.add_option("--lanes", arguments.lanes, "lanes of the verifier");
  app.add_option("--styled", arguments.styled, "honest kernels in the quickstart's styles");
  app.add_option("--results", arguments.results, "file of verdicts, to go on from");
  app.add_option("--out", arguments.out, "page whose table is replaced; empty: standard output");
  app.add_flag("--report", arguments.report, "judges nothing, writes the page");
  CLI11_PARSE(app, argc, argv);
  const absl::StatusOr<bool> held = Execute(arguments);
  if (!held.ok()) {
    std::fprintf(stderr, "attack-corpus: %s\n", std::string(held.status().message()).c_str());
    return 1;
  }
  return *held ? 0 : 3;
}

}  // namespace
}  // namespace hone::attacks

int main(int argc, char** argv) { return hone::attacks::Main(argc, argv); }
