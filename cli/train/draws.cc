#include "cli/train/draws.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace hone::cli {

namespace {

// Whether nothing but speed tells the group's first answers apart: all right, or all wrong. INFRA is neither.
bool Settled(const Group& group) {
  int64_t right = 0, judged = 0;
  for (const Episode& episode : group.episodes) {
    if (episode.turns.empty() || episode.turns[0].verdict.status == VerdictStatus::kInfra) continue;
    ++judged;
    right += episode.turns[0].verdict.ok() ? 1 : 0;
  }
  return judged > 0 && (right == 0 || right == judged);
}

}  // namespace

PromptDraws::PromptDraws(const RlSettings& settings, const RolloutParts& parts, rollout::ExemplarStore* exemplars)
    : settings_(settings),
      parts_(parts),
      exemplars_(exemplars),
      retry_(settings.retry, static_cast<uint64_t>(parts.seed) + 17),
      random_(static_cast<uint64_t>(parts.seed) + 29) {}

bool PromptDraws::Fits(const std::vector<int32_t>& prompt) const {
  return parts_.context == 0 || static_cast<int64_t>(prompt.size()) + settings_.max_tokens <= parts_.context;
}

absl::StatusOr<std::vector<int32_t>> PromptDraws::PlainPrompt(const Problem& problem) {
  HONE_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, parts_.prompter->TaskPrompt(problem));
  if (Fits(prompt)) return prompt;
  return absl::InvalidArgumentError(absl::StrCat("task ", problem.task.id, ": a prompt of ", prompt.size(),
                                                 " tokens and rl.max_tokens ", settings_.max_tokens,
                                                 " exceed the context of ", parts_.context));
}

absl::StatusOr<std::vector<int32_t>> PromptDraws::PromptFor(const Problem& problem) {
  if (exemplars_ != nullptr && random_.Chance(settings_.contrast_share)) {
    HONE_ASSIGN_OR_RETURN(const auto pair, exemplars_->Draw(problem.task.id, random_));
    if (pair) {
      HONE_ASSIGN_OR_RETURN(std::vector<int32_t> prompt,
                            parts_.prompter->ContrastPrompt(problem, pair->first, pair->second));
      if (Fits(prompt)) {
        ++contrast_prompts_;
        return prompt;
      }
    }
  }
  return PlainPrompt(problem);
}

absl::StatusOr<rollout::GroupRequest> PromptDraws::NextRequest(int64_t step, int64_t index) {
  rollout::GroupRequest request;
  request.id = absl::StrFormat("rl-%06d-%d", step, index);
  const std::optional<rollout::RetryRecord> record = settings_.retry.enabled ? retry_.Draw(step) : std::nullopt;
  if (record) {
    HONE_ASSIGN_OR_RETURN(const Problem problem, parts_.problems->ById(record->task_id));
    drawn_[request.id] = record->id;
    request.retry = true;
    request.task = problem.task;
    HONE_ASSIGN_OR_RETURN(request.prompt_ids, parts_.prompter->RepairPrompt(problem, record->source, record->verdict));
    if (Fits(request.prompt_ids)) return request;
    HONE_ASSIGN_OR_RETURN(request.prompt_ids, PlainPrompt(problem));
    return request;
  }
  HONE_ASSIGN_OR_RETURN(const Problem problem, parts_.problems->Next());
  drawn_[request.id] = std::nullopt;
  request.task = problem.task;
  HONE_ASSIGN_OR_RETURN(request.prompt_ids, PromptFor(problem));
  return request;
}

absl::StatusOr<std::vector<rollout::GroupRequest>> PromptDraws::Draw(int64_t step) {
  std::vector<rollout::GroupRequest> requests;
  for (int64_t i = 0; i < settings_.groups; ++i) {
    HONE_ASSIGN_OR_RETURN(rollout::GroupRequest request, NextRequest(step, i));
    if (exemplars_ != nullptr) {
      HONE_ASSIGN_OR_RETURN(request.best, exemplars_->Best(request.task.id));
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

absl::Status PromptDraws::Learn(const std::vector<Group>& groups, int64_t step) {
  for (const Group& group : groups) {
    const auto drawn = drawn_.find(group.id);
    if (drawn == drawn_.end()) return absl::InternalError(absl::StrCat("group ", group.id, " was not drawn"));
    if (drawn->second) {
      HONE_RETURN_IF_ERROR(retry_.Report(*drawn->second, group, step));
    } else {
      parts_.problems->Report(group.task_id, Settled(group));
      if (settings_.retry.enabled) retry_.Offer(group, step);
    }
    drawn_.erase(drawn);
    if (exemplars_ != nullptr) HONE_RETURN_IF_ERROR(OfferExemplars(group));
  }
  return absl::OkStatus();
}

std::map<std::string, double> PromptDraws::TakeMetrics() {
  std::map<std::string, double> metrics = retry_.stats().Metrics();
  metrics["exemplars/prompts"] = static_cast<double>(std::exchange(contrast_prompts_, 0));
  return metrics;
}

absl::Status PromptDraws::OfferExemplars(const Group& group) {
  for (const Episode& episode : group.episodes) {
    for (const Turn& turn : episode.turns) {
      if (!turn.verdict.ok() || turn.verdict.timings.empty()) continue;
      rollout::ExemplarOffer offer;
      offer.task_id = group.task_id;
      offer.source = turn.source;
      offer.verdict = turn.verdict;
      offer.second = turn.verdict;  // what the driver doubted it measured twice: what stands here is confirmed
      for (const VersionSpan& span : turn.versions) offer.policy_version = std::max(offer.policy_version, span.policy_version);
      HONE_RETURN_IF_ERROR(exemplars_->Offer(offer).status());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PromptDraws::Save() const {
  nlohmann::json state = {{"problems", parts_.problems->Save()}, {"random", random_.state()}, {"retry", retry_.Save()}};
  if (exemplars_ != nullptr) {
    HONE_ASSIGN_OR_RETURN(const int64_t mark, exemplars_->Mark());
    state["exemplar_mark"] = mark;
  }
  return state.dump();
}

absl::Status PromptDraws::Restore(const std::string& text) {
  const nlohmann::json state = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto text_of = [&](const char* key) {
    return state.is_object() && state.contains(key) && state[key].is_string() ? state[key].get<std::string>() : "";
  };
  if (!state.is_object() || !state.contains("random") || !state["random"].is_number_unsigned()) {
    return absl::DataLossError("the checkpoint's sampler state is not one that this program wrote");
  }
  drawn_.clear();
  HONE_RETURN_IF_ERROR(parts_.problems->Restore(text_of("problems")));
  random_ = rollout::SplitMix(state["random"].get<uint64_t>());
  HONE_RETURN_IF_ERROR(retry_.Restore(text_of("retry")));
  if (exemplars_ != nullptr && state.contains("exemplar_mark")) {
    HONE_RETURN_IF_ERROR(exemplars_->RestoreTo(state["exemplar_mark"].get<int64_t>()));
  }
  return absl::OkStatus();
}

}  // namespace hone::cli
