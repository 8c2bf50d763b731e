#include "trainer/loop/rl_trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/model/prefix_attention.h"
#include "policy/model/torch_status.h"
#include "trainer/data/packing.h"
#include "trainer/loop/flops.h"
#include "trainer/loop/scorer.h"

namespace hone::trainer {

// Everything about the batch's tokens that is fixed before the first update. Per sequence, [ids].
struct RlTrainer::Plan {
  std::vector<std::vector<float>> old_log_probs, reference_log_probs;  // reference: empty where no sequence has one
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<uint8_t>> counted;
  std::vector<std::vector<float>> coefficients;
  StepMetrics sums;
};

namespace {

// The trained tokens of all sequences in one row, as filters see them.
struct FilterArrays {
  std::vector<float> train, rollout, mask, advantages;
  std::vector<int64_t> offsets{0};
};

FilterArrays Flatten(const std::vector<TrainSequence>& sequences, const std::vector<std::vector<float>>& train) {
  FilterArrays out;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const TrainSequence& s = sequences[i];
    for (int64_t t = 0; t < s.length(); ++t) {
      if (s.loss_mask[t] == 0) continue;
      out.train.push_back(train[i][t]);
      out.rollout.push_back(s.rollout_log_probs[t]);
    }
    out.offsets.push_back(static_cast<int64_t>(out.train.size()));
    out.advantages.push_back(static_cast<float>(s.advantage));
  }
  out.mask.assign(out.train.size(), 1.0f);
  return out;
}

absl::Status CheckDecision(const FilterDecision& decision, size_t tokens) {
  if (decision.weight.size() != tokens || decision.counted.size() != tokens) {
    return absl::InternalError(absl::StrCat("a filter changed the number of tokens from ", tokens, " to ", decision.weight.size()));
  }
  const auto bad = std::find_if(decision.weight.begin(), decision.weight.end(), [](float w) { return !(w >= 0) || !std::isfinite(w); });
  if (bad == decision.weight.end()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("a filter gave token ", bad - decision.weight.begin(), " the weight ", *bad));
}

// Tokens that a scoring pass computes.
std::vector<TokenRun> ScoredRuns(const std::vector<TrainSequence>& sequences, const LearnerOptions& options, bool share_prefixes) {
  std::vector<size_t> all(sequences.size());
  std::iota(all.begin(), all.end(), size_t{0});
  return TokenRuns(sequences, PlanMicroBatches(sequences, all, options.micro_batch_tokens, share_prefixes));
}

// Whether `decoder` can share prefixes, and its kernels do it right.
absl::Status CheckSharing(const LearnerOptions& options, const policy::Decoder& decoder) {
  if (!options.share_prefixes) return absl::UnavailableError("not asked for");
  const policy::ModelConfig& config = decoder.config();
  if (!config.layer_is_local.empty()) return absl::FailedPreconditionError("layers of the model have a window");
  const at::Tensor& weight = decoder.parameters().leaves()[0].value;
  const policy::AttentionShape shape{config.num_attention_heads, config.num_key_value_heads, config.head_dim,
                                     config.Scale(), 0};
  return policy::TestPrefixAttention(shape, weight.device(), weight.scalar_type());
}

// What metrics are made of: sums over a batch, then over the ranks that share it.
constexpr const char* kSums[] = {"tokens",         "entropy", "clipped",  "ratio",  "abs_log_ratio", "policy_loss", "kl",
                                 "all_tokens",     "loss_tokens", "sequences", "mismatch", "compared",  "rejected", "filtered",
                                 "behind",         "versioned", "flops"};

void AddStaleness(const std::vector<TrainSequence>& sequences, int64_t version, StepMetrics& sums, double& most) {
  for (const TrainSequence& s : sequences) {
    for (const VersionSpan& span : s.versions) {
      const double behind = static_cast<double>(version - span.policy_version), length = static_cast<double>(span.end - span.begin);
      sums["behind"] += behind * length;
      sums["versioned"] += length;
      most = std::max(most, behind);
    }
  }
}

absl::Status ShareSums(Communicator* ranks, StepMetrics& sums, double& most) {
  if (ranks == nullptr) return absl::OkStatus();
  std::vector<double> values, largest{most};
  for (const char* name : kSums) values.push_back(sums.count(name) > 0 ? sums.at(name) : 0);
  HONE_RETURN_IF_ERROR(ranks->Sum(values));
  HONE_RETURN_IF_ERROR(ranks->Max(largest));
  most = largest[0];
  for (size_t i = 0; i < values.size(); ++i) {
    if (sums.count(kSums[i]) > 0 || values[i] != 0) sums[kSums[i]] = values[i];
  }
  return absl::OkStatus();
}

// The metrics that are made of sums.
void AddMeans(StepMetrics& sums, double updates, StepMetrics& metrics) {
  const auto mean = [&](const char* name, const char* sum, const char* of) {
    if (sums[of] > 0) metrics[name] = sums[sum] / sums[of];
  };
  mean("entropy", "entropy", "tokens");
  mean("clip_fraction", "clipped", "tokens");
  mean("ratio", "ratio", "tokens");
  mean("mean_abs_log_ratio", "abs_log_ratio", "tokens");
  if (sums["tokens"] > 0) metrics["policy_loss"] = sums["policy_loss"] / updates;
  if (sums.count("kl") > 0) mean("kl", "kl", "tokens");
  mean("mismatch_abs_log_ratio", "mismatch", "compared");
  mean("staleness_mean", "behind", "versioned");
  metrics["rejected_share"] = sums["filtered"] > 0 ? sums["rejected"] / sums["filtered"] : 0;
  metrics["sequences"] = sums["sequences"];
  metrics["tokens"] = sums["all_tokens"];
  metrics["loss_tokens"] = sums["loss_tokens"];
}

}  // namespace

