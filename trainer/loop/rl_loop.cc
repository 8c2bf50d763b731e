#include "trainer/loop/rl_loop.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/strings.h"
#include "policy/model/device.h"
#include "trainer/loop/learner_state.h"

namespace hone::trainer {
namespace {

double Since(SteadyTime start) { return absl::ToDoubleSeconds(SteadyTime::Now() - start); }

constexpr char kSteps[] = "loop/steps", kSource[] = "source", kWaiting[] = "waiting";

struct TurnPlace {
  size_t group = 0;
  size_t episode = 0;
  size_t turn = 0;
};

struct Moments {
  double sum = 0;
  double squares = 0;
  int64_t count = 0;

  void Add(double value) {
    sum += value;
    squares += value * value;
    ++count;
  }
  double Mean() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
  double Std() const {
    return count > 0 ? std::sqrt(std::max(0.0, squares / static_cast<double>(count) - Mean() * Mean())) : 0;
  }
};

void AddRewards(const rewards::BatchCredit& credit, StepMetrics& metrics) {
  Moments rewards;
  for (const auto& group : credit.groups) {
    for (const auto& episode : group.episodes) {
      for (const auto& turn : episode.turns) {
        if (turn.reward) rewards.Add(*turn.reward);
      }
    }
  }
  metrics["reward/mean"] = rewards.Mean();
  metrics["reward/std"] = rewards.Std();
  metrics["reward/samples"] = static_cast<double>(credit.samples);
  metrics["reward/zero_signal_groups"] = static_cast<double>(credit.zero_signal_groups);
  metrics["reward/untimed_passes"] = static_cast<double>(credit.untimed_passes);
}

void AddVerdicts(const std::vector<Group>& groups, StepMetrics& metrics) {
  std::map<std::string, Moments> log_speedups;
  std::map<std::string, int64_t> statuses;
  Moments correct, best_correct, tokens, turns;
  int64_t first_turns = 0;
  for (const Group& group : groups) {
    for (const Episode& episode : group.episodes) {
      if (episode.turns.empty()) continue;
      const Verdict& first = episode.turns.front().verdict;
      ++first_turns;
      ++statuses[std::string(StdView(Name(first.status)))];
      tokens.Add(static_cast<double>(episode.turns.front().response_ids.size()));
      turns.Add(static_cast<double>(episode.turns.size()));
      if (first.status == VerdictStatus::kInfra) continue;
      correct.Add(first.ok() ? 1 : 0);
      best_correct.Add(std::any_of(episode.turns.begin(), episode.turns.end(), [](const Turn& turn) { return turn.verdict.ok(); }) ? 1 : 0);
      for (const Timing& timing : first.timings) {
        if (first.ok() && timing.speedup.median > 0) {
          log_speedups[std::string(StdView(Name(timing.baseline)))].Add(std::log(timing.speedup.median));
        }
      }
    }
  }
  metrics["correct/first_turn"] = correct.Mean();
  metrics["correct/best_turn"] = best_correct.Mean();
  metrics["rollout/response_tokens"] = tokens.Mean();
  metrics["rollout/turns"] = turns.Mean();
  for (const auto& [baseline, logs] : log_speedups) metrics["speedup/" + baseline] = std::exp(logs.Mean());
  for (const auto& [status, count] : statuses) {
    metrics["verdict/" + status] = static_cast<double>(count) / static_cast<double>(first_turns);
  }
}

std::vector<TurnPlace> TrainedPlaces(const std::vector<Group>& groups, const rewards::BatchCredit& credit) {
  std::vector<TurnPlace> places;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t e = 0; e < groups[g].episodes.size(); ++e) {
      const auto& turns = groups[g].episodes[e].turns;
      for (size_t t = 0; t < turns.size(); ++t) {
        if (credit.groups[g].episodes[e].turns[t].trained() && !turns[t].response_ids.empty()) places.push_back({g, e, t});
      }
    }
  }
  return places;
}

}  // namespace

std::vector<TrainSequence> TrainedTurns(const std::vector<Group>& groups, const rewards::BatchCredit& credit) {
  std::vector<TrainSequence> sequences;
  for (const auto& [g, e, t] : TrainedPlaces(groups, credit)) {
    sequences.push_back(SampledTurn(groups[g].episodes[e].turns[t], credit.groups[g].episodes[e].turns[t].advantage));
  }
  return sequences;
}

StepMetrics BatchMetrics(const std::vector<Group>& groups, const rewards::BatchCredit& credit) {
  StepMetrics metrics;
  AddRewards(credit, metrics);
  AddVerdicts(groups, metrics);
  return metrics;
}

