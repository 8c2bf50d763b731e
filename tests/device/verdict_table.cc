// verdict-table: judges the candidates of verdicts.h on a device and writes the page docs/verdicts.md.
//
//   verdict-table --device cuda --out docs/verdicts.md
//
// Exit code 3: a verdict is not the promised one.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/results.h"
#include "base/status_macros.h"
#include "device/verdicts.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace hone::device_tests {
namespace {

struct Arguments {
  std::string device = "cuda";
  std::string server;
  std::string python;
  std::string log;
  std::string out;
};

std::string Cell(std::string text) {
  std::replace(text.begin(), text.end(), '|', '/');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.substr(0, 220);
}

std::string SpeedOf(const Verdict& verdict) {
  const Timing* speed = verdict.speed();
  if (speed == nullptr) return "";
  return absl::StrFormat("%.3gx [%.3g, %.3g], %.4g us", speed->speedup.median, speed->speedup.low, speed->speedup.high,
                         speed->candidate_ns / 1e3);
}

std::string ProfileOf(const Verdict& verdict) {
  std::string text;
  for (const KernelProfile& kernel : verdict.profile) {
    absl::StrAppend(&text, absl::StrFormat("%s: %d launched, %.4g us, share %.0f %%, occupancy %.0f %%, %.4g MB, %.4g MFLOP, %.0f %% of "
                                           "the roofline\n",
                                           kernel.kernel, kernel.launches, kernel.time_ns / 1e3, 100 * kernel.share,
                                           100 * kernel.occupancy, kernel.bytes / 1e6, kernel.flop / 1e6, 100 * kernel.roofline));
  }
  return text;
}

std::string Page(const std::vector<Case>& cases, const std::vector<Verdict>& verdicts, Backend backend) {
  std::string rows, reports, device;
  int held = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Verdict& verdict = verdicts[i];
    const bool holds = Holds(cases[i], verdict, backend);
    held += holds;
    if (!verdict.device.empty()) device = verdict.device;
    const std::string said = verdict.ok() ? SpeedOf(verdict) : SaidBy(verdict);
    absl::StrAppend(&rows, "| ", Name(cases[i].format), " | ", cases[i].name, " | ", cases[i].what, " | ", Name(verdict.status), " | ",
                    Cell(said), " | ", holds ? "yes" : "**no**", " |\n");
    for (const RuleHit& hit : verdict.rules) {
      if (hit.rule == "not_observed") absl::StrAppend(&reports, "\n`", cases[i].name, "`: no report: ", hit.evidence, "\n");
    }
    const std::string profile = ProfileOf(verdict);
    for (const auto& [tool, text] : {std::pair<const char*, const std::string&>("compute-sanitizer", verdict.sanitizer_report),
                                     std::pair<const char*, const std::string&>("ncu", profile)}) {
      if (!text.empty()) absl::StrAppend(&reports, "\n`", cases[i].name, "`, by ", tool, ":\n\n```\n", text, text.back() == '\n' ? "" : "\n", "```\n");
    }
  }
  return absl::StrCat(
      "# What verdicts say\n\nRendered by `verdict-table --device cuda --out docs/verdicts.md`; do not edit. Small candidates, each "
      "with one thing wrong that people and models get wrong (`tests/device/verdicts.cc`), and what became of them on ",
      device, ", ", Today(), ": ", held, " of ", cases.size(), " as promised.\n\n",
      "| Format | Candidate | What is wrong | Verdict | What it says | As promised |\n|---|---|---|---|---|---|\n", rows,
      reports.empty() ? "" : "\n## Reports of the vendor's tools\n\n`--sanitize` and `--profile` of `hone verify` ask for them.\n", reports);
}

absl::StatusOr<bool> Execute(const Arguments& arguments) {
  const std::optional<Backend> backend = ParseBackend(arguments.device);
  if (!backend) return absl::InvalidArgumentError(absl::StrCat("--device: no backend ", arguments.device));
  std::vector<Case> cases;
  for (Case& one : AllCases()) {
    if (*backend != Backend::kCpu || one.on_cpu) cases.push_back(std::move(one));
  }
  std::vector<VerifyRequest> requests;
  for (const Case& one : cases) requests.push_back(RequestOf(one, *backend));
  std::unique_ptr<verifier::LocalServer> server;
  verifier::ClientOptions client_options;
  client_options.endpoints = {arguments.server};
  if (arguments.server.empty()) {
    verifier::LocalServerOptions options;
    options.python = arguments.python;
    options.log_path = arguments.log;
    options.extra_args = {absl::StrCat("--set=devices=[", arguments.device, "]"), "--set=lanes=1", "--set=screen=off"};
    HONE_ASSIGN_OR_RETURN(server, verifier::LocalServer::Start(options));
    client_options.endpoints = {server->endpoint()};
  }
  HONE_ASSIGN_OR_RETURN(const auto client, verifier::Client::Create(client_options));
  std::vector<Verdict> verdicts(cases.size());
  HONE_RETURN_IF_ERROR(client->VerifyAll(requests, [&](size_t index, const Verdict& verdict) {
    verdicts[index] = verdict;
    std::fprintf(stderr, "%s %s: %s %s %s\n", Holds(cases[index], verdict, *backend) ? "  " : "NO", cases[index].name.c_str(),
                 std::string(Name(verdict.status)).c_str(), SaidBy(verdict).c_str(), SpeedOf(verdict).c_str());
  }));
  const std::string page = Page(cases, verdicts, *backend);
  if (arguments.out.empty()) std::fputs(page.c_str(), stdout);
  if (!arguments.out.empty()) HONE_RETURN_IF_ERROR(WriteFileAtomically(arguments.out, page));
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!Holds(cases[i], verdicts[i], *backend)) return false;
  }
  return true;
}

int Main(int argc, char** argv) {
  CLI::App app{"Judges small wrong candidates on a device.\nExample: verdict-table --device cuda --out docs/verdicts.md"};
  Arguments arguments;
  app.add_option("--device", arguments.device, "cpu, cuda or musa");
  app.add_option("--server", arguments.server, "a running verifier, host:port or unix:/path; default: one of its own");
  app.add_option("--python", arguments.python, "interpreter with torch");
  app.add_option("--log", arguments.log, "where the verifier of its own logs");
  app.add_option("--out", arguments.out, "the page; default: standard output");
  CLI11_PARSE(app, argc, argv);
  const absl::StatusOr<bool> held = Execute(arguments);
  if (held.ok()) return *held ? 0 : 3;
  std::fprintf(stderr, "verdict-table: %s\n", std::string(held.status().message()).c_str());
  return 1;
}

}  // namespace
}  // namespace hone::device_tests

int main(int argc, char** argv) { return hone::device_tests::Main(argc, argv); }
