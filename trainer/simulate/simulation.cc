#include "trainer/simulate/simulation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rewards/turns/single.h"
#include "rollout/sampler/exemplar_draw.h"
#include "rollout/sampler/random.h"
#include "trainer/loss/filters/sequence_masks.h"

namespace hone::trainer {
namespace {

using rewards::Outcome;
using rollout::RetryRecord;
using rollout::SplitMix;

double Speedup(const Outcome& outcome) {
  return outcome.passed() && outcome.first_baseline ? outcome.speedups[static_cast<int>(*outcome.first_baseline)].low
                                                    : 0;
}

/// How far a candidate gets: what "further" means in feedback.
double Progress(const Outcome& outcome) {
  switch (outcome.status) {
    case VerdictStatus::kOk:
      return 5;
    case VerdictStatus::kIncorrect:
      return 3 + outcome.correct_rate;
    case VerdictStatus::kRuntime:
    case VerdictStatus::kTimeout:
    case VerdictStatus::kOom:
      return 2;
    case VerdictStatus::kCompile:
    case VerdictStatus::kCompileTimeout:
      return 1;
    default:
      return 0;
  }
}

std::vector<double> Softmax(std::vector<double> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double& logit : logits) sum += logit = std::exp(logit - top);
  for (double& logit : logits) logit /= sum;
  return logits;
}

double Normal(SplitMix& random) {
  const double u = 1 - random.Uniform();  // in (0, 1]
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * random.Uniform());
}

/// What an answer is conditioned on.
struct Context {
  std::optional<size_t> failing;  // candidate that failed before
  double slower = 0;              // speeds of the exemplars; 0: none shown
  double faster = 0;
};

/// One answer with all that its gradient needs.
struct Answer {
  size_t task = 0;
  size_t candidate = 0;               // what was verified
  size_t credited = 0;                // what the learner trains on; another one when the response is corrupt
  std::vector<double> probabilities;  // [candidates] in its context, under the weights that are being updated
  std::vector<float> learner;         // [tokens] log-probs
  std::vector<float> rollout;         // [tokens]
  double advantage = 0;
};

class Trainer {
 public:
  Trainer(const World& world, const SimulationConfig& config, rewards::Pipeline pipeline, uint64_t seed)
      : world_(world),
        config_(config),
        pipeline_(std::move(pipeline)),
        filters_(MakeChain(config.filters)),
        retry_(config.retry, seed ^ 0x5bd1e995),
        random_(seed),
        shown_(world.tasks.size()) {
    for (const SimTask& task : world.tasks) logits_.push_back(task.logits);
  }

  absl::Status Step(int64_t step, SimResult& result);
  SimScore Score() const;

 private:
  struct Slot {
    size_t task = 0;
    Context context;
    std::optional<int64_t> retry_id;
  };
  Slot NextSlot(int64_t step);
  void DrawExemplars(size_t task, Context& context);
  std::vector<double> Probabilities(size_t task, const Context& context) const;
  Answer AnswerTo(size_t task, const Context& context);
  std::vector<Answer> RunEpisode(const Slot& slot);
  absl::StatusOr<FilterDecision> ApplyFilters(const std::vector<Answer>& answers) const;
  bool Update(const std::vector<Answer>& answers, const FilterDecision& decision);
  double SurrogateWeight(const Answer& answer, const FilterDecision& decision, size_t first_token) const;
  Group RecordOf(const Slot& slot, const std::vector<std::vector<Answer>>& episodes) const;

  const World& world_;
  const SimulationConfig& config_;
  rewards::Pipeline pipeline_;
  LossFilter filters_;
  rollout::RetryBuffer retry_;
  SplitMix random_;
  std::vector<std::vector<double>> logits_;      // [tasks][candidates]
  std::vector<std::map<size_t, double>> shown_;  // [tasks] passes seen so far with their speed, for exemplars
};

