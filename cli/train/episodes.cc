#include "cli/train/episodes.h"

#include <set>
#include <utility>

namespace hone::cli {
namespace {

constexpr uint64_t kStepStride = 1'000'003;

}  // namespace

uint64_t SamplingSeed(int64_t seed, int64_t step) {
  return static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(step) * kStepStride;
}

EpisodeSettings EpisodesOf(const RlSettings& settings) {
  EpisodeSettings episodes;
  episodes.group_size = settings.group_size;
  episodes.turns = settings.turns;
  episodes.max_tokens = settings.max_tokens;
  episodes.temperature = settings.temperature;
  episodes.stream = settings.stream;
  if (settings.exemplars.enabled) episodes.remeasure = settings.exemplars.remeasure;
  return episodes;
}

rollout::EpisodeDriver MakeDriver(const RolloutParts& parts, const EpisodeSettings& settings, DriverHooks hooks) {
  rollout::SamplingOptions sampling;
  sampling.temperature = settings.temperature;
  sampling.max_tokens = settings.max_tokens;
  sampling.stop_ids = parts.prompter->stop_ids();
  rollout::DriverConfig config;
  config.group_size = settings.group_size;
  config.turns = settings.turns;
  config.max_context_tokens = parts.context;
  config.stream = settings.stream;
  config.hold_lanes = settings.stream && parts.shares_gpu;
  rollout::EpisodeDriver::Parts driver;
  driver.engine = parts.engine;
  driver.encoder = parts.prompter;
  driver.client = parts.client;
  driver.on_progress = std::move(hooks.on_progress);
  driver.meanwhile = std::move(hooks.meanwhile);
  driver.abort = hooks.abort;
  return rollout::EpisodeDriver(config, sampling, parts.verify, settings.remeasure, std::move(driver));
}

std::map<std::string, double> LoadMetrics(const std::vector<Group>& groups, double judging_s, const Capabilities& verifier) {
  std::map<std::string, double> metrics;
  double verdicts = 0, cached = 0, tokens = 0, build = 0, lane = 0;
  std::set<std::pair<std::string, std::string>> judged;  // equal answers that waited for one judging bear its seconds all
  for (const Group& group : groups) {
    for (const Episode& episode : group.episodes) {
      for (const Turn& turn : episode.turns) {
        ++verdicts;
        tokens += static_cast<double>(turn.response_ids.size());
        cached += turn.verdict.from_cache ? 1 : 0;
        if (turn.verdict.from_cache || !judged.emplace(group.task_id, turn.source).second) continue;
        build += turn.verdict.seconds.build;
        if (!turn.verdict.screened_on_cpu) lane += turn.verdict.seconds.check + turn.verdict.seconds.time;
      }
    }
  }
  metrics["verdicts"] = verdicts;
  metrics["rollout/tokens"] = tokens;
  if (verdicts > 0) metrics["verify/cached"] = cached / verdicts;
  if (judging_s <= 0) return metrics;
  if (verifier.build_slots > 0) metrics["verify/build_busy"] = build / (judging_s * verifier.build_slots);
  if (verifier.lanes > 0) metrics["verify/lane_busy"] = lane / (judging_s * verifier.lanes);
  return metrics;
}

}  // namespace hone::cli