absl::Status RlLoop::Record(const std::vector<TrainSequence>& sequences, const std::vector<Group>& groups,
                            const rewards::BatchCredit& credit, int64_t version) {
  const std::vector<std::vector<float>>& scores = parts_.trainer.scores();
  const auto wanted = static_cast<size_t>(options_.recorded_sequences);
  if (parts_.log_probs == nullptr || wanted == 0 || scores.empty() || parts_.ranks != nullptr) return absl::OkStatus();
  const std::vector<TurnPlace> places = TrainedPlaces(groups, credit);
  const size_t count = std::min(wanted, sequences.size());
  for (size_t i = 0; i < count; ++i) {
    const size_t index = i * sequences.size() / count;
    const Episode& episode = groups[places[index].group].episodes[places[index].episode];
    const auto turn = static_cast<int64_t>(places[index].turn) + 1;
    HONE_RETURN_IF_ERROR(parts_.log_probs->Append(episode.id, turn, version, sequences[index], scores[index]));
  }
  return parts_.log_probs->Sync();
}

absl::StatusOr<StepMetrics> RlLoop::LearnFrom(const std::vector<TrainSequence>& sequences) {
  if (parts_.ranks == nullptr) return parts_.trainer.Step(sequences);
  HONE_RETURN_IF_ERROR(parts_.ranks->Give(Order::kLearn));
  HONE_ASSIGN_OR_RETURN(const std::vector<TrainSequence> own, parts_.ranks->Deal(sequences));
  return parts_.trainer.Step(own);
}

absl::Status RlLoop::Learn(const std::vector<Group>& groups, StepMetrics& metrics) {
  const rewards::BatchCredit credit = parts_.rewards.Score(groups);
  const std::vector<TrainSequence> sequences = TrainedTurns(groups, credit);
  if (sequences.empty()) return absl::OkStatus();
  const int64_t version = parts_.trainer.learner().policy_version();
  HONE_ASSIGN_OR_RETURN(const StepMetrics learned, LearnFrom(sequences));
  for (const auto& [name, value] : learned) metrics["learn/" + name] = value;
  return Record(sequences, groups, credit, version);
}

absl::Status RlLoop::MeasureGap(absl::Span<const Turn* const> answers, StepMetrics& metrics) {
  if (parts_.ranks != nullptr) return absl::OkStatus();  // they would all have to score
  const int64_t version = parts_.trainer.learner().policy_version();
  std::vector<const Turn*> own;
  for (const Turn* answer : answers) {
    const auto earlier = [&](const VersionSpan& span) { return span.policy_version != version; };
    if (!answer->response_ids.empty() && std::none_of(answer->versions.begin(), answer->versions.end(), earlier)) own.push_back(answer);
  }
  const size_t count = std::min(static_cast<size_t>(options_.recorded_sequences), own.size());
  std::vector<TrainSequence> sequences;
  for (size_t i = 0; i < count; ++i) sequences.push_back(SampledTurn(*own[i * own.size() / count], 0));
  if (sequences.empty()) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const LogProbGap gap, parts_.trainer.Gap(sequences));
  metrics["gap/abs_log_ratio"] = gap.mean;
  metrics["gap/tokens"] = static_cast<double>(gap.tokens);
  return absl::OkStatus();
}

absl::Status RlLoop::LearnOldest(StepMetrics& metrics) {
  const SteadyTime start = SteadyTime::Now();
  const std::vector<Group> oldest = std::move(waiting_.front());
  waiting_.pop_front();
  HONE_RETURN_IF_ERROR(Learn(oldest, metrics));
  const SteadyTime learned = SteadyTime::Now();
  HONE_RETURN_IF_ERROR(parts_.source.Learned(parts_.trainer.learner().policy_version(), metrics));
  metrics["seconds/update"] = Since(learned);
  metrics["seconds/learn"] = Since(start);
  const policy::Decoder& decoder = parts_.trainer.learner().decoder();
  const policy::DeviceMemory memory = policy::MemoryOf(decoder.parameters().leaves()[0].value.device());
  if (memory.peak_bytes > 0) {
    metrics["memory/peak_gb"] = static_cast<double>(memory.peak_bytes) / 1e9;
    metrics["memory/device_gb"] = static_cast<double>(memory.used_bytes) / 1e9;
  }
  return absl::OkStatus();
}

// A batch as it was sampled, or, with options_.fill, whole once so many groups have a difference to learn from.
void RlLoop::Queue(std::vector<Group> groups, StepMetrics& metrics) {
  if (options_.fill == 0) {
    waiting_.push_back(std::move(groups));
    return;
  }
  const rewards::BatchCredit credit = parts_.rewards.Score(groups);
  for (size_t g = 0; g < groups.size(); ++g) {
    if (credit.groups[g].signal) filling_.push_back(std::move(groups[g]));
  }
  metrics["reward/filling_groups"] = static_cast<double>(filling_.size());
  if (static_cast<int64_t>(filling_.size()) < options_.fill) return;
  waiting_.push_back(std::move(filling_));
  filling_.clear();
}

