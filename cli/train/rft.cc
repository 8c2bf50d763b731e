#include "cli/train/rft.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/journal.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "cli/train/episodes.h"
#include "cli/train/phases.h"
#include "cli/train/setup.h"
#include "trainer/data/implementation_clusters.h"

namespace hone::cli {
namespace {

using Json = nlohmann::json;

// A right answer and where it came from.
struct Answer {
  Turn turn;
  std::string group, episode;
};

// Lower bound of the largest speedup measured; 0: none was.
double Speedup(const Verdict& verdict) {
  double best = 0;
  for (const Timing& timing : verdict.timings) best = std::max(best, timing.speedup.low);
  return best;
}

Json Line(const std::string& task_id, const Answer& answer, int cluster, int clusters, const std::string& origin) {
  const Verdict& verdict = answer.turn.verdict;
  int64_t version = -1;
  for (const VersionSpan& span : answer.turn.versions) version = std::max(version, span.policy_version);
  return Json{{"task_id", task_id},
              {"prompt_ids", answer.turn.prompt_ids},
              {"response_ids", answer.turn.response_ids},
              {"response", answer.turn.response},
              {"source", answer.turn.source},
              {"cluster", cluster},
              {"clusters", clusters},
              {"speedup_low", Speedup(verdict)},
              {"provenance",
               {{"policy", origin},
                {"policy_version", version},
                {"group", answer.group},
                {"episode", answer.episode},
                {"protocol", verdict.protocol},
                {"device", verdict.device},
                {"toolchain", verdict.toolchain},
                {"method", "rejection"}}}};
}

absl::Status SampleRounds(const RftConfig& config, const RolloutParts& parts, RunFolder& folder) {
  const std::string path = folder.Path("journal.jsonl.zst");
  int64_t done = 0;
  if (FileExists(path)) {
    HONE_ASSIGN_OR_RETURN(const JournalReadResult read,
                          ReadJournal(path, [](const Group&) { return absl::OkStatus(); }));
    done = read.groups;
  }
  HONE_ASSIGN_OR_RETURN(const auto journal, JournalWriter::Open(path));
  EpisodeSettings episodes;
  episodes.group_size = config.samples;
  episodes.max_tokens = config.max_tokens;
  episodes.temperature = config.temperature;
  rollout::EpisodeDriver driver = MakeDriver(parts, episodes);
  const int64_t width = config.tasks_per_round > 0 ? config.tasks_per_round : 8, total = config.rounds * width;
  Progress progress("rft", total);
  int64_t right = 0, judged = 0;
  for (int64_t next = 0; next < total;) {
    HONE_RETURN_IF_ERROR(Interrupted());
    std::vector<rollout::GroupRequest> requests;
    const int64_t round = next / width;
    for (int64_t i = 0; i < width; ++i, ++next) {
      HONE_ASSIGN_OR_RETURN(const Problem problem,
                            parts.problems->Next());  // also those done: they decide what comes next
      if (next < done) continue;
      rollout::GroupRequest request{absl::StrFormat("rft-%06d", next), problem.task, {}, false};
      HONE_ASSIGN_OR_RETURN(request.prompt_ids, parts.prompter->TaskPrompt(problem));
      requests.push_back(std::move(request));
    }
    if (requests.empty()) continue;
    HONE_ASSIGN_OR_RETURN(const std::vector<Group> groups, driver.Run(requests, SamplingSeed(config.seed, round)));
    for (const Group& group : groups) {
      HONE_RETURN_IF_ERROR(journal->Append(group));
      for (const Episode& episode : group.episodes) {
        judged += episode.turns.empty() ? 0 : 1;
        right += !episode.turns.empty() && episode.turns[0].verdict.ok() ? 1 : 0;
      }
    }
    HONE_RETURN_IF_ERROR(journal->Sync());
    progress.Update(next, absl::StrFormat("right %d of %d", right, judged));
  }
  progress.Finish();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RftFigures> WriteRftDataset(const std::string& journal, const std::string& path,
                                           const DrawSettings& draw, int64_t seed, const std::string& origin) {
  RftFigures figures;
  std::map<std::string, std::vector<Answer>> by_task;
  const auto visit = [&](const Group& group) {
    ++figures.groups;
    std::vector<Answer>& answers = by_task[group.task_id];
    for (const Episode& episode : group.episodes) {
      if (episode.turns.empty()) continue;
      const Turn& turn = episode.turns[0];
      ++figures.samples;
      figures.infra += turn.verdict.status == VerdictStatus::kInfra ? 1 : 0;
      if (!turn.verdict.ok()) continue;
      ++figures.right;
      if (!turn.truncated && Speedup(turn.verdict) >= draw.min_speedup) answers.push_back({turn, group.id, episode.id});
    }
    return absl::OkStatus();
  };
  HONE_RETURN_IF_ERROR(ReadJournal(journal, visit).status());
  std::string text;
  for (const auto& [task_id, answers] : by_task) {
    ++figures.tasks;
    std::vector<std::string> sources;
    for (const Answer& answer : answers) sources.push_back(answer.turn.source);
    const std::vector<int> clusters = trainer::ClusterImplementations(sources, draw.similarity);
    const int count = clusters.empty() ? 0 : *std::max_element(clusters.begin(), clusters.end()) + 1;
    figures.clusters += count;
    // Each task draws for itself: tasks that come later do not change what was drawn.
    uint64_t task_seed = static_cast<uint64_t>(seed);
    for (char c : task_id) task_seed = (task_seed ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    for (size_t index : trainer::DrawFromClusters(clusters, static_cast<size_t>(draw.per_task), task_seed)) {
      absl::StrAppend(&text,
                      Line(task_id, answers[index], clusters[index], count, origin)
                          .dump(-1, ' ', false, Json::error_handler_t::replace),
                      "\n");
      ++figures.lines;
    }
  }
  HONE_RETURN_IF_ERROR(WriteFileAtomically(path, text));
  return figures;
}

absl::Status RunRft(const RftConfig& config, const std::string& folder, bool resume) {
  HONE_ASSIGN_OR_RETURN(PolicySetup setup, PolicySetup::Create(config.policy, {config.device, {}, config.engine}, config.threads,
                                                               config.seed));
  HONE_ASSIGN_OR_RETURN(RunFolder run_folder, RunFolder::Create(folder, ToYaml(config), resume));
  WatchForInterrupt();
  HONE_RETURN_IF_ERROR(setup.Connect(config.verifier, config.tasks, config.named_share, run_folder.Path("verifier.log")));
  const RolloutParts parts = setup.Parts(config.draw.min_speedup > 0 ? setup.ReportedBaselines() : std::vector<Baseline>{});
  HONE_RETURN_IF_ERROR(run_folder.Timed("sample and verify", [&] { return SampleRounds(config, parts, run_folder); }));
  HONE_ASSIGN_OR_RETURN(const RftFigures f,
                        WriteRftDataset(run_folder.Path("journal.jsonl.zst"), run_folder.Path("dataset.jsonl"),
                                        config.draw, config.seed, setup.start().weights));
  const Json figures{{"groups", f.groups}, {"tasks", f.tasks},       {"samples", f.samples}, {"right", f.right},
                     {"infra", f.infra},   {"clusters", f.clusters}, {"lines", f.lines}};
  return WriteFileAtomically(run_folder.Path("rft.json"), figures.dump(2) + "\n");
}

}  // namespace hone::cli