absl::StatusOr<std::unique_ptr<RlTrainer>> RlTrainer::Create(const RlOptions& options, policy::Decoder& decoder) {
  HONE_RETURN_IF_ERROR(Validate(options.loss));
  if (!(options.temperature > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("rl: temperature = ", options.temperature, ", allowed > 0"));
  }
  if (options.updates < 1) return absl::InvalidArgumentError(absl::StrCat("rl: updates = ", options.updates, ", allowed >= 1"));
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Learner> learner, Learner::Create(options.learner, decoder));
  std::unique_ptr<RlTrainer> trainer(new RlTrainer(options, std::move(learner)));
  trainer->prefix_sharing_ = CheckSharing(options.learner, decoder);
  return trainer;
}

absl::StatusOr<std::vector<std::vector<float>>> RlTrainer::Score(const std::vector<TrainSequence>& sequences) {
  learner_->EnterPhase(StepPhase::kScore);
  return ScoreSequences(learner_->decoder(), sequences, options_.temperature, learner_->options().micro_batch_tokens,
                        learner_->options().ranks, prefix_sharing_.ok());
}

absl::StatusOr<LogProbGap> RlTrainer::Gap(const std::vector<TrainSequence>& sequences) {
  HONE_ASSIGN_OR_RETURN(const auto scores, Score(sequences));
  const FilterArrays arrays = Flatten(sequences, scores);
  const FilterBatch batch{arrays.train, arrays.rollout, arrays.mask, arrays.offsets, arrays.advantages};
  LogProbGap gap;
  double sum = 0;
  for (int64_t t = 0; t < batch.tokens(); ++t) {
    if (!std::isfinite(batch.LogRatio(t))) continue;
    sum += std::abs(batch.LogRatio(t));
    ++gap.tokens;
  }
  gap.mean = gap.tokens > 0 ? sum / static_cast<double>(gap.tokens) : 0;
  return gap;
}