absl::StatusOr<StepMetrics> RlLoop::Step() {
  const SteadyTime start = SteadyTime::Now();
  StepMetrics metrics{{"seconds/learn", 0.0}};
  if (!begun_) HONE_RETURN_IF_ERROR(parts_.source.Begin(step_, parts_.trainer.learner().policy_version()));
  begun_ = true;
  const bool overlap = options_.overlap && options_.lag > 0 && static_cast<int64_t>(waiting_.size()) == options_.lag;
  const auto meanwhile = [&](absl::Span<const Turn* const> answers) -> absl::Status {
    HONE_RETURN_IF_ERROR(MeasureGap(answers, metrics));
    return overlap ? LearnOldest(metrics) : absl::OkStatus();
  };
  HONE_ASSIGN_OR_RETURN(std::vector<Group> groups, parts_.source.Collect(step_, meanwhile, metrics));
  Enter("the journal");
  for (const Group& group : groups) HONE_RETURN_IF_ERROR(parts_.journal.Append(group));
  HONE_RETURN_IF_ERROR(parts_.journal.Sync());
  Enter("the rewards");
  metrics.merge(BatchMetrics(groups, parts_.rewards.Score(groups)));
  for (const auto& [term, mean] : parts_.rewards.PartMeans(groups)) metrics["reward/part/" + term] = mean;
  Queue(std::move(groups), metrics);
  if (static_cast<int64_t>(waiting_.size()) > options_.lag) {
    HONE_RETURN_IF_ERROR(LearnOldest(metrics));
  } else if (!overlap) {
    HONE_RETURN_IF_ERROR(parts_.source.Learned(parts_.trainer.learner().policy_version(), metrics));
  }
  metrics["seconds/step"] = Since(start);
  if (metrics.count("seconds/generate") > 0) metrics["share/generate"] = metrics["seconds/generate"] / metrics["seconds/step"];
  HONE_RETURN_IF_ERROR(parts_.metrics.Write(step_, metrics));
  ++step_;
  return metrics;
}

absl::StatusOr<CheckpointData> RlLoop::Save() const {
  HONE_ASSIGN_OR_RETURN(CheckpointData data, SaveOwn());
  AddLearnerState(parts_.trainer.learner(), data);
  data.step = step_;
  return data;
}

absl::StatusOr<CheckpointData> RlLoop::SaveOwn() const {
  CheckpointData data;
  data.step = step_;
  data.counters[kSteps] = step_;
  HONE_ASSIGN_OR_RETURN(data.blobs[kSource], parts_.source.Save());
  std::string& waiting = data.blobs[kWaiting];  // a line a group; an empty line ends a batch
  for (const std::vector<Group>& batch : waiting_) {
    for (const Group& group : batch) absl::StrAppend(&waiting, GroupToJson(group), "\n");
    absl::StrAppend(&waiting, "\n");
  }
  for (const Group& group : filling_) absl::StrAppend(&waiting, GroupToJson(group), "\n");
  return data;
}

absl::Status RlLoop::Restore(const CheckpointData& data) {
  HONE_RETURN_IF_ERROR(RestoreOwn(data));
  return RestoreLearnerState(data, parts_.trainer.learner());
}

absl::Status RlLoop::RestoreOwn(const CheckpointData& data) {
  const auto steps = data.counters.find(kSteps);
  const auto source = data.blobs.find(kSource);
  if (steps == data.counters.end() || source == data.blobs.end()) {
    return absl::InvalidArgumentError(absl::StrCat("a checkpoint without the counter ", kSteps, " or the blob ", kSource,
                                                   " is none of a reinforcement loop"));
  }
  HONE_RETURN_IF_ERROR(parts_.source.Restore(source->second));
  waiting_.clear();
  std::vector<Group> batch;
  if (const auto waiting = data.blobs.find(kWaiting); waiting != data.blobs.end()) {
    std::istringstream lines(waiting->second);
    for (std::string line; std::getline(lines, line);) {
      if (line.empty()) {
        waiting_.push_back(std::move(batch));
        batch.clear();
        continue;
      }
      HONE_ASSIGN_OR_RETURN(Group group, GroupFromJson(line));
      batch.push_back(std::move(group));
    }
  }
  filling_ = std::move(batch);
  step_ = steps->second;
  return absl::OkStatus();
}

}  // namespace hone::trainer
