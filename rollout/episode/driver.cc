#include "rollout/episode/driver.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "rollout/sampler/random.h"

namespace hone::rollout {

/// An episode that goes on.
struct EpisodeDriver::Live {
  const GroupRequest* request = nullptr;
  Episode* episode = nullptr;
  std::vector<int32_t> prompt_ids;  // of the next turn
  Turn& turn() const { return episode->turns.back(); }
};

namespace {

/// Of one request: independent of what else is in the batch.
uint64_t SeedOf(uint64_t seed, const std::string& id, int64_t turn) {
  uint64_t mixed = seed;
  for (const char c : id) mixed = SplitMix(mixed ^ static_cast<unsigned char>(c)).Next();
  return SplitMix(mixed ^ static_cast<uint64_t>(turn)).Next();
}

Verdict WithoutCode() {
  Verdict verdict;
  verdict.status = VerdictStatus::kParse;
  verdict.message = "the answer contains no code";
  return verdict;
}

Verdict Discarded(const Verdict& measured, std::string reason) {
  Verdict verdict = measured;
  verdict.status = VerdictStatus::kInfra;
  verdict.message = std::move(reason);
  return verdict;
}

double SpeedupOf(const Verdict& verdict) {
  return verdict.ok() && verdict.speed() != nullptr ? verdict.speed()->speedup.low : 0;
}

}  // namespace

void EpisodeDriver::Report(int64_t turn, int64_t awaiting, bool verifying) const {
  if (parts_.on_progress) parts_.on_progress({turn, awaiting, verifying});
}

absl::StatusOr<std::vector<Group>> EpisodeDriver::Run(absl::Span<const GroupRequest> requests, uint64_t seed) {
  std::vector<Group> groups(requests.size());
  std::vector<Live> live;
  for (size_t g = 0; g < requests.size(); ++g) {
    const GroupRequest& request = requests[g];
    groups[g].id = request.id;
    groups[g].task_id = request.task.id;
    groups[g].episodes.resize(static_cast<size_t>(config_.group_size));
    for (int64_t i = 0; i < config_.group_size; ++i) {
      Episode& episode = groups[g].episodes[i];
      episode.id = absl::StrCat(request.id, "/", i);
      episode.task_id = request.task.id;
      episode.retry = request.retry;
      live.push_back({&request, &episode, request.prompt_ids});
    }
  }
  for (int64_t turn = 1; turn <= config_.turns && !live.empty(); ++turn) {
    HONE_RETURN_IF_ERROR(PlayTurn(live, turn, seed));
    HONE_ASSIGN_OR_RETURN(live, NextTurn(live, turn));
  }
  return groups;
}

/// The verdicts of a turn: asked for one by one, and when.
struct EpisodeDriver::Judging {
  std::vector<size_t> asked;  // live[asked[i]] is request i of the stream
  std::unique_ptr<verifier::VerdictStream> stream;
  std::optional<SteadyTime> first_asked;
  std::atomic<int64_t> missing = 0;
};

absl::Status EpisodeDriver::PlayTurn(std::vector<Live>& live, int64_t turn, uint64_t seed) {
  Judging judging;
  judging.asked.reserve(live.size());  // the stream's thread reads what was asked while more is
  judging.stream = parts_.client->OpenStream([&](size_t index, const Verdict& verdict) {
    live[judging.asked[index]].turn().verdict = verdict;
    Report(turn, --judging.missing, /*verifying=*/true);
  });
  std::unique_ptr<verifier::LaneHold> hold;
  if (config_.hold_lanes) {
    HONE_ASSIGN_OR_RETURN(hold, parts_.client->HoldLanes());
  }
  const SteadyTime start = SteadyTime::Now();
  HONE_RETURN_IF_ERROR(GenerateTurn(live, turn, seed, judging));
  hold.reset();
  const SteadyTime generated = SteadyTime::Now();
  Report(turn, judging.missing, /*verifying=*/true);
  if (turn == 1 && parts_.meanwhile) {
    std::vector<const Turn*> answers;
    for (const Live& one : live) answers.push_back(&one.turn());
    HONE_RETURN_IF_ERROR(parts_.meanwhile(answers));
    Report(turn, judging.missing, /*verifying=*/true);  // the caller's work may have told of phases of its own
  }
  const SteadyTime waiting = SteadyTime::Now();
  HONE_RETURN_IF_ERROR(judging.stream->Finish());
  std::vector<size_t> doubted;
  for (const size_t i : judging.asked) {
    if (remeasure_.Doubts(SpeedupOf(live[i].turn().verdict), live[i].request->best)) doubted.push_back(i);
  }
  if (!doubted.empty()) HONE_RETURN_IF_ERROR(Remeasure(live, doubted, turn));
  const SteadyTime end = SteadyTime::Now();
  seconds_.generate += absl::ToDoubleSeconds(generated - start);
  seconds_.verify += absl::ToDoubleSeconds(end - waiting);
  if (judging.first_asked) seconds_.judging += absl::ToDoubleSeconds(end - *judging.first_asked);
  return absl::OkStatus();
}

absl::Status EpisodeDriver::GenerateTurn(std::vector<Live>& live, int64_t turn, uint64_t seed, Judging& judging) {
  Report(turn, static_cast<int64_t>(live.size()), /*verifying=*/false);
  // At turn 1 the episodes of a group share their prompt and stand together: one request for all of them.
  const size_t stride = turn == 1 ? static_cast<size_t>(config_.group_size) : 1;
  std::vector<GenerationRequest> requests;
  for (size_t i = 0; i < live.size(); i += stride) {
    const std::string& id = turn == 1 ? live[i].request->id : live[i].episode->id;
    const uint64_t own = live[i].request->seed.value_or(seed);
    requests.push_back({live[i].prompt_ids, static_cast<int64_t>(stride), SeedOf(own, id, turn), sampling_});
  }
  std::vector<bool> taken(live.size());
  const auto take = [&](size_t i, Sample sample) -> absl::Status {
    HONE_RETURN_IF_ERROR(Take(live[i], std::move(sample)));
    taken[i] = true;
    if (live[i].turn().source.empty()) {
      live[i].turn().verdict = WithoutCode();
      return absl::OkStatus();
    }
    if (!judging.first_asked) judging.first_asked = SteadyTime::Now();
    judging.asked.push_back(i);
    ++judging.missing;
    judging.stream->Submit(RequestFor(live[i], /*use_cache=*/true));
    return absl::OkStatus();
  };
  absl::Status streamed;
  GenerateOptions options;
  options.abort = parts_.abort;
  if (config_.stream) {
    options.on_sample = [&](size_t request, size_t sample, const Sample& result) {
      if (streamed.ok()) streamed = take(request * stride + sample, result);
    };
  }
  HONE_ASSIGN_OR_RETURN(std::vector<std::vector<Sample>> samples, parts_.engine->Generate(requests, options));
  HONE_RETURN_IF_ERROR(streamed);
  for (size_t i = 0; i < live.size(); ++i) {
    const size_t request = i / stride;
    if (request >= samples.size() || samples[request].size() != stride) {
      return absl::InternalError(absl::StrCat("the engine did not answer every one of ", live.size(), " samples"));
    }
    if (!taken[i]) HONE_RETURN_IF_ERROR(take(i, std::move(samples[request][i % stride])));
  }
  return absl::OkStatus();
}

absl::Status EpisodeDriver::Take(Live& live, Sample sample) {
  if (sample.finish == FinishReason::kAborted) return absl::CancelledError("generation was aborted");
  if (sample.log_probs.size() != sample.ids.size()) {
    return absl::InternalError(absl::StrCat("the engine returned ", sample.ids.size(), " tokens with ",
                                            sample.log_probs.size(), " log-probs"));
  }
  Turn& turn = live.episode->turns.emplace_back();
  turn.prompt_ids = std::move(live.prompt_ids);
  turn.response_ids = std::move(sample.ids);
  turn.log_probs = std::move(sample.log_probs);
  turn.versions = std::move(sample.versions);
  turn.truncated = sample.finish == FinishReason::kLength;
  turn.response = parts_.encoder->TextOf(turn.response_ids);
  turn.source = parts_.encoder->CandidateOf(turn.response).value_or("");
  return absl::OkStatus();
}

VerifyRequest EpisodeDriver::RequestFor(const Live& live, bool use_cache) const {
  VerifyRequest request;
  request.task = live.request->task;
  request.candidate = {verify_.format, verify_.backend, live.turn().source};
  request.protocol = verify_.protocol;
  request.trace_id = absl::StrCat(live.episode->id, "/", live.episode->turns.size());
  request.use_cache = use_cache;
  return request;
}

absl::Status EpisodeDriver::Remeasure(std::vector<Live>& live, const std::vector<size_t>& doubted, int64_t turn) {
  std::vector<VerifyRequest> requests;
  for (const size_t i : doubted) {
    requests.push_back(RequestFor(live[i], /*use_cache=*/false));
    requests.back().avoid_lane = live[i].turn().verdict.lane;
  }
  int64_t awaiting = static_cast<int64_t>(requests.size());
  Report(turn, awaiting, /*verifying=*/true);
  return parts_.client->VerifyAll(requests, [&](size_t index, const Verdict& second) {
    Turn& measured = live[doubted[index]].turn();
    measured.verdict = Settle(measured.verdict, second, remeasure_);
    Report(turn, --awaiting, /*verifying=*/true);
  });
}

absl::StatusOr<std::vector<EpisodeDriver::Live>> EpisodeDriver::NextTurn(const std::vector<Live>& live, int64_t turn) {
  std::vector<Live> going_on;
  if (turn == config_.turns) return going_on;
  for (const Live& one : live) {
    const Turn& answered = one.turn();
    if (answered.verdict.status == VerdictStatus::kInfra) continue;
    if (answered.verdict.ok() && config_.stop_at_pass) continue;
    HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> feedback, parts_.encoder->EncodeFeedback(answered));
    Live next = one;
    next.prompt_ids = answered.prompt_ids;
    next.prompt_ids.insert(next.prompt_ids.end(), answered.response_ids.begin(), answered.response_ids.end());
    next.prompt_ids.insert(next.prompt_ids.end(), feedback.begin(), feedback.end());
    const int64_t length = static_cast<int64_t>(next.prompt_ids.size()) + sampling_.max_tokens;
    if (config_.max_context_tokens > 0 && length > config_.max_context_tokens) continue;
    going_on.push_back(std::move(next));
  }
  return going_on;
}