absl::Status RlTrainer::DecideTokens(const std::vector<TrainSequence>& sequences, Plan& plan, StepMetrics& metrics) {
  std::vector<std::vector<float>> train;
  scores_.clear();
  const bool scored = options_.score || options_.old_policy == OldPolicy::kRecomputed || !options_.filters.empty();
  if (scored) {
    HONE_ASSIGN_OR_RETURN(train, Score(sequences));
    plan.sums["flops"] += RunFlops(learner_->decoder(), ScoredRuns(sequences, learner_->options(), prefix_sharing_.ok()), 1);
  } else {
    for (const TrainSequence& s : sequences) train.push_back(s.rollout_log_probs);
  }
  const FilterArrays arrays = Flatten(sequences, train);
  const FilterBatch batch{arrays.train, arrays.rollout, arrays.mask, arrays.offsets, arrays.advantages};
  FilterDecision decision = FilterDecision::KeepAll(batch.tokens());
  for (int64_t t = 0; t < batch.tokens(); ++t) {
    if (std::isfinite(batch.LogRatio(t))) {
      if (!scored) continue;
      plan.sums["mismatch"] += std::abs(batch.LogRatio(t));
      ++plan.sums["compared"];
    } else {
      decision.weight[t] = 0;
      decision.counted[t] = 0;
    }
  }
  for (const LossFilter& filter : options_.filters) {
    HONE_RETURN_IF_ERROR(filter(batch, decision));
    HONE_RETURN_IF_ERROR(CheckDecision(decision, arrays.train.size()));
  }
  metrics.insert(decision.stats.begin(), decision.stats.end());
  plan.sums["rejected"] = static_cast<double>(std::count(decision.weight.begin(), decision.weight.end(), 0.0f));
  plan.sums["filtered"] = static_cast<double>(batch.tokens());

  size_t next = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const TrainSequence& s = sequences[i];
    plan.weights.emplace_back(s.ids.size(), 0.0f);
    plan.counted.emplace_back(s.ids.size(), uint8_t{0});
    plan.coefficients.emplace_back(s.ids.size(), 0.0f);
    for (size_t t = 0; t < s.ids.size(); ++t) {
      if (s.loss_mask[t] == 0) continue;
      plan.weights[i][t] = decision.weight[next];
      plan.counted[i][t] = decision.counted[next];
      ++next;
    }
  }
  if (options_.old_policy == OldPolicy::kRecomputed) {
    plan.old_log_probs = train;
  } else {
    for (const TrainSequence& s : sequences) plan.old_log_probs.push_back(s.rollout_log_probs);
  }
  if (scored) scores_ = std::move(train);
  return absl::OkStatus();
}

absl::Status RlTrainer::ScoreReference(const std::vector<TrainSequence>& sequences, Plan& plan) {
  bool given = !sequences.empty();
  for (const TrainSequence& s : sequences) given = given && !s.reference_log_probs.empty();
  if (given) {
    for (const TrainSequence& s : sequences) plan.reference_log_probs.push_back(s.reference_log_probs);
    return absl::OkStatus();
  }
  policy::Decoder& decoder = learner_->decoder();
  const policy::Lora* adapter = decoder.lora();
  if (options_.loss.kl_coefficient == 0 || adapter == nullptr) return absl::OkStatus();
  decoder.UseLora(nullptr);
  absl::StatusOr<std::vector<std::vector<float>>> scores = ScoreSequences(
      decoder, sequences, options_.temperature, learner_->options().micro_batch_tokens, learner_->options().ranks,
      prefix_sharing_.ok());
  decoder.UseLora(adapter);
  HONE_RETURN_IF_ERROR(scores.status());
  plan.reference_log_probs = *std::move(scores);
  plan.sums["flops"] += RunFlops(decoder, ScoredRuns(sequences, learner_->options(), prefix_sharing_.ok()), 1);
  return absl::OkStatus();
}

absl::StatusOr<at::Tensor> RlTrainer::MicroLoss(const std::vector<TrainSequence>& sequences, const Plan& plan,
                                                const MicroBatch& bundles, StepMetrics& sums) {
  const PackedBatch batch = Pack(sequences, bundles);
  policy::PackedSequences attention(batch.offsets, batch.group_offsets);
  policy::Decoder& decoder = learner_->decoder();
  HONE_ASSIGN_OR_RETURN(const at::Tensor hidden, decoder.Hidden(batch.ids, batch.positions, attention));
  HONE_ASSIGN_OR_RETURN(const policy::LogProbs rows, decoder.TargetLogProbs(LossRows(hidden, batch),
                                                                            batch.targets, options_.temperature));
  std::vector<float> old, advantages, coefficients, weights, reference;
  const bool with_reference = !plan.reference_log_probs.empty();
  for (size_t index : batch.sequences) {
    const TrainSequence& s = sequences[index];
    for (size_t t = 1; t < s.ids.size(); ++t) {
      if (s.loss_mask[t] == 0) continue;
      old.push_back(plan.old_log_probs[index][t]);
      advantages.push_back(static_cast<float>(s.advantage));
      coefficients.push_back(plan.coefficients[index][t]);
      weights.push_back(plan.weights[index][t]);
      if (with_reference) reference.push_back(plan.reference_log_probs[index][t]);
    }
  }
  const at::Device device = hidden.device();
  const auto tensor = [&](const std::vector<float>& values) { return at::tensor(values, at::kFloat).to(device); };
  return policy::CatchTorch("policy loss", [&] {
    PolicyLossInput input{rows.log_probs, rows.entropy, tensor(old), tensor(advantages), tensor(coefficients), tensor(weights),
                          with_reference ? tensor(reference) : at::Tensor(), batch.loss_offsets};
    PolicyLossOutput out = PolicyLoss(input, options_.loss);
    for (const auto& [name, value] : out.sums) sums[name] += value;
    return out.loss;
  });
}

