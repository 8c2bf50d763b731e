// What one candidate costs a lane of the CPU backend, and how well its speedup repeats. Candidates are the quickstart's
// generated demonstrations, so that the mix of kernels is that of training. Prints one JSON object a line.
//
//   lane_bench --tasks 5 --candidates 4 --repeats 20 --record bench/results.json

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/results.h"
#include "base/steady_time.h"
#include "bench/spread.h"
#include "rollout/sampler/generator.h"
#include "verifier/build/cpu_builder.h"
#include "verifier/cache/artefact_store.h"
#include "verifier/lane/lane.h"

namespace hone::verifier {
namespace {

using bench::CoefficientOfVariation;
using bench::Quantile;

/// Processor time of this process, its living descendants and those they have waited for, in ms: what a lane costs on a
/// machine that does other things too.
double ProcessorMs() {
  std::map<int, std::pair<int, double>> processes;  // pid -> {parent, ticks}
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    const size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) continue;
    const std::vector<std::string> fields = absl::StrSplit(text.substr(name_end + 2), ' ');  // from field 3 on
    double ticks = 0;
    for (int i = 11; i <= 14; ++i) ticks += std::atof(fields[static_cast<size_t>(i)].c_str());
    processes[pid] = {std::atoi(fields[1].c_str()), ticks};
  }
  double total = 0;
  for (const auto& [pid, process] : processes) {
    int at = pid;
    while (at > 1 && at != getpid() && processes.count(at) > 0) at = processes[at].first;
    if (at == getpid()) total += process.second;
  }
  return total * 1000 / static_cast<double>(sysconf(_SC_CLK_TCK));
}

struct Arguments {
  std::string protocol = "quick";
  int tasks = 5;
  int candidates_per_task = 4;
  int repeats = 20;
  std::string record;
  std::string source_folder = ".";
};

/// Builds and judges generated candidates.
class LaneBench {
 public:
  LaneBench(const Protocol& protocol, Lane* lane, Builder* builder)
      : protocol_(protocol), lane_(lane), builder_(builder) {}

  void AddTask(const rollout::GeneratedTask& task, int candidates, rollout::SplitMix& random) {
    LaneJob job;
    job.task = task.task;
    job.protocol = protocol_;
    job.signature = lane_->Describe(task.task).value();
    job.scalar_build = Build(job.task.scalar_baseline, job.signature);
    for (int i = 0; i < candidates; ++i) {
      job.build = Build(rollout::DrawDemonstration(task.program, {}, random).source, job.signature);
      if (job.build.status == VerdictStatus::kOk) jobs_.push_back(job);
    }
  }

  /// Each candidate once, task after task, as a training step has them.
  void MeasureCost() {
    std::vector<double> wall, check, time, wrong;
    std::map<std::string, int> mix;
    const double before_ms = ProcessorMs();
    for (const LaneJob& job : jobs_) {
      const SteadyTime start = SteadyTime::Now();
      const Verdict verdict = lane_->Judge(job).value();
      const double ms = absl::ToDoubleMilliseconds(SteadyTime::Now() - start);
      ++mix[std::string(Name(verdict.status))];
      (verdict.ok() ? wall : wrong).push_back(ms);
      if (!verdict.ok()) continue;
      right_.push_back(&job);
      check.push_back(1e3 * verdict.seconds.check);
      time.push_back(1e3 * verdict.seconds.time);
    }
    const double cpu_ms = (ProcessorMs() - before_ms) / static_cast<double>(jobs_.size());
    std::printf("{\"id\": \"lane.cpu_ms_mean\", \"value\": %.2f}\n", cpu_ms);
    std::printf("{\"id\": \"lane.cost\", \"protocol\": \"%s\", \"ok\": %zu, \"ok_ms_mean\": %.2f, \"ok_ms_p50\": %.2f, "
                "\"ok_ms_p90\": %.2f, \"check_ms_p50\": %.2f, \"time_ms_p50\": %.2f, \"failing\": %zu, "
                "\"failing_ms_p50\": %.2f}\n",
                protocol_.id.c_str(), wall.size(),
                std::accumulate(wall.begin(), wall.end(), 0.0) / std::max<double>(1, static_cast<double>(wall.size())),
                Quantile(wall, 0.5), Quantile(wall, 0.9), Quantile(check, 0.5), Quantile(time, 0.5), wrong.size(),
                Quantile(wrong, 0.5));
    for (const auto& [name, count] : mix) std::printf("{\"id\": \"lane.mix\", \"status\": \"%s\", \"count\": %d}\n", name.c_str(), count);
  }

