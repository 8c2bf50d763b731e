#include "cli/quickstart/groups.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace hone::cli {
namespace {

constexpr uint64_t kStepStride = 1'000'003;

rollout::SamplingOptions SamplingOf(const QuickstartConfig& config, const QuickstartLanguage& language) {
  rollout::SamplingOptions sampling;
  sampling.temperature = config.rl.temperature;
  sampling.max_tokens = config.rl.max_tokens;
  sampling.stop_ids = {language.end_id()};
  return sampling;
}

// The program of a generated task is its id; a retry record keeps nothing else of the task.
absl::StatusOr<rollout::GeneratedTask> TaskOf(const std::string& id) {
  const std::optional<rollout::Program> program = rollout::ParseKey(id);
  if (!program) return absl::DataLossError("the retry buffer names a task that the generator does not know: " + id);
  return rollout::MakeTask(*program);
}

}  // namespace

uint64_t SamplingSeed(int64_t seed, int64_t step) {
  return static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(step) * kStepStride;
}

QuickstartGroups::QuickstartGroups(Parts parts)
    : parts_(std::move(parts)),
      generator_(static_cast<uint64_t>(parts_.config.seed) * 2 + 1, Options()),
      retry_(parts_.config.rl.retry, static_cast<uint64_t>(parts_.config.seed) + 17),
      random_(static_cast<uint64_t>(parts_.config.seed) + 29) {}

rollout::GeneratorOptions QuickstartGroups::Options() const {
  rollout::GeneratorOptions options;
  options.named_share = parts_.config.rl.named_share;
  return options;
}

absl::StatusOr<std::vector<int32_t>> QuickstartGroups::PromptFor(const rollout::GeneratedTask& task) {
  if (parts_.exemplars != nullptr && random_.Chance(parts_.config.rl.contrast_share)) {
    HONE_ASSIGN_OR_RETURN(const auto pair, parts_.exemplars->Draw(task.task.id, random_));
    if (pair) {
      ++contrast_prompts_;
      return parts_.language.ContrastPrompt(task.prompt, pair->first.source, pair->second.source);
    }
  }
  return parts_.language.TaskPrompt(task.prompt);
}

absl::StatusOr<QuickstartGroups::Slot> QuickstartGroups::NextSlot(int64_t step, int64_t index) {
  Slot slot;
  slot.request.id = absl::StrFormat("rl-%06d-%d", step, index);
  const std::optional<rollout::RetryRecord> record =
      parts_.config.rl.retry.enabled ? retry_.Draw(step) : std::nullopt;
  if (record) {
    HONE_ASSIGN_OR_RETURN(const rollout::GeneratedTask task, TaskOf(record->task_id));
    slot.retry_id = record->id;
    slot.request.retry = true;
    slot.request.task = task.task;
    HONE_ASSIGN_OR_RETURN(slot.request.prompt_ids,
                          parts_.language.RepairPrompt(task.prompt, record->source, record->verdict.status));
    return slot;
  }
  const rollout::GeneratedTask task = generator_.NextTask();
  slot.request.task = task.task;
  HONE_ASSIGN_OR_RETURN(slot.request.prompt_ids, PromptFor(task));
  return slot;
}

