// Measures a verifier farm on this machine: what it loses under kills, how it spreads work, what its front costs, and how
// it stands a thousand streams.
//
//   farm_bench all --record bench/results.json

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>

#include "base/file.h"
#include "base/results.h"
#include "base/status_macros.h"
#include "bench/farm/measure.h"

namespace hone::bench {
namespace {

struct Arguments {
  std::string what = "all";
  FarmPrograms programs;
  ChaosOptions chaos;
  ScalingOptions scaling;
  StreamsOptions streams;
  int requests = 2000;
  std::string record;
  std::string source_folder = ".";
};

absl::Status Bench(const Arguments& arguments) {
  const std::vector<std::pair<std::string, std::function<absl::StatusOr<FarmFigures>()>>> parts = {
      {"chaos", [&] { return MeasureChaos(arguments.programs, arguments.chaos); }},
      {"scaling", [&] { return MeasureScaling(arguments.programs, arguments.scaling); }},
      {"front", [&] { return MeasureFrontOverhead(arguments.programs, arguments.requests); }},
      {"streams", [&] { return MeasureStreams(arguments.programs, arguments.streams); }}};
  std::vector<BenchResult> results;
  for (const auto& [name, part] : parts) {
    if (arguments.what != "all" && arguments.what != name) continue;
    std::printf("%s\n", name.c_str());
    HONE_ASSIGN_OR_RETURN(const FarmFigures figures, part());
    for (const FarmFigure& figure : figures) {
      std::printf("  %-32s %10.4g %s\n", figure.id.c_str(), figure.value, figure.unit.c_str());
      results.push_back({figure.id, figure.value, figure.unit, ThisCommand(arguments.source_folder),
                         MachineKind(), Today(), CurrentCommit(arguments.source_folder)});
    }
    std::fflush(stdout);
    if (!arguments.record.empty()) HONE_RETURN_IF_ERROR(RecordResults(arguments.record, results));
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  CLI::App app{"Measures a verifier farm on this machine; needs redis-server."};
  Arguments arguments;
  arguments.programs.verifier = ProgramFolder() + "/../bin/hone-verifier";
  app.add_option("what", arguments.what)->check(CLI::IsMember({"chaos", "scaling", "front", "streams", "all"}));
  app.add_option("--verifier", arguments.programs.verifier, "hone-verifier");
  app.add_option("--python", arguments.programs.python, "interpreter with torch");
  app.add_option("--chaos-jobs", arguments.chaos.jobs)->check(CLI::Range(1, 1'000'000));
  app.add_option("--chaos-every-s", arguments.chaos.every_s, "mean seconds between two kills")->check(CLI::Range(0.1, 1000.0));
  app.add_option("--seed", arguments.chaos.seed, "of the order of kills");
  app.add_option("--scaling-jobs", arguments.scaling.jobs)->check(CLI::Range(1, 1'000'000));
  app.add_option("--wait-ms", arguments.scaling.wait_ms, "that a job keeps its lane")->check(CLI::Range(0, 10'000));
  app.add_option("--requests", arguments.requests, "for the front's overhead")->check(CLI::Range(1, 1'000'000));
  app.add_option("--streams", arguments.streams.streams)->check(CLI::Range(1, 100'000));
  app.add_option("--record", arguments.record, "results file to put the figures into");
  app.add_option("--source", arguments.source_folder, "checkout whose commit is recorded");
  std::string endpoint;
  int jobs = 1;
  int64_t bytes = 0;
  CLI::App* client = app.add_subcommand("client", "streams to one front")->group("");
  client->add_option("endpoint", endpoint)->required();
  client->add_option("--count", arguments.streams.streams);
  client->add_option("--jobs", jobs);
  client->add_option("--bytes", bytes);
  client->add_option("--job-ms", arguments.streams.wait_ms);
  CLI11_PARSE(app, argc, argv);
  if (client->parsed()) {
    std::printf("%d\n", RunStreamClients(endpoint, arguments.streams.streams, jobs, bytes, arguments.streams.wait_ms));
    return 0;
  }
  arguments.programs.bench = ProgramFolder() + "/farm_bench";
  const absl::Status status = Bench(arguments);
  if (!status.ok()) std::fprintf(stderr, "farm_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace hone::bench

int main(int argc, char** argv) { return hone::bench::Main(argc, argv); }
