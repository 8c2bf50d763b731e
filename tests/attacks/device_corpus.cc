// attack-corpus: runs the corpus on a device and writes what became of each program into a page.
//
//   attack-corpus --corpus tests/attacks --device cuda --out docs/attacks.md
//
// It replaces what stands between two marks of the page, or prints the table when there is no page. Exit code 3: an attack
// was OK that is not marked as harmless, or an honest program was not.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "attacks/corpus.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/task_suite.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace hone::attacks {
namespace {

constexpr char kBegin[] = "<!-- device table: begin -->\n";
constexpr char kEnd[] = "<!-- device table: end -->\n";

struct Arguments {
  std::string corpus = "tests/attacks";
  std::string device = "cuda";
  std::string python;
  std::string out;
  int lanes = 1;
};

struct Row {
  Program program;
  Verdict verdict;
  /// Whether the verifier did what it should.
  bool held() const {
    const bool ok = verdict.status == VerdictStatus::kOk;
    const bool honest_failure = program.honest() && program.expect.front() != VerdictStatus::kOk;
    if (verdict.status == VerdictStatus::kInfra) return false;
    if (program.honest()) return ok != honest_failure;
    return !ok || !program.harmless.empty();
  }
};

absl::StatusOr<VerifyRequest> RequestFor(const Program& program, const Arguments& arguments) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Task> tasks,
                        LoadTasks(absl::StrCat(arguments.corpus, "/tasks/", program.task, ".py")));
  VerifyRequest request;
  request.task = tasks.front();
  request.candidate.source = program.source;
  const std::optional<Backend> backend = ParseBackend(arguments.device);
  if (!backend) return absl::InvalidArgumentError(absl::StrCat("--device: no backend ", arguments.device));
  request.candidate.backend = *backend;
  if (absl::EndsWith(program.name, ".py")) {
    request.candidate.format = absl::StrContains(program.source, "@triton.jit") ? Format::kTriton : Format::kTorch;
  }
  request.protocol = ProtocolById("hone-v1").value();
  request.protocol.min_rounds = 5;
  request.protocol.max_rounds = 9;
  request.protocol.build_timeout_ms = 60'000;
  request.protocol.run_timeout_ms = 10'000;
  return request;
}

absl::StatusOr<std::vector<Row>> RunCorpus(const Arguments& arguments, std::string* device) {
  std::vector<Row> rows;
  std::vector<VerifyRequest> requests;
  for (const char* extension : {".cu", ".py"}) {
    HONE_ASSIGN_OR_RETURN(std::vector<Program> programs, LoadCorpus(arguments.corpus, extension));
    for (Program& program : programs) {
      // Programs with preambles look for the emulated runner's own state.
      const bool of_the_emulation = program.lane == "cpu" || absl::StrContains(program.source, "in_libc(");
      if (arguments.device != "cpu" && of_the_emulation) continue;
      if (arguments.device == "cpu" && program.lane == "device") continue;
      HONE_ASSIGN_OR_RETURN(VerifyRequest request, RequestFor(program, arguments));
      requests.push_back(std::move(request));
      rows.push_back({std::move(program), {}});
    }
  }
  verifier::LocalServerOptions options;
  options.python = arguments.python;
  options.log_path = "attack-corpus.log";
  options.extra_args = {absl::StrCat("--set=devices=[", arguments.device, "]"), absl::StrCat("--set=lanes=", arguments.lanes),
                        "--set=screen=off"};  // what the processor finds first would not have met the device
  HONE_ASSIGN_OR_RETURN(const auto server, verifier::LocalServer::Start(options));
  verifier::ClientOptions client_options;
  client_options.endpoints = {server->endpoint()};
  client_options.deadline = absl::Minutes(30);
  HONE_ASSIGN_OR_RETURN(const auto client, verifier::Client::Create(client_options));
  size_t done = 0;
  HONE_RETURN_IF_ERROR(client->VerifyAll(requests, [&](size_t index, const Verdict& verdict) {
    rows[index].verdict = verdict;
    if (!verdict.device.empty()) *device = verdict.device;
    std::fprintf(stderr, "%zu/%zu %s: %s\n", ++done, rows.size(), rows[index].program.name.c_str(),
                 std::string(Name(verdict.status)).c_str());
  }));
  return rows;
}

std::string Table(const std::vector<Row>& rows, const std::string& device) {
  std::map<char, std::pair<int, int>> classes;  // letter -> {held, all}
  for (const Row& row : rows) {
    auto& [held, all] = classes[row.program.letter()];
    held += row.held();
    ++all;
  }
  std::string text = absl::StrCat(kBegin, "On ", device, ", ", absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone()), ":");
  for (const auto& [letter, count] : classes) {
    absl::StrAppend(&text, " ", std::string(1, static_cast<char>(letter - 'a' + 'A')), " ", count.first, "/", count.second);
  }
  absl::StrAppend(&text, ".\n\n| Program | What it does | Verdict | Rules | Held |\n|---|---|---|---|---|\n");
  for (const Row& row : rows) {
    std::vector<std::string> rules;
    for (const RuleHit& hit : row.verdict.rules) rules.push_back(hit.rule);
    absl::StrAppend(&text, "| ", row.program.name, " | ", row.program.attack, " | ", Name(row.verdict.status), " | ",
                    absl::StrJoin(rules, ", "), " | ", row.held() ? "yes" : "**no**", " |\n");
  }
  return absl::StrCat(text, kEnd);
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

int Main(int argc, char** argv) {
  CLI::App app{"Runs the attack corpus on a device.\nExample: attack-corpus --corpus tests/attacks --device cuda --out docs/attacks.md"};
  Arguments arguments;
  app.add_option("--corpus", arguments.corpus, "folder of the corpus");
  app.add_option("--device", arguments.device, "cpu, cuda or musa");
  app.add_option("--python", arguments.python, "interpreter with torch");
  app.add_option("--lanes", arguments.lanes, "lanes of the verifier");
  app.add_option("--out", arguments.out, "page whose table is replaced; empty: standard output");
  CLI11_PARSE(app, argc, argv);
  std::string device = arguments.device;
  const auto rows = RunCorpus(arguments, &device);
  if (!rows.ok()) {
    std::fprintf(stderr, "attack-corpus: %s\n", std::string(rows.status().message()).c_str());
    return 1;
  }
  const std::string table = Table(*rows, device);
  if (arguments.out.empty()) std::fputs(table.c_str(), stdout);
  if (!arguments.out.empty()) {
    if (const absl::Status written = Write(arguments.out, table); !written.ok()) {
      std::fprintf(stderr, "attack-corpus: %s\n", std::string(written.message()).c_str());
      return 1;
    }
  }
  return std::all_of(rows->begin(), rows->end(), [](const Row& row) { return row.held(); }) ? 0 : 3;
}

}  // namespace
}  // namespace hone::attacks

int main(int argc, char** argv) { return hone::attacks::Main(argc, argv); }