absl::StatusOr<std::vector<Group>> QuickstartGroups::Collect(int64_t step, trainer::StepMetrics& metrics) {
  contrast_prompts_ = 0;
  std::vector<Slot> slots;
  std::vector<rollout::GroupRequest> requests;
  for (int64_t i = 0; i < parts_.config.rl.groups; ++i) {
    HONE_ASSIGN_OR_RETURN(Slot slot, NextSlot(step, i));
    requests.push_back(slot.request);
    slots.push_back(std::move(slot));
  }

  double seconds[2] = {0, 0};  // generating, verifying
  bool verifying = false;
  absl::Time since = absl::Now();
  const auto charge = [&](bool now_verifying) {
    seconds[verifying ? 1 : 0] += absl::ToDoubleSeconds(absl::Now() - since);
    since = absl::Now();
    verifying = now_verifying;
  };
  rollout::EpisodeDriver::Parts parts;
  parts.engine = &parts_.engine;
  parts.encoder = &parts_.language;
  parts.client = &parts_.client;
  parts.on_progress = [&](const rollout::DriverProgress& progress) { charge(progress.verifying); };
  rollout::DriverConfig driver_config;
  driver_config.group_size = parts_.config.rl.group_size;
  driver_config.turns = parts_.config.rl.turns;
  driver_config.max_context_tokens = parts_.config.model.context;
  rollout::EpisodeDriver driver(driver_config, SamplingOf(parts_.config, parts_.language),
                                {Format::kNative, Backend::kCpu, parts_.protocol}, parts_.config.rl.exemplars.remeasure,
                                std::move(parts));
  HONE_ASSIGN_OR_RETURN(std::vector<Group> groups, driver.Run(requests, SamplingSeed(parts_.config.seed, step)));
  charge(false);
  HONE_RETURN_IF_ERROR(Learn(slots, groups, step));

  metrics.merge(retry_.stats().Metrics());
  metrics.merge(rollout::EpisodeMetrics(groups));
  metrics["seconds/generate"] = seconds[0];
  metrics["seconds/verify"] = seconds[1];
  int64_t verdicts = 0;
  for (const Group& group : groups) {
    for (const Episode& episode : group.episodes) verdicts += static_cast<int64_t>(episode.turns.size());
  }
  metrics["verdicts"] = static_cast<double>(verdicts);
  metrics["exemplars/prompts"] = static_cast<double>(contrast_prompts_);
  return groups;
}

absl::Status QuickstartGroups::Learn(const std::vector<Slot>& slots, const std::vector<Group>& groups, int64_t step) {
  for (size_t i = 0; i < groups.size(); ++i) {
    if (slots[i].retry_id) {
      HONE_RETURN_IF_ERROR(retry_.Report(*slots[i].retry_id, groups[i], step));
    } else if (parts_.config.rl.retry.enabled) {
      retry_.Offer(groups[i], step);
    }
    if (parts_.exemplars != nullptr) HONE_RETURN_IF_ERROR(OfferExemplars(groups[i]));
  }
  return absl::OkStatus();
}

absl::Status QuickstartGroups::OfferExemplars(const Group& group) {
  for (const Episode& episode : group.episodes) {
    for (const Turn& turn : episode.turns) {
      if (!turn.verdict.ok() || turn.verdict.timings.empty()) continue;
      rollout::ExemplarOffer offer;
      offer.task_id = group.task_id;
      offer.source = turn.source;
      offer.verdict = turn.verdict;
      offer.policy_version = parts_.engine.policy_version();
      HONE_RETURN_IF_ERROR(parts_.exemplars->Offer(offer).status());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> QuickstartGroups::Save() {
  nlohmann::json state = {{"generator", generator_.state()}, {"random", random_.state()}, {"retry", retry_.Save()}};
  if (parts_.exemplars != nullptr) {
    HONE_ASSIGN_OR_RETURN(const int64_t mark, parts_.exemplars->Mark());
    state["exemplar_mark"] = mark;
  }
  return state.dump();
}

absl::Status QuickstartGroups::Restore(const std::string& text) {
  const nlohmann::json state = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!state.is_object() || !state.contains("generator") || !state.contains("random") || !state.contains("retry")) {
    return absl::DataLossError("the checkpoint's sampler state is not one that this program wrote");
  }
  generator_ = rollout::Generator(state["generator"].get<uint64_t>(), Options());
  random_ = rollout::SplitMix(state["random"].get<uint64_t>());
  HONE_RETURN_IF_ERROR(retry_.Restore(state["retry"].get<std::string>()));
  if (parts_.exemplars != nullptr && state.contains("exemplar_mark")) {
    HONE_RETURN_IF_ERROR(parts_.exemplars->RestoreTo(state["exemplar_mark"].get<int64_t>()));
  }
  return absl::OkStatus();
}

}  // namespace hone::cli