absl::Status RlTrainer::Update(const std::vector<TrainSequence>& sequences, Plan& plan, std::vector<size_t> which,
                               StepMetrics& metrics) {
  std::vector<uint8_t> counted;
  std::vector<int64_t> offsets{0};
  const bool regularised = options_.loss.kl_coefficient > 0 || options_.loss.entropy_coefficient > 0;
  bool live = false;
  for (size_t index : which) {
    const TrainSequence& s = sequences[index];
    for (size_t t = 0; t < s.ids.size(); ++t) {
      if (s.loss_mask[t] == 0) continue;
      counted.push_back(plan.counted[index][t]);
      live = live || (plan.weights[index][t] > 0 && (s.advantage != 0 || regularised));
    }
    offsets.push_back(static_cast<int64_t>(counted.size()));
  }
  const BatchTotals own = CountTotals(counted, offsets);
  std::vector<double> all{own.tokens, own.sequences, live ? 1.0 : 0.0};
  HONE_RETURN_IF_ERROR(SumOverRanks(learner_->options().ranks, all));
  const std::vector<double> shares = TokenCoefficients(counted, offsets, options_.loss.aggregation, options_.loss.constant_length, {all[0], all[1]});
  size_t next = 0;
  for (size_t index : which) {
    for (size_t t = 0; t < sequences[index].ids.size(); ++t) {
      if (sequences[index].loss_mask[t] != 0) plan.coefficients[index][t] = static_cast<float>(shares[next++]);
    }
  }
  std::vector<MicroBatch> micro;
  if (all[2] > 0) {
    micro = PlanMicroBatches(sequences, which, learner_->options().micro_batch_tokens, prefix_sharing_.ok());
    plan.sums["flops"] += RunFlops(learner_->decoder(), TokenRuns(sequences, micro), TrainPasses(learner_->decoder()));
  }
  HONE_ASSIGN_OR_RETURN(const StepOutcome outcome, learner_->Step(micro.size(), [&](size_t i) {
    return MicroLoss(sequences, plan, micro[i], plan.sums);
  }));
  metrics["loss"] = outcome.loss;
  metrics["gradient_norm"] = outcome.gradient_norm;
  metrics["learning_rate"] = outcome.learning_rate;
  metrics["updated"] += outcome.updated ? 1 : 0;
  return absl::OkStatus();
}

absl::StatusOr<StepMetrics> RlTrainer::Step(const std::vector<TrainSequence>& sequences) {
  const auto start = std::chrono::steady_clock::now();
  StepMetrics metrics{{"updated", 0}};
  Plan plan;
  plan.sums["sequences"] = static_cast<double>(sequences.size());
  for (size_t i = 0; i < sequences.size(); ++i) {
    HONE_RETURN_IF_ERROR(Validate(sequences[i], i, /*needs_rollout=*/true));
    if (!std::isfinite(sequences[i].advantage)) {
      return absl::InvalidArgumentError(absl::StrCat("training sequence ", i, ": advantage is ", sequences[i].advantage));
    }
    plan.sums["all_tokens"] += static_cast<double>(sequences[i].length());
    plan.sums["loss_tokens"] += static_cast<double>(sequences[i].LossTokens());
  }
  double stalest = 0;
  AddStaleness(sequences, learner_->policy_version(), plan.sums, stalest);
  HONE_RETURN_IF_ERROR(DecideTokens(sequences, plan, metrics));
  HONE_RETURN_IF_ERROR(ScoreReference(sequences, plan));
  metrics["score_seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const size_t updates = static_cast<size_t>(options_.updates);
  for (size_t u = 0; u < updates; ++u) {
    std::vector<size_t> which;
    for (size_t i = u; i < sequences.size(); i += updates) which.push_back(i);
    HONE_RETURN_IF_ERROR(Update(sequences, plan, std::move(which), metrics));
  }
  HONE_RETURN_IF_ERROR(ShareSums(learner_->options().ranks, plan.sums, stalest));
  AddMeans(plan.sums, static_cast<double>(updates), metrics);
  if (plan.sums["versioned"] > 0) metrics["staleness_max"] = stalest;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  AddSpeed(*learner_, metrics["tokens"], plan.sums["flops"], seconds, metrics);
  metrics["skipped_steps"] = static_cast<double>(learner_->skipped_steps());
  return metrics;
}

}  // namespace hone::trainer