  /// The coefficients of variation of the speedup over each baseline, one a candidate.
  std::map<Baseline, std::vector<double>> MeasureRepeats(int candidates, int repeats) {
    std::map<Baseline, std::vector<double>> spread;
    for (int i = 0; i < candidates && !right_.empty(); ++i) {
      const LaneJob& job = *right_[static_cast<size_t>(i) * right_.size() / static_cast<size_t>(candidates)];
      std::map<Baseline, std::vector<double>> speedups;
      std::vector<double> candidate_ns;
      int rounds = 0;
      for (int k = 0; k < repeats; ++k) {
        const Verdict verdict = lane_->Judge(job).value();
        if (!verdict.ok()) {
          std::printf("{\"id\": \"lane.unsteady\", \"task\": \"%s\", \"message\": \"%s\"}\n", job.task.id.c_str(),
                      verdict.message.c_str());
          break;
        }
        for (const Timing& timing : verdict.timings) speedups[timing.baseline].push_back(timing.speedup.median);
        candidate_ns.push_back(verdict.timings[0].candidate_ns);
        rounds += verdict.timings[0].speedup.samples;
      }
      if (static_cast<int>(candidate_ns.size()) < repeats) continue;
      std::printf("{\"id\": \"lane.repeats\", \"task\": \"%s\", \"candidate_ns\": %.0f, \"candidate_cv\": %.4f, "
                  "\"rounds\": %.1f",
                  job.task.id.c_str(), Quantile(candidate_ns, 0.5), CoefficientOfVariation(candidate_ns),
                  static_cast<double>(rounds) / repeats);
      for (const auto& [baseline, values] : speedups) {
        spread[baseline].push_back(CoefficientOfVariation(values));
        std::printf(", \"%s_speedup\": %.3f, \"%s_cv\": %.4f", std::string(Name(baseline)).c_str(), Quantile(values, 0.5),
                    std::string(Name(baseline)).c_str(), spread[baseline].back());
      }
      std::printf("}\n");
    }
    for (const auto& [baseline, values] : spread) {
      std::printf("{\"id\": \"lane.speedup_cv\", \"baseline\": \"%s\", \"p50\": %.4f, \"p90\": %.4f, \"candidates\": %zu}\n",
                  std::string(Name(baseline)).c_str(), Quantile(values, 0.5), Quantile(values, 0.9), values.size());
    }
    return spread;
  }

 private:
  BuildResult Build(const std::string& source, const Signature& signature) {
    BuildRequest request;
    request.candidate.source = source;
    request.signature = signature;
    return builder_->Build(request).value();
  }

  Protocol protocol_;
  Lane* lane_;
  Builder* builder_;
  std::vector<LaneJob> jobs_;
  std::vector<const LaneJob*> right_;
};

/// The scalar baseline is what the quickstart's reward reads; eager PyTorch is what the report shows beside it.
absl::Status Record(const Arguments& arguments, const std::map<Baseline, std::vector<double>>& spread) {
  std::vector<BenchResult> results;
  for (const auto& [baseline, values] : spread) {
    const std::string id = baseline == Baseline::kScalar ? "verify_cpu.speedup_cv" : "verify_cpu.speedup_eager_cv";
    for (const auto& [name, q] : {std::pair{"_p50", 0.5}, {"_p90", 0.9}}) {
      results.push_back({id + name, Quantile(values, q), "1", ThisCommand(arguments.source_folder), MachineKind(), Today(),
                         CurrentCommit(arguments.source_folder)});
    }
  }
  return RecordResults(arguments.record, results);
}

int Main(int argc, char** argv) {
  CLI::App app{"Measures what a candidate costs a lane of the CPU device and how well its speedup repeats."};
  Arguments arguments;
  app.add_option("--protocol", arguments.protocol);
  app.add_option("--tasks", arguments.tasks)->check(CLI::Range(1, 1000));
  app.add_option("--candidates", arguments.candidates_per_task, "of each task")->check(CLI::Range(1, 1000));
  app.add_option("--repeats", arguments.repeats, "judgements of one candidate")->check(CLI::Range(2, 1000));
  app.add_option("--record", arguments.record, "results file to put the figures into");
  app.add_option("--source", arguments.source_folder, "checkout whose commit is recorded");
  CLI11_PARSE(app, argc, argv);
  const auto protocol = ProtocolById(arguments.protocol);
  const char* python = std::getenv("HONE_PYTHON");
  if (!protocol.ok() || python == nullptr) {
    std::fprintf(stderr, "lane_bench: an unknown protocol, or HONE_PYTHON does not name a Python with torch\n");
    return 2;
  }
  const auto folder = TempFolder::Create("lane-bench").value();
  const auto store = ArtefactStore::Create({folder.path()}).value();
  const auto builder = CreateCpuBuilder({}, store.get()).value();
  LaneOptions options;
  options.python = python;
  const auto lane = Lane::Create(options).value();
  LaneBench bench(*protocol, lane.get(), builder.get());
  rollout::Generator generator(1);
  rollout::SplitMix random(2);
  for (int i = 0; i < arguments.tasks; ++i) bench.AddTask(generator.NextTask(), arguments.candidates_per_task, random);
  bench.MeasureCost();
  std::fflush(stdout);
  const auto spread = bench.MeasureRepeats(20, arguments.repeats);
  const absl::Status status = arguments.record.empty() ? absl::OkStatus() : Record(arguments, spread);
  if (!status.ok()) std::fprintf(stderr, "lane_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace hone::verifier

int main(int argc, char** argv) { return hone::verifier::Main(argc, argv); }