Trainer::Slot Trainer::NextSlot(int64_t step) {
  Slot slot;
  if (const std::optional<RetryRecord> record = retry_.Draw(step)) {
    slot.retry_id = record->id;
    int64_t candidate = 0;
    for (size_t t = 0; t < world_.tasks.size(); ++t) {
      if (world_.tasks[t].id == record->task_id) slot.task = t;
    }
    if (absl::SimpleAtoi(record->source, &candidate)) slot.context.failing = static_cast<size_t>(candidate);
    return slot;
  }
  slot.task = static_cast<size_t>(random_.Below(static_cast<int64_t>(world_.tasks.size())));
  DrawExemplars(slot.task, slot.context);
  return slot;
}

void Trainer::DrawExemplars(size_t task, Context& context) {
  const std::map<size_t, double>& known = shown_[task];
  if (config_.exemplars == "none" || known.size() < 2) return;
  const auto show = [&context](double a, double b) {
    context.slower = std::min(a, b);
    context.faster = std::max(a, b);
  };
  if (config_.exemplars == "random") {
    const int64_t first = random_.Below(static_cast<int64_t>(known.size()));
    const int64_t step = 1 + random_.Below(static_cast<int64_t>(known.size()) - 1);
    const int64_t second = (first + step) % static_cast<int64_t>(known.size());
    return show(std::next(known.begin(), first)->second, std::next(known.begin(), second)->second);
  }
  std::map<int64_t, std::vector<double>> buckets;
  for (const auto& [candidate, speedup] : known) {
    buckets[static_cast<int64_t>(std::floor(speedup / config_.bucket_width))].push_back(speedup);
  }
  if (buckets.size() < 2) return;
  std::vector<double> means;
  std::vector<const std::vector<double>*> members;
  for (const auto& [index, speedups] : buckets) {
    double sum = 0;
    for (const double speedup : speedups) sum += speedup;
    means.push_back(sum / static_cast<double>(speedups.size()));
    members.push_back(&speedups);
  }
  const auto [a, b] = rollout::DrawTwoBuckets(means, config_.tau, random_);
  const auto any = [&](const std::vector<double>& from) {
    return from[random_.Below(static_cast<int64_t>(from.size()))];
  };
  const double first = any(*members[a]);
  show(first, any(*members[b]));
}

std::vector<double> Trainer::Probabilities(size_t task, const Context& context) const {
  const std::vector<Outcome>& candidates = world_.tasks[task].candidates;
  std::vector<double> logits = logits_[task];
  for (size_t c = 0; c < candidates.size(); ++c) {
    if (context.failing && Progress(candidates[c]) > Progress(candidates[*context.failing]))
      logits[c] += config_.feedback;
    if (context.failing == c) logits[c] -= 50;
    const double speedup = Speedup(candidates[c]);
    if (context.faster == 0 || speedup == 0) continue;
    if (speedup >= 0.9 * context.faster && speedup <= 2 * context.faster) {
      logits[c] += config_.imitation;
    } else if (speedup >= 0.9 * context.slower && speedup <= 1.1 * context.slower) {
      logits[c] += 0.5 * config_.imitation;
    }
  }
  return Softmax(std::move(logits));
}

Answer Trainer::AnswerTo(size_t task, const Context& context) {
  Answer answer;
  answer.task = task;
  answer.probabilities = Probabilities(task, context);
  double left = random_.Uniform();
  while (answer.candidate + 1 < answer.probabilities.size() && left >= answer.probabilities[answer.candidate]) {
    left -= answer.probabilities[answer.candidate++];
  }
  const bool corrupt = random_.Uniform() < config_.corrupt;
  const double noise = corrupt ? config_.corrupt_noise : config_.engine_noise;
  answer.credited = corrupt ? random_.Below(static_cast<int64_t>(answer.probabilities.size())) : answer.candidate;
  const double token_log_prob = std::log(answer.probabilities[answer.credited]) / static_cast<double>(config_.tokens);
  double deviation = 0;
  for (int64_t t = 0; t < config_.tokens; ++t) {
    deviation = t % 2 == 0 || !corrupt ? noise * Normal(random_) : -deviation;
    answer.learner.push_back(static_cast<float>(token_log_prob));
    answer.rollout.push_back(static_cast<float>(token_log_prob + deviation));
  }
  return answer;
}

