#include "cli/train/groups.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/steady_time.h"

namespace hone::cli {
namespace {

constexpr uint64_t kStepStride = 1'000'003;

rollout::SamplingOptions SamplingOf(const RlSettings& settings, const Prompter& prompter) {
  rollout::SamplingOptions sampling;
  sampling.temperature = settings.temperature;
  sampling.max_tokens = settings.max_tokens;
  sampling.stop_ids = prompter.stop_ids();
  return sampling;
}

void AddLoad(const std::vector<Group>& groups, const rollout::DriverSeconds& seconds, const Capabilities& verifier,
             trainer::StepMetrics& metrics) {
  double verdicts = 0, cached = 0, tokens = 0, build = 0, lane = 0;
  for (const Group& group : groups) {
    for (const Episode& episode : group.episodes) {
      for (const Turn& turn : episode.turns) {
        ++verdicts;
        tokens += static_cast<double>(turn.response_ids.size());
        cached += turn.verdict.from_cache ? 1 : 0;
        if (turn.verdict.from_cache) continue;
        build += turn.verdict.seconds.build;
        if (!turn.verdict.screened_on_cpu) lane += turn.verdict.seconds.check + turn.verdict.seconds.time;
      }
    }
  }
  metrics["seconds/generate"] = seconds.generate;
  metrics["seconds/verify"] = seconds.verify;
  metrics["seconds/judging"] = seconds.judging;
  metrics["verdicts"] = verdicts;
  metrics["rollout/tokens"] = tokens;
  if (seconds.generate > 0) metrics["rollout/tokens_per_s"] = tokens / seconds.generate;
  if (verdicts > 0) metrics["verify/cached"] = cached / verdicts;
  if (seconds.judging <= 0) return;
  if (verifier.build_slots > 0) metrics["verify/build_busy"] = build / (seconds.judging * verifier.build_slots);
  if (verifier.lanes > 0) metrics["verify/lane_busy"] = lane / (seconds.judging * verifier.lanes);
}

}  // namespace

uint64_t SamplingSeed(int64_t seed, int64_t step) {
  return static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(step) * kStepStride;
}

SampledGroups::SampledGroups(const RlSettings& settings, const RolloutParts& parts, rollout::ExemplarStore* exemplars)
    : settings_(settings),
      parts_(parts),
      exemplars_(exemplars),
      retry_(settings.retry, static_cast<uint64_t>(parts.seed) + 17),
      random_(static_cast<uint64_t>(parts.seed) + 29) {}

bool SampledGroups::Fits(const std::vector<int32_t>& prompt) const {
  return parts_.context == 0 || static_cast<int64_t>(prompt.size()) + settings_.max_tokens <= parts_.context;
}

absl::StatusOr<std::vector<int32_t>> SampledGroups::PlainPrompt(const Problem& problem) {
  HONE_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, parts_.prompter.TaskPrompt(problem));
  if (Fits(prompt)) return prompt;
  return absl::InvalidArgumentError(absl::StrCat("task ", problem.task.id, ": a prompt of ", prompt.size(),
                                                 " tokens and rl.max_tokens ", settings_.max_tokens,
                                                 " exceed the context of ", parts_.context));
}

absl::StatusOr<std::vector<int32_t>> SampledGroups::PromptFor(const Problem& problem) {
  if (exemplars_ != nullptr && random_.Chance(settings_.contrast_share)) {
    HONE_ASSIGN_OR_RETURN(const auto pair, exemplars_->Draw(problem.task.id, random_));
    if (pair) {
      HONE_ASSIGN_OR_RETURN(std::vector<int32_t> prompt,
                            parts_.prompter.ContrastPrompt(problem, pair->first, pair->second));
      if (Fits(prompt)) {
        ++contrast_prompts_;
        return prompt;
      }
    }
  }
  return PlainPrompt(problem);
}

absl::StatusOr<SampledGroups::Slot> SampledGroups::NextSlot(int64_t step, int64_t index) {
  Slot slot;
  slot.request.id = absl::StrFormat("rl-%06d-%d", step, index);
  const std::optional<rollout::RetryRecord> record = settings_.retry.enabled ? retry_.Draw(step) : std::nullopt;
  if (record) {
    HONE_ASSIGN_OR_RETURN(const Problem problem, parts_.problems.ById(record->task_id));
    slot.retry_id = record->id;
    slot.request.retry = true;
    slot.request.task = problem.task;
    HONE_ASSIGN_OR_RETURN(slot.request.prompt_ids, parts_.prompter.RepairPrompt(problem, record->source, record->verdict));
    if (Fits(slot.request.prompt_ids)) return slot;
    HONE_ASSIGN_OR_RETURN(slot.request.prompt_ids, PlainPrompt(problem));
    return slot;
  }
  HONE_ASSIGN_OR_RETURN(const Problem problem, parts_.problems.Next());
  slot.request.task = problem.task;
  HONE_ASSIGN_OR_RETURN(slot.request.prompt_ids, PromptFor(problem));
  return slot;
}

absl::StatusOr<std::map<std::string, double>> SampledGroups::BestOf(const std::vector<rollout::GroupRequest>& requests) {
  std::map<std::string, double> best;
  for (const rollout::GroupRequest& request : requests) {
    if (exemplars_ == nullptr) break;
    HONE_ASSIGN_OR_RETURN(const std::optional<double> known, exemplars_->Best(request.task.id));
    if (known) best[request.task.id] = *known;
  }
  return best;
}