Verdict Settle(const Verdict& first, const Verdict& second, const rewards::RemeasureRule& rule) {
  if (second.status == VerdictStatus::kInfra)
    return Discarded(first, "the second measurement failed: " + second.message);
  if (!second.ok()) return second;
  if (second.device != first.device) {
    return Discarded(first, absl::StrCat("measured on ", first.device, " and again on ", second.device));
  }
  const double a = SpeedupOf(first);
  const double b = SpeedupOf(second);
  if (!rule.Confirms(a, b)) {
    return Discarded(first, absl::StrCat("two measurements disagree: speedups ", a, " and ", b));
  }
  Verdict settled = a <= b ? first : second;
  settled.confirmed_on = a <= b ? second.lane : first.lane;
  return settled;
}

std::map<std::string, double> EpisodeMetrics(absl::Span<const Group> groups) {
  int64_t episodes = 0, infra = 0, first = 0, passed = 0, turns = 0, truncated = 0, success_turns = 0;
  std::map<int64_t, int64_t> passed_at;
  for (const Group& group : groups) {
    for (const Episode& episode : group.episodes) {
      int64_t judged = 0;
      int64_t pass = 0;  // turn of the first pass, from 1
      for (size_t k = 0; k < episode.turns.size(); ++k) {
        judged += episode.turns[k].verdict.status != VerdictStatus::kInfra;
        if (episode.turns[k].verdict.ok() && pass == 0) pass = static_cast<int64_t>(k) + 1;
      }
      if (judged == 0) {
        ++infra;
        continue;
      }
      ++episodes;
      turns += static_cast<int64_t>(episode.turns.size());
      for (const Turn& turn : episode.turns) truncated += turn.truncated;
      if (pass == 0) continue;
      ++passed;
      first += pass == 1;
      success_turns += pass;
      ++passed_at[pass];
    }
  }
  const auto share = [](int64_t part, int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
  };
  std::map<std::string, double> metrics = {{"episodes/first_turn_correct", share(first, episodes)},
                                           {"episodes/best_turn_correct", share(passed, episodes)},
                                           {"episodes/turns_mean", share(turns, episodes)},
                                           {"episodes/turns_to_success", share(success_turns, passed)},
                                           {"episodes/truncated", share(truncated, turns)},
                                           {"episodes/infra", share(infra, episodes + infra)}};
  for (const auto& [turn, count] : passed_at)
    metrics[absl::StrCat("episodes/passed_at_turn_", turn)] = share(count, episodes);
  return metrics;
}

}  // namespace hone::rollout
