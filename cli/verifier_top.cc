#include "cli/verifier_top.h"

#include <httplib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <csignal>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "verifier/client/client.h"
#include "verifier/client/endpoints.h"

namespace hone::cli {
namespace {

using Samples = std::vector<MetricSample>;

std::string Label(const MetricSample& sample, const std::string& label) {
  const auto found = sample.labels.find(label);
  return found == sample.labels.end() ? "" : found->second;
}

double ValueOf(const Samples& samples, const MetricSample& like) {
  for (const MetricSample& sample : samples) {
    if (sample.name == like.name && sample.labels == like.labels) return sample.value;
  }
  return 0;
}

/// The sum of a metric over its samples, by one label.
std::map<std::string, double> SumBy(const Samples& samples, const std::string& name, const std::string& label) {
  std::map<std::string, double> sums;
  for (const MetricSample& sample : samples) {
    if (sample.name == name) sums[Label(sample, label)] += sample.value;
  }
  return sums;
}

std::string Row(const std::string& title, const std::vector<std::string>& cells) {
  return cells.empty() ? "" : absl::StrFormat("%-10s %s\n", title, absl::StrJoin(cells, "   "));
}

std::string VerdictRow(const Samples& before, const Samples& now, double seconds) {
  std::vector<std::string> cells;
  const auto old = SumBy(before, "hone_verdicts_total", "status");
  for (const auto& [status, count] : SumBy(now, "hone_verdicts_total", "status")) {
    std::string cell = absl::StrFormat("%s %.0f", status, count);
    const auto earlier = old.find(status);
    if (!before.empty() && seconds > 0) {
      absl::StrAppendFormat(&cell, " (%.1f/s)", (count - (earlier == old.end() ? 0 : earlier->second)) / seconds);
    }
    cells.push_back(std::move(cell));
  }
  return Row("verdicts", cells);
}

std::string QueueRows(const Samples& now) {
  std::map<std::string, std::map<std::string, double>> kinds;
  for (const MetricSample& sample : now) {
    if (sample.name == "hone_queue_jobs") kinds[Label(sample, "kind")][Label(sample, "state")] = sample.value;
  }
  std::vector<std::string> cells;
  for (auto& [kind, states] : kinds) {
    cells.push_back(absl::StrFormat("%s %.0f waiting, %.0f at work", kind, states["waiting"], states["leased"]));
  }
  const double up = ValueOf(now, {"hone_queue_up", {}, 0});
  if (!now.empty() && up == 0) cells.push_back("NOT REACHABLE");
  if (const double dead = ValueOf(now, {"hone_queue_dead_letters", {}, 0}); dead > 0) {
    cells.push_back(absl::StrFormat("%.0f dead letters", dead));
  }
  if (cells.empty() && !now.empty()) cells.push_back("empty");
  return Row("queue", cells);
}

std::string LaneRow(const Samples& now) {
  std::vector<std::string> cells;
  for (const auto& [state, count] : SumBy(now, "hone_lane_state", "state")) {
    if (count > 0) cells.push_back(absl::StrFormat("%.0f %s", count, state));
  }
  return Row("lanes here", cells);
}

std::string RequestRow(const Samples& now) {
  std::vector<std::string> cells;
  const auto counts = SumBy(now, "hone_request_seconds_count", "cache");
  const auto sums = SumBy(now, "hone_request_seconds_sum", "cache");
  double all = 0;
  for (const auto& [cache, count] : counts) all += count;
  for (const auto& [cache, count] : counts) {
    if (count == 0) continue;
    cells.push_back(absl::StrFormat("%s %.0f (%.0f %%, mean %.3g s)", cache, count, 100 * count / all, sums.at(cache) / count));
  }
  return Row("requests", cells);
}

absl::StatusOr<Samples> Scrape(const std::string& address) {
  absl::string_view rest = address;
  absl::ConsumePrefix(&rest, "http://");
  const std::string host(rest.substr(0, rest.find('/')));
  httplib::Client client("http://" + host);
  client.set_connection_timeout(2, 0);
  client.set_read_timeout(5, 0);
  const auto answer = client.Get("/metrics", {{"Accept", "text/plain"}});
  if (!answer) return absl::UnavailableError(absl::StrCat("no metrics at http://", host, "/metrics"));
  if (answer->status != 200) return absl::UnavailableError(absl::StrCat("http://", host, "/metrics answers ", answer->status));
  return ParseMetrics(answer->body);
}

}  // namespace

std::vector<MetricSample> ParseMetrics(absl::string_view text) {
  Samples samples;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (line[0] == '#') continue;
    MetricSample sample;
    const size_t brace = line.find('{'), close = line.rfind('}'), space = line.rfind(' ');
    if (space == absl::string_view::npos || !absl::SimpleAtod(line.substr(space + 1), &sample.value)) continue;
    sample.name = std::string(line.substr(0, std::min(brace, line.find(' '))));
    if (brace != absl::string_view::npos && close != absl::string_view::npos && brace < close) {
      for (absl::string_view pair : absl::StrSplit(line.substr(brace + 1, close - brace - 1), "\",", absl::SkipEmpty())) {
        const size_t equals = pair.find("=\"");
        if (equals == absl::string_view::npos) continue;
        absl::string_view value = pair.substr(equals + 2);
        absl::ConsumeSuffix(&value, "\"");
        sample.labels[std::string(pair.substr(0, equals))] = std::string(value);
      }
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::string RenderTop(const Capabilities& capabilities, const Samples& before, const Samples& now, double seconds_between) {
  std::string table;
  if (!capabilities.version.empty()) {
    absl::StrAppendFormat(&table, "%-10s %s   %d lanes on %s   %d build slots   sandbox %s   formats %s\n", "verifier",
                          capabilities.version, capabilities.lanes,
                          capabilities.devices.empty() ? "no device" : absl::StrJoin(capabilities.devices, ", "),
                          capabilities.build_slots, capabilities.sandbox.empty() ? "-" : capabilities.sandbox,
                          absl::StrJoin(capabilities.formats, ", "));
  }
  absl::StrAppend(&table, VerdictRow(before, now, seconds_between), QueueRows(now), LaneRow(now), RequestRow(now));
  return table;
}

int VerifierTop(const std::vector<std::string>& arguments) {
  CLI::App app{"What a verifier or a farm is doing\nExample: hone verifier top --endpoint localhost:50151 --metrics localhost:9464"};
  app.name("hone verifier top");
  std::string endpoint = "127.0.0.1:50151", metrics;
  double every_s = 2;
  bool once = false;
  verifier::ClientOptions options = verifier::OptionsFor("");
  app.add_option("--endpoint", endpoint, "of the service: host:port or unix:/path");
  app.add_option("--metrics", metrics, "host:port where the service serves Prometheus, or its HTTP gateway");
  app.add_option("--every-s", every_s, "seconds between two looks")->check(CLI::Range(0.1, 3600.0));
  app.add_flag("--once", once, "print one table and end; so it is when the output is no terminal");
  app.add_option("--tls-ca", options.tls_ca, "PEM file of who signed the service's certificate");
  app.footer("A bearer token is taken from $HONE_TOKEN.");
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsersInput;
  }
  options.endpoints = {endpoint};
  options.deadline = absl::Seconds(10);
  options.max_attempts = 2;
  const absl::StatusOr<std::unique_ptr<verifier::Client>> client = verifier::Client::Create(options);
  if (!client.ok()) return Report(client.status());
  const bool live = !once && isatty(STDOUT_FILENO) != 0;
  Samples before;
  SteadyTime looked;
  while (true) {
    const absl::StatusOr<Capabilities> capabilities = (*client)->GetCapabilities();
    absl::StatusOr<Samples> now = metrics.empty() ? absl::StatusOr<Samples>(Samples()) : Scrape(metrics);
    if (!live && !capabilities.ok()) return Report(capabilities.status());
    if (!live && !now.ok()) return Report(now.status());
    if (live) std::fputs("\x1b[H\x1b[2J", stdout);
    std::fputs(RenderTop(capabilities.value_or(Capabilities()), before, now.value_or(Samples()),
                         absl::ToDoubleSeconds(SteadyTime::Now() - looked)).c_str(), stdout);
    for (const absl::Status& status : {capabilities.status(), now.status()}) {
      if (!status.ok()) std::printf("%s\n", std::string(status.message()).c_str());
    }
    std::fflush(stdout);
    if (!live) return kDone;
    before = now.value_or(Samples());
    looked = SteadyTime::Now();
    absl::SleepFor(absl::Seconds(every_s));
  }
}

}  // namespace hone::cli
