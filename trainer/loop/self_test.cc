#include "trainer/loop/self_test.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "policy/model/torch_status.h"
#include "trainer/loop/scorer.h"

namespace hone::trainer {
namespace {

// log pi of ids[begin..] one sequence alone, all logits at once, softmax in fp64.
absl::StatusOr<std::vector<double>> PlainScores(policy::Decoder& decoder, const std::vector<int32_t>& ids, size_t begin,
                                                double temperature) {
  at::NoGradGuard no_grad;
  const int64_t length = static_cast<int64_t>(ids.size());
  policy::PackedSequences attention(at::tensor(std::vector<int64_t>{0, length}, at::kLong));
  HONE_ASSIGN_OR_RETURN(const at::Tensor hidden,
                        decoder.Hidden(at::tensor(std::vector<int64_t>(ids.begin(), ids.end()), at::kLong),
                                       at::arange(length, at::kLong), attention));
  HONE_ASSIGN_OR_RETURN(const at::Tensor logits, decoder.Logits(hidden));
  return policy::CatchTorch("self-test", [&] {
    const at::Tensor log_p = at::log_softmax(logits.to(at::kDouble) / temperature, -1).cpu();
    std::vector<double> out;
    for (size_t t = begin; t < ids.size(); ++t)
      out.push_back(log_p[static_cast<int64_t>(t) - 1][ids[t]].item<double>());
    return out;
  });
}

template <class A, class B>
double MeanGap(const A& a, const B& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
  return a.empty() ? 0 : sum / static_cast<double>(a.size());
}

}  // namespace

absl::StatusOr<SelfTestReport> TestLogProbs(rollout::Engine& engine, policy::Decoder& decoder,
                                            const SelfTestOptions& options) {
  rollout::GenerationRequest request{options.prompt_ids, 1, /*seed=*/1, {}};
  request.sampling.temperature = options.temperature;
  request.sampling.max_tokens = options.tokens;
  HONE_ASSIGN_OR_RETURN(const auto results, engine.Generate({&request, 1}, {}));
  const rollout::Sample& sample = results[0][0];
  const TrainSequence probe = PromptAndResponse(options.prompt_ids, sample.ids);
  // Packed beside a stranger, as in training.
  HONE_ASSIGN_OR_RETURN(
      const auto scores,
      ScoreSequences(decoder, {PromptAndResponse({sample.ids[0]}, {sample.ids[0], sample.ids[0]}), probe},
                     options.temperature, 1 << 20));
  const std::vector<float> learner(scores[1].begin() + static_cast<int64_t>(options.prompt_ids.size()),
                                   scores[1].end());
  HONE_ASSIGN_OR_RETURN(const std::vector<double> plain,
                        PlainScores(decoder, probe.ids, options.prompt_ids.size(), options.temperature));
  SelfTestReport report;
  report.tokens = static_cast<int64_t>(sample.ids.size());
  report.mean_gap = MeanGap(learner, sample.log_probs);
  report.learner_error = MeanGap(learner, plain);
  report.engine_error = MeanGap(sample.log_probs, plain);
  size_t first = learner.size();
  for (size_t t = 0; t < learner.size(); ++t) {
    const double gap = std::abs(learner[t] - sample.log_probs[t]);
    report.largest_gap = std::max(report.largest_gap, gap);
    if (!(gap <= options.mean_limit) && first == learner.size()) first = t;
  }
  if (report.mean_gap <= options.mean_limit) return report;
  const char* side = report.engine_error > report.learner_error ? "engine" : "learner";
  return absl::FailedPreconditionError(absl::StrFormat(
      "self-test: sampler and learner disagree: mean |log-prob gap| %.3g over %d tokens, at most %.3g; the %s is the "
      "side that is off "
      "(engine %.3g, learner %.3g from a plain computation); first at token %d",
      report.mean_gap, report.tokens, options.mean_limit, side, report.engine_error, report.learner_error, first));
}

absl::Status TestCollectives(Communicator& ranks, const at::Device& device) {
  const at::Tensor mine = at::full({256}, ranks.rank() + 1.0, at::TensorOptions(device).dtype(at::kFloat));
  const at::Tensor all = at::empty({256 * ranks.size()}, mine.options());
  HONE_ASSIGN_OR_RETURN(const auto gather, ranks.AllGather(all, mine));
  HONE_RETURN_IF_ERROR(gather->Wait());
  const at::Tensor sum = mine.clone();
  HONE_RETURN_IF_ERROR(ranks.AllReduce(sum));
  const absl::StatusOr<absl::Status> checked = policy::CatchTorch("self-test", [&]() -> absl::Status {
    const at::Tensor rows = all.view({ranks.size(), 256}).cpu();
    for (int r = 0; r < ranks.size(); ++r) {
      if (rows[r].ne(r + 1.0).any().item<bool>())
        return absl::InternalError(
            absl::StrCat("self-test: rank ", r, "'s numbers arrive wrong at rank ", ranks.rank()));
    }
    const double want = ranks.size() * (ranks.size() + 1) / 2.0;
    if (sum.cpu().ne(want).any().item<bool>())
      return absl::InternalError(absl::StrCat("self-test: a sum over ranks is wrong at rank ", ranks.rank()));
    return absl::OkStatus();
  });
  HONE_RETURN_IF_ERROR(checked.status());
  return *checked;
}

}  // namespace hone::trainer
