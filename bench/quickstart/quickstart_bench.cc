// What `make quickstart` reaches and costs: runs it for seeds 1, 2 and 3 and records the medians.
//
//   quickstart_bench [--runs FOLDER] [--only-read] [--record]
//
// --only-read takes the figures of runs that are there already (FOLDER/seed-1 ...). Run on an otherwise idle machine.

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/results.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/subprocess.h"

namespace hone {
namespace {

constexpr int kSeeds = 3;

struct Figures {
  double seconds = 0;
  double correct[2] = {0, 0};  // before, after
  double scalar[2] = {0, 0};   // geometric-mean speedup
  double eager[2] = {0, 0};
};

absl::Status RunSeed(const std::string& runs, int seed) {
  SpawnOptions options;
  options.argv = {HONE_PROGRAM_DIR "/hone", "quickstart", "--runs", runs, "--name", absl::StrCat("seed-", seed), "--seed",
                  absl::StrCat(seed)};
  HONE_ASSIGN_OR_RETURN(Child child, Child::Spawn(options));
  HONE_ASSIGN_OR_RETURN(const int code, child.Wait(SteadyTime::InfiniteFuture()));
  return code == 0 ? absl::OkStatus() : absl::InternalError(absl::StrCat("hone quickstart ended with ", code));
}

absl::StatusOr<nlohmann::json> ReadJson(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::DataLossError(path + " is not a JSON object");
  return json;
}

absl::StatusOr<Figures> ReadRun(const std::string& folder) {
  Figures figures;
  HONE_ASSIGN_OR_RETURN(const nlohmann::json phases, ReadJson(folder + "/phases.json"));
  for (const auto& [phase, seconds] : phases.items()) figures.seconds += seconds.get<double>();
  for (const int i : {0, 1}) {
    HONE_ASSIGN_OR_RETURN(const nlohmann::json evaluation,
                          ReadJson(folder + (i == 0 ? "/evaluation_before.json" : "/evaluation_after.json")));
    figures.correct[i] = evaluation["correct_rate"]["value"].get<double>();
    figures.scalar[i] = evaluation["speedup"]["scalar"]["geometric_mean"]["value"].get<double>();
    figures.eager[i] = evaluation["speedup"]["eager"]["geometric_mean"]["value"].get<double>();
  }
  return figures;
}

double MedianOf(const std::vector<Figures>& runs, double (*figure)(const Figures&)) {
  std::vector<double> values;
  for (const Figures& run : runs) values.push_back(figure(run));
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::Status Bench(const std::string& runs, bool only_read, bool record) {
  std::vector<Figures> figures;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    if (!only_read) HONE_RETURN_IF_ERROR(RunSeed(runs, seed));
    HONE_ASSIGN_OR_RETURN(const Figures run, ReadRun(absl::StrCat(runs, "/seed-", seed)));
    std::printf("seed %d  %.0f s  correct %.3f -> %.3f  over scalar %.2fx -> %.2fx  over eager %.2fx -> %.2fx (emulated)\n", seed,
                run.seconds, run.correct[0], run.correct[1], run.scalar[0], run.scalar[1], run.eager[0], run.eager[1]);
    figures.push_back(run);
  }
  const std::string date = Today(), machine = MachineKind(), commit = CurrentCommit(HONE_SOURCE_DIR);
  const std::string command = ThisCommand(HONE_SOURCE_DIR);
  std::vector<BenchResult> results;
  const auto add = [&](const char* id, const char* unit, double (*figure)(const Figures&)) {
    results.push_back({absl::StrCat("quickstart.", id), MedianOf(figures, figure), unit, command, machine, date, commit});
  };
  add("seconds", "s", [](const Figures& f) { return f.seconds; });
  add("heldout_correct_before", "share", [](const Figures& f) { return f.correct[0]; });
  add("heldout_correct_after", "share", [](const Figures& f) { return f.correct[1]; });
  add("heldout_speedup_before", "x over scalar, emulated", [](const Figures& f) { return f.scalar[0]; });
  add("heldout_speedup_after", "x over scalar, emulated", [](const Figures& f) { return f.scalar[1]; });
  add("heldout_speedup_eager_before", "x over PyTorch eager, emulated", [](const Figures& f) { return f.eager[0]; });
  add("heldout_speedup_eager_after", "x over PyTorch eager, emulated", [](const Figures& f) { return f.eager[1]; });
  if (!only_read) {
    rusage usage = {};
    getrusage(RUSAGE_CHILDREN, &usage);
    results.push_back({"quickstart.peak_rss_mb", static_cast<double>(usage.ru_maxrss) / 1024, "MB, the largest process", command,
                       machine, date, commit});
  }
  return record ? RecordResults(HONE_SOURCE_DIR "/bench/results.json", results) : absl::OkStatus();
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  CLI::App app{"Runs hone quickstart for seeds 1, 2 and 3 and records the medians."};
  std::string runs = "runs/bench";
  bool only_read = false, record = false;
  app.add_option("--runs", runs, "where the runs are kept")->capture_default_str();
  app.add_flag("--only-read", only_read, "take the figures of runs that are there");
  app.add_flag("--record", record, "write bench/results.json");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = hone::Bench(runs, only_read, record);
  if (!status.ok()) std::fprintf(stderr, "quickstart_bench: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
