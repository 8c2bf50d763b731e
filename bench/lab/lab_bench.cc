// How fast `hone lab replay` is: writes a journal of quickstart-like episodes, then times the command on it.
//
//   lab_bench [--episodes N] [--record]
//
// Episodes are one turn of about 70 response tokens with ids, log-probs, texts and a full verdict, as the quickstart
// records them; eight make a group, a group is a frame.

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/results.h"
#include "base/status_macros.h"
#include "base/subprocess.h"

namespace hone {
namespace {

constexpr int kGroupSize = 8;
constexpr int64_t kRecordedEpisodes = 1'000'000;  // what the figures' names say

Turn MakeTurn(std::mt19937_64& random) {
  std::uniform_real_distribution<float> unit(0, 1);
  Turn turn;
  for (int i = 0; i < 40; ++i) turn.prompt_ids.push_back(static_cast<int32_t>(random() % 400));
  const int tokens = 50 + static_cast<int>(random() % 40);
  for (int i = 0; i < tokens; ++i) {
    turn.response_ids.push_back(static_cast<int32_t>(random() % 400));
    turn.log_probs.push_back(-3 * unit(random) * unit(random));
  }
  turn.versions = {{0, tokens, 17}};
  turn.source =
      "__global__ void k(const float* x, const float* y, float* out, int rows, int cols) {\n"
      "  const int r = blockIdx.x * blockDim.x + threadIdx.x;\n  if (r >= rows) return;\n  float s = 0.0f;\n"
      "  for (int c = 0; c < cols; ++c) { float t = x[r * cols + c]; t = t * y[r * cols + c]; s += __expf(t); }\n"
      "  out[r] = s;\n}\nextern \"C\" void launch(const float* x, const float* y, float* out, int rows, int cols, "
      "cudaStream_t stream) {\n  k<<<(rows + 127) / 128, 128, 0, stream>>>(x, y, out, rows, cols);\n}\n";
  turn.response = turn.source;
  Verdict& verdict = turn.verdict;
  verdict.protocol = "quick";
  verdict.device = "cpu";
  verdict.toolchain = "g++ 12.2.0 (emulated CUDA)";
  verdict.sandbox = "bubblewrap";
  verdict.seed_id = "4f1c9a";
  verdict.seconds = {0.01, 0.05, 0.003, 0.02};
  const uint64_t luck = random() % 10;
  if (luck < 6) {
    verdict.status = VerdictStatus::kOk;
    verdict.correct_rate = 1;
    verdict.coverage = 1;
    for (const Baseline baseline : {Baseline::kScalar, Baseline::kEager}) {
      const double speedup = 0.5 + 8 * unit(random);
      Timing timing;
      timing.baseline = baseline;
      timing.speedup = {speedup, 0.98 * speedup, 1.02 * speedup, 11};
      timing.candidate_ns = 20000 * unit(random);
      timing.baseline_ns = timing.candidate_ns * speedup;
      timing.emulated = true;
      verdict.timings.push_back(timing);
    }
  } else if (luck < 8) {
    verdict.status = VerdictStatus::kIncorrect;
    verdict.correct_rate = 0.25 * static_cast<double>(random() % 4);
    verdict.mismatch = Mismatch{"out", {3, 5}, 1.25, 2.5, 831, "rows=3 cols=7", ""};
  } else {
    verdict.status = VerdictStatus::kCompile;
    verdict.message = "line 5: 't' was not declared in this scope";
    verdict.compiler_output = "candidate.cu:5:17: error: 't' was not declared in this scope";
  }
  return turn;
}

absl::Status WriteEpisodes(const std::string& path, int64_t episodes) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<JournalWriter> writer, JournalWriter::Open(path));
  std::mt19937_64 random(1);
  for (int64_t g = 0; g < episodes / kGroupSize; ++g) {
    Group group;
    group.id = absl::StrCat("step-", g / 8, "-group-", g % 8);
    group.task_id = absl::StrCat("generated-", random() % 5000);
    for (int i = 0; i < kGroupSize; ++i) {
      group.episodes.push_back({absl::StrCat(group.id, "/", i), group.task_id, {MakeTurn(random)}, false});
    }
    HONE_RETURN_IF_ERROR(writer->Append(group));
  }
  return writer->Sync();
}

struct Measured {
  double seconds = 0;
  double peak_rss_mb = 0;
};

/// One run of the command. The peak is that of the largest child so far, which is the command.
absl::StatusOr<Measured> Replay(const std::vector<std::string>& arguments) {
  SpawnOptions options;
  options.argv = {ProgramFolder() + "/../bin/hone", "lab", "replay"};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  const auto start = std::chrono::steady_clock::now();
  HONE_ASSIGN_OR_RETURN(const RunResult run, Run(options, absl::Minutes(10)));
  Measured measured;
  measured.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (run.exit_code != 0) return absl::InternalError(run.output);
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  measured.peak_rss_mb = static_cast<double>(usage.ru_maxrss) / 1024;
  std::fputs(run.output.c_str(), stdout);
  return measured;
}

absl::Status Bench(int64_t episodes, bool record) {
  if (record && episodes != kRecordedEpisodes) {
    return absl::InvalidArgumentError(absl::StrCat("--record is for ", kRecordedEpisodes, " episodes"));
  }
  HONE_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create("lab_bench"));
  const std::string journal = folder.path() + "/journal.jsonl.zst";
  HONE_RETURN_IF_ERROR(WriteEpisodes(journal, episodes));
  const double journal_mb = static_cast<double>(std::filesystem::file_size(journal)) / (1 << 20);
  HONE_ASSIGN_OR_RETURN(const Measured one, Replay({journal}));
  HONE_ASSIGN_OR_RETURN(const Measured swept,
                        Replay({journal, "--sweep", "turns.alpha=0:1:0.25", "--out", folder.path() + "/out"}));
  const double per_pipeline = (swept.seconds - one.seconds) / 5;
  std::printf("%ld episodes, %.0f MB packed: one pipeline %.2f s, each further one %.2f s, peak %.0f MB\n", episodes,
              journal_mb, one.seconds, per_pipeline, swept.peak_rss_mb);
  if (!record) return absl::OkStatus();
  const std::string command = ThisCommand(HONE_SOURCE_DIR), machine = MachineKind(), date = Today(), commit = CurrentCommit(HONE_SOURCE_DIR);
  const auto result = [&](const char* id, double value, const char* unit) {
    return BenchResult{id, value, unit, command, machine, date, commit};
  };
  return RecordResults(HONE_SOURCE_DIR "/bench/results.json",
                       {result("lab.replay_1m_s", one.seconds, "s"),
                        result("lab.replay_1m_further_pipeline_s", per_pipeline, "s"),
                        result("lab.replay_1m_peak_rss_mb", swept.peak_rss_mb, "MB"),
                        result("lab.replay_1m_journal_mb", journal_mb, "MB")});
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  CLI::App app{"Times hone lab replay on a journal written for it."};
  int64_t episodes = hone::kRecordedEpisodes;
  bool record = false;
  app.add_option("--episodes", episodes, "in the journal")->check(CLI::Range(8, 100'000'000))->capture_default_str();
  app.add_flag("--record", record, "write bench/results.json");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = hone::Bench(episodes, record);
  if (!status.ok()) std::fprintf(stderr, "lab_bench: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
