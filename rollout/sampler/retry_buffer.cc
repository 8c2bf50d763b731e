#include "rollout/sampler/retry_buffer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/journal.h"
#include "base/status_macros.h"

namespace hone::rollout {
namespace {

using Json = nlohmann::json;

/// How far a failing candidate got; negative: not fit to be shown to the policy.
double Progress(const Turn& turn) {
  if (turn.source.empty()) return -1;
  switch (turn.verdict.status) {
    case VerdictStatus::kOk:
    case VerdictStatus::kCheat:
    case VerdictStatus::kInfra:
      return -1;
    case VerdictStatus::kParse:
      return 0;
    case VerdictStatus::kForbidden:
      return 1;
    case VerdictStatus::kCompile:
    case VerdictStatus::kCompileTimeout:
      return 2;
    case VerdictStatus::kRuntime:
    case VerdictStatus::kTimeout:
    case VerdictStatus::kOom:
      return 3;
    case VerdictStatus::kIncorrect:
      return 4 + turn.verdict.correct_rate;
  }
  return -1;
}

bool Judged(const Episode& episode) {
  return std::any_of(episode.turns.begin(), episode.turns.end(),
                     [](const Turn& turn) { return turn.verdict.status != VerdictStatus::kInfra; });
}

bool Passed(const Group& group) {
  for (const Episode& episode : group.episodes) {
    for (const Turn& turn : episode.turns) {
      if (turn.verdict.ok()) return true;
    }
  }
  return false;
}

int64_t JudgedEpisodes(const Group& group) {
  return std::count_if(group.episodes.begin(), group.episodes.end(), Judged);
}

Json ToJson(const RetryRecord& record) {
  return {{"id", record.id},
          {"task_id", record.task_id},
          {"source", record.source},
          {"verdict", VerdictToJson(record.verdict)},
          {"attempts", record.attempts},
          {"queued_step", record.queued_step}};
}

absl::StatusOr<RetryRecord> RecordFromJson(const Json& json) {
  RetryRecord record;
  record.id = json.at("id").get<int64_t>();
  record.task_id = json.at("task_id").get<std::string>();
  record.source = json.at("source").get<std::string>();
  record.attempts = json.at("attempts").get<int64_t>();
  record.queued_step = json.at("queued_step").get<int64_t>();
  HONE_ASSIGN_OR_RETURN(record.verdict, VerdictFromJson(json.at("verdict").get<std::string>()));
  return record;
}

constexpr std::pair<const char*, int64_t RetryStats::*> kCounters[] = {
    {"slots", &RetryStats::slots},        {"drawn", &RetryStats::drawn},       {"repaired", &RetryStats::repaired},
    {"failed", &RetryStats::failed},      {"given_up", &RetryStats::given_up}, {"overflowed", &RetryStats::overflowed},
    {"age_steps", &RetryStats::age_steps}};

}  // namespace

std::map<std::string, double> RetryStats::Metrics() const {
  return {{"retry/fill", static_cast<double>(fill)},
          {"retry/mean_age_steps", MeanAge()},
          {"retry/hit_rate", HitRate()},
          {"retry/repair_share", RepairShare()},
          {"retry/given_up", static_cast<double>(given_up)},
          {"retry/overflowed", static_cast<double>(overflowed)}};
}

std::optional<RetryRecord> FurthestFailure(const Group& group) {
  if (Passed(group) || 2 * JudgedEpisodes(group) < static_cast<int64_t>(group.episodes.size())) return std::nullopt;
  const Turn* furthest = nullptr;
  for (const Episode& episode : group.episodes) {
    for (const Turn& turn : episode.turns) {
      if (Progress(turn) > (furthest ? Progress(*furthest) : -1)) furthest = &turn;
    }
  }
  if (furthest == nullptr) return std::nullopt;
  RetryRecord record;
  record.task_id = group.task_id;
  record.source = furthest->source;
  record.verdict = furthest->verdict;
  return record;
}

void RetryBuffer::Queue(RetryRecord record, int64_t step) {
  record.queued_step = step;
  queue_.push_back(std::move(record));
  while (static_cast<int64_t>(queue_.size()) > config_.capacity) {
    queue_.pop_front();
    ++stats_.overflowed;
  }
}

void RetryBuffer::Offer(const Group& group, int64_t step) {
  if (!config_.enabled) return;
  const bool repair =
      std::any_of(group.episodes.begin(), group.episodes.end(), [](const Episode& e) { return e.retry; });
  std::optional<RetryRecord> record = repair ? std::nullopt : FurthestFailure(group);
  if (!record) return;
  record->id = next_id_++;
  Queue(*std::move(record), step);
}

std::optional<RetryRecord> RetryBuffer::Draw(int64_t step) {
  if (!config_.enabled) return std::nullopt;
  ++stats_.slots;
  // The draw is made also when the queue is empty: what one slot does never shifts the draws of the next.
  const bool wanted = random_.Uniform() < config_.probability;
  if (!wanted || queue_.empty()) return std::nullopt;
  RetryRecord record = std::move(queue_.front());
  queue_.pop_front();
  ++stats_.drawn;
  stats_.age_steps += step - record.queued_step;
  drawn_.emplace(record.id, record);
  return record;
}

absl::Status RetryBuffer::Report(int64_t id, const Group& group, int64_t step) {
  const auto found = drawn_.find(id);
  if (found == drawn_.end()) return absl::NotFoundError(absl::StrCat("no drawn retry record has id ", id));
  RetryRecord record = std::move(found->second);
  drawn_.erase(found);
  if (JudgedEpisodes(group) == 0) {
    Queue(std::move(record), step);
    return absl::OkStatus();
  }
  if (Passed(group)) {
    ++stats_.repaired;
    return absl::OkStatus();
  }
  ++stats_.failed;
  if (++record.attempts >= config_.max_attempts) {
    ++stats_.given_up;
    return absl::OkStatus();
  }
  if (const std::optional<RetryRecord> furthest = FurthestFailure(group)) {
    record.source = furthest->source;
    record.verdict = furthest->verdict;
  }
  Queue(std::move(record), step);
  return absl::OkStatus();
}

RetryStats RetryBuffer::stats() const {
  RetryStats stats = stats_;
  stats.fill = static_cast<int64_t>(queue_.size());
  return stats;
}

std::string RetryBuffer::Save() const {
  Json state = {{"random", random_.state()}, {"next_id", next_id_}, {"queue", Json::array()}, {"drawn", Json::array()}};
  for (const RetryRecord& record : queue_) state["queue"].push_back(ToJson(record));
  for (const auto& [id, record] : drawn_) state["drawn"].push_back(ToJson(record));
  for (const auto& [name, counter] : kCounters) state["stats"][name] = stats_.*counter;
  return state.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status RetryBuffer::Restore(absl::string_view state) {
  RetryBuffer restored(config_, 0);
  try {
    const Json json = Json::parse(state.begin(), state.end());
    restored.random_ = SplitMix(json.at("random").get<uint64_t>());
    restored.next_id_ = json.at("next_id").get<int64_t>();
    for (const auto& [name, counter] : kCounters) restored.stats_.*counter = json.at("stats").at(name).get<int64_t>();
    for (const char* part : {"drawn", "queue"}) {
      for (const Json& item : json.at(part)) {
        HONE_ASSIGN_OR_RETURN(RetryRecord record, RecordFromJson(item));
        const int64_t queued_step = record.queued_step;
        restored.Queue(std::move(record), queued_step);
      }
    }
  } catch (const Json::exception& error) {
    return absl::DataLossError(absl::StrCat("retry buffer state: ", error.what()));
  }
  *this = std::move(restored);
  return absl::OkStatus();
}

}  // namespace hone::rollout