absl::StatusOr<std::vector<Group>> SampledGroups::Collect(int64_t step, const std::function<absl::Status()>& meanwhile,
                                                          trainer::StepMetrics& metrics) {
  contrast_prompts_ = 0;
  std::vector<Slot> slots;
  std::vector<rollout::GroupRequest> requests;
  for (int64_t i = 0; i < settings_.groups; ++i) {
    HONE_ASSIGN_OR_RETURN(Slot slot, NextSlot(step, i));
    requests.push_back(slot.request);
    slots.push_back(std::move(slot));
  }
  HONE_ASSIGN_OR_RETURN(const auto best, BestOf(requests));

  rollout::EpisodeDriver::Parts parts;
  parts.engine = &parts_.engine;
  parts.encoder = &parts_.prompter;
  parts.client = &parts_.client;
  parts.best = [&](const std::string& task_id) {
    const auto found = best.find(task_id);
    return found == best.end() ? std::nullopt : std::make_optional(found->second);
  };
  if (meanwhile) {
    parts.meanwhile = [&]() -> absl::Status {
      HONE_RETURN_IF_ERROR(parts_.engine.ReleaseMemory());
      return meanwhile();
    };
  }
  if (parts_.on_phase) {
    parts.on_progress = [&](const rollout::DriverProgress& p) {
      parts_.on_phase(absl::StrCat("step ", step, ": ", p.awaiting, p.verifying ? " verdicts" : " answers", " of turn ", p.turn));
    };
  }
  rollout::DriverConfig driver_config;
  driver_config.group_size = settings_.group_size;
  driver_config.turns = settings_.turns;
  driver_config.max_context_tokens = parts_.context;
  driver_config.stream = settings_.stream;
  rollout::EpisodeDriver driver(driver_config, SamplingOf(settings_, parts_.prompter), parts_.verify,
                                settings_.exemplars.remeasure, std::move(parts));
  HONE_ASSIGN_OR_RETURN(std::vector<Group> groups, driver.Run(requests, SamplingSeed(parts_.seed, step)));
  HONE_RETURN_IF_ERROR(parts_.engine.ReleaseMemory());  // to the learner, who is next
  HONE_RETURN_IF_ERROR(Learn(slots, groups, step));

  metrics.merge(retry_.stats().Metrics());
  metrics.merge(rollout::EpisodeMetrics(groups));
  AddLoad(groups, driver.seconds(), parts_.capabilities, metrics);
  metrics["exemplars/prompts"] = static_cast<double>(contrast_prompts_);
  return groups;
}

absl::Status SampledGroups::Learn(const std::vector<Slot>& slots, const std::vector<Group>& groups, int64_t step) {
  for (size_t i = 0; i < groups.size(); ++i) {
    if (slots[i].retry_id) {
      HONE_RETURN_IF_ERROR(retry_.Report(*slots[i].retry_id, groups[i], step));
    } else if (settings_.retry.enabled) {
      retry_.Offer(groups[i], step);
    }
    if (exemplars_ != nullptr) HONE_RETURN_IF_ERROR(OfferExemplars(groups[i]));
  }
  return absl::OkStatus();
}

absl::Status SampledGroups::OfferExemplars(const Group& group) {
  for (const Episode& episode : group.episodes) {
    for (const Turn& turn : episode.turns) {
      if (!turn.verdict.ok() || turn.verdict.timings.empty()) continue;
      rollout::ExemplarOffer offer;
      offer.task_id = group.task_id;
      offer.source = turn.source;
      offer.verdict = turn.verdict;
      offer.second = turn.verdict;  // what the driver doubted it measured twice: what stands here is confirmed
      offer.policy_version = parts_.engine.policy_version();
      HONE_RETURN_IF_ERROR(exemplars_->Offer(offer).status());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SampledGroups::Save() {
  nlohmann::json state = {{"problems", parts_.problems.Save()}, {"random", random_.state()}, {"retry", retry_.Save()}};
  if (exemplars_ != nullptr) {
    HONE_ASSIGN_OR_RETURN(const int64_t mark, exemplars_->Mark());
    state["exemplar_mark"] = mark;
  }
  return state.dump();
}

absl::Status SampledGroups::Restore(const std::string& text) {
  const nlohmann::json state = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto text_of = [&](const char* key) {
    return state.is_object() && state.contains(key) && state[key].is_string() ? state[key].get<std::string>() : "";
  };
  if (!state.is_object() || !state.contains("random") || !state["random"].is_number_unsigned()) {
    return absl::DataLossError("the checkpoint's sampler state is not one that this program wrote");
  }
  HONE_RETURN_IF_ERROR(parts_.problems.Restore(text_of("problems")));
  random_ = rollout::SplitMix(state["random"].get<uint64_t>());
  HONE_RETURN_IF_ERROR(retry_.Restore(text_of("retry")));
  if (exemplars_ != nullptr && state.contains("exemplar_mark")) {
    HONE_RETURN_IF_ERROR(exemplars_->RestoreTo(state["exemplar_mark"].get<int64_t>()));
  }
  return absl::OkStatus();
}

}  // namespace hone::cli