std::vector<Answer> Trainer::RunEpisode(const Slot& slot) {
  std::vector<Answer> answers;
  Context context = slot.context;
  for (int64_t turn = 0; turn < config_.turns; ++turn) {
    answers.push_back(AnswerTo(slot.task, context));
    const Outcome& outcome = world_.tasks[slot.task].candidates[answers.back().candidate];
    if (outcome.passed()) {
      shown_[slot.task][answers.back().candidate] = Speedup(outcome);
      break;
    }
    context.failing = answers.back().candidate;
  }
  return answers;
}

/// The group as the retry buffer looks at it: a candidate's source is its number.
Group Trainer::RecordOf(const Slot& slot, const std::vector<std::vector<Answer>>& episodes) const {
  Group group;
  group.task_id = world_.tasks[slot.task].id;
  for (const std::vector<Answer>& answers : episodes) {
    Episode& episode = group.episodes.emplace_back();
    episode.retry = slot.retry_id.has_value();
    for (const Answer& answer : answers) {
      const Outcome& outcome = world_.tasks[slot.task].candidates[answer.candidate];
      Turn& turn = episode.turns.emplace_back();
      turn.source = absl::StrCat(answer.candidate);
      turn.verdict.status = outcome.status;
      turn.verdict.correct_rate = outcome.correct_rate;
    }
  }
  return group;
}

absl::StatusOr<FilterDecision> Trainer::ApplyFilters(const std::vector<Answer>& answers) const {
  std::vector<float> learner, rollout, advantages;
  std::vector<int64_t> offsets = {0};
  for (const Answer& answer : answers) {
    learner.insert(learner.end(), answer.learner.begin(), answer.learner.end());
    rollout.insert(rollout.end(), answer.rollout.begin(), answer.rollout.end());
    advantages.push_back(static_cast<float>(answer.advantage));
    offsets.push_back(static_cast<int64_t>(learner.size()));
  }
  const std::vector<float> mask(learner.size(), 1);
  FilterDecision decision = FilterDecision::KeepAll(static_cast<int64_t>(learner.size()));
  HONE_RETURN_IF_ERROR(filters_({learner, rollout, mask, offsets, advantages}, decision));
  return decision;
}

/// Mean over tokens of the factor of grad log pi in the clipped surrogate min(r A, clip(r) A), over A.
double Trainer::SurrogateWeight(const Answer& answer, const FilterDecision& decision, size_t first_token) const {
  double sum = 0;
  for (size_t t = 0; t < answer.learner.size(); ++t) {
    const double ratio = std::exp(static_cast<double>(answer.learner[t]) - answer.rollout[t]);
    const bool clipped = answer.advantage > 0 ? ratio > 1 + config_.clip_high : ratio < 1 - config_.clip_low;
    if (!clipped) sum += decision.weight[first_token + t] * ratio;
  }
  return sum / static_cast<double>(answer.learner.size());
}

bool Trainer::Update(const std::vector<Answer>& answers, const FilterDecision& decision) {
  int64_t counted = 0;
  for (const uint8_t token : decision.counted) counted += token;
  if (counted == 0 || answers.empty()) return false;
  const double sequences = static_cast<double>(counted) / static_cast<double>(config_.tokens);
  std::vector<std::pair<const Answer*, double>> steps;
  for (size_t i = 0; i < answers.size(); ++i) {
    const double weight = SurrogateWeight(answers[i], decision, i * static_cast<size_t>(config_.tokens));
    if (weight * answers[i].advantage != 0) steps.emplace_back(&answers[i], weight * answers[i].advantage);
  }
  for (const auto& [answer, factor] : steps) {
    const double step = config_.learning_rate * factor * static_cast<double>(config_.groups) / sequences;
    std::vector<double>& logits = logits_[answer->task];
    for (size_t c = 0; c < logits.size(); ++c) {
      logits[c] += step * ((c == answer->credited ? 1 : 0) - answer->probabilities[c]);
    }
  }
  return !steps.empty();
}

absl::Status Trainer::Step(int64_t step, SimResult& result) {
  std::vector<Slot> slots;
  std::vector<std::vector<std::vector<Answer>>> groups;  // [groups][episodes][turns]
  std::vector<rewards::GroupOutcomes> outcomes;
  for (int64_t g = 0; g < config_.groups; ++g) {
    slots.push_back(NextSlot(step));
    groups.emplace_back();
    outcomes.emplace_back();
    for (int64_t e = 0; e < config_.group_size; ++e) {
      groups.back().push_back(RunEpisode(slots.back()));
      rewards::EpisodeOutcomes& turns = outcomes.back().emplace_back();
      for (const Answer& answer : groups.back().back()) {
        turns.push_back(world_.tasks[answer.task].candidates[answer.candidate]);
      }
    }
  }
  const rewards::BatchCredit credit = pipeline_.Score(outcomes);
  std::vector<Answer> trained;
  for (size_t g = 0; g < groups.size(); ++g) {
    const Group record = RecordOf(slots[g], groups[g]);
    if (slots[g].retry_id) HONE_RETURN_IF_ERROR(retry_.Report(*slots[g].retry_id, record, step));
    retry_.Offer(record, step);
    for (size_t e = 0; e < groups[g].size(); ++e) {
      for (size_t k = 0; k < groups[g][e].size(); ++k) {
        const rewards::TurnCredit& turn = credit.groups[g].episodes[e].turns[k];
        if (!turn.trained()) continue;
        groups[g][e][k].advantage = turn.advantage;
        trained.push_back(std::move(groups[g][e][k]));
      }
    }
  }
  HONE_ASSIGN_OR_RETURN(const FilterDecision decision, ApplyFilters(trained));
  result.skipped_steps += !Update(trained, decision);
  result.metrics = retry_.stats().Metrics();
  result.metrics.insert(decision.stats.begin(), decision.stats.end());
  result.metrics["reward/zero_signal_share"] =
      static_cast<double>(credit.zero_signal_groups) / static_cast<double>(credit.groups.size());
  return absl::OkStatus();
}

SimScore Trainer::Score() const {
  SimScore score;
  const double tasks = static_cast<double>(world_.tasks.size());
  for (size_t t = 0; t < world_.tasks.size(); ++t) {
    const std::vector<double> probabilities = Softmax(logits_[t]);
    double pass = 0, faster = 0, log_speedup = 0;
    for (size_t c = 0; c < probabilities.size(); ++c) {
      const Outcome& outcome = world_.tasks[t].candidates[c];
      if (!outcome.passed()) continue;
      pass += probabilities[c];
      const double speedup = Speedup(outcome);
      if (speedup > 1.1) faster += probabilities[c];
      if (speedup > 0) log_speedup += probabilities[c] * std::log(speedup);
    }
    score.first_turn_correct += pass / tasks;
    score.pass_at_8 += (1 - std::pow(1 - pass, 8)) / tasks;
    score.faster += faster / tasks;
    if (pass > 0) score.log_speedup += log_speedup / pass / tasks;
  }
  return score;
}

}  // namespace

absl::StatusOr<SimResult> Simulate(const World& world, const SimulationConfig& config, uint64_t seed) {
  HONE_ASSIGN_OR_RETURN(rewards::Pipeline pipeline, rewards::Pipeline::Create(config.rewards));
  Trainer trainer(world, config, std::move(pipeline), seed);
  SimResult result;
  result.before = trainer.Score();
  for (int64_t step = 0; step < config.steps; ++step) {
    HONE_RETURN_IF_ERROR(trainer.Step(step, result));
    result.curve.push_back(trainer.Score());
  }
  result.after = result.curve.back();
  return result;
}

std::vector<SimVariant> Ablations(const SimulationConfig& full) {
  std::vector<SimVariant> variants = {{"full", full}};
  const auto add = [&](const char* name) -> SimulationConfig& {
    return variants.emplace_back(SimVariant{name, full}).config;
  };
  add("without PrimeEcho").rewards.turns.rule = rewards::Choice<rewards::TurnRule>::Of(rewards::SingleScore());
  add("without BDR").retry.enabled = false;
  add("without MirrorPop").filters.chain.clear();
  GeometricMask signed_mean;
  signed_mean.low = std::exp(-0.05);
  signed_mean.high = std::exp(0.05);
  add("signed mean instead").filters.chain = {FilterConfig{rewards::Choice<trainer::Filter>::Of(signed_mean)}};
  add("without contrast").exemplars = "none";
  add("random exemplars").exemplars = "random";
  return variants;
}

}  // namespace hone::trainer
