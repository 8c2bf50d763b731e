// The learner on a GPU: right numbers first, then tokens per second, MFU and memory at the shapes of published models
// with random weights. One JSON object a line.
//
//   learner_bench [device] [rows] [check] [ops] [full] [phases] [full_checkpointed] [full_offload] [score] [lora]
//                                   [prefix_check] [prefix]                           default: cuda, all
//
// How FLOP are counted: workload.h.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>

#include "bench/learner/workload.h"
#include "cmake/torch_pch.h"
#include "policy/model/device.h"
#include "policy/model/lora.h"
#include "policy/model/prefix_attention.h"
#include "policy/model/rows.h"
#include "trainer/loop/rl_trainer.h"
#include "trainer/loop/scorer.h"
#include "trainer/loop/sft_trainer.h"

namespace hone {
namespace {

using bench::FillRandom;
using bench::FlopsPerToken;
using bench::kPeakFlops;
using bench::MedianSeconds;
using bench::Qwen1_5B;
using bench::Qwen8B;
using bench::Sequences;
using bench::Shape;
using policy::Decoder;
using policy::ModelConfig;

std::unique_ptr<Decoder> RandomDecoder(const ModelConfig& config, const at::Device& device, bool checkpoint) {
  auto decoder =
      Decoder::Create(config, {.device = device, .dtype = at::kBFloat16, .checkpoint_activations = checkpoint}).value();
  FillRandom(*decoder);
  return decoder;
}

void Print(const char* id, double tokens, double seconds, double flops_per_token, const at::Device& device) {
  const policy::DeviceMemory memory = policy::MemoryOf(device);
  std::printf(
      "{\"bench\": \"%s\", \"tokens\": %.0f, \"seconds\": %.4f, \"tok_s\": %.0f, \"mfu\": %.4f, \"peak_gb\": %.2f, "
      "\"reserved_gb\": %.2f}\n",
      id, tokens, seconds, tokens / seconds, tokens / seconds * flops_per_token / kPeakFlops, memory.peak_bytes / 1e9,
      memory.reserved_peak_bytes / 1e9);
  std::fflush(stdout);
}

// --- right numbers

const char* NameOf(at::ScalarType dtype) {
  return dtype == at::kHalf ? "fp16" : dtype == at::kBFloat16 ? "bf16" : "fp32";
}

double RelativeError(const at::Tensor& got, const at::Tensor& want) {
  const at::Tensor g = got.to(at::kCPU).to(at::kDouble), w = want.to(at::kCPU).to(at::kDouble);
  return ((g - w).norm() / (w.norm() + 1e-30)).item<double>();
}

void PrintCheck(const std::string& name, double error, double limit) {
  std::printf("{\"check\": \"%s\", \"relative_error\": %.3g, \"limit\": %.3g, \"ok\": %s}\n", name.c_str(), error,
              limit, error <= limit ? "true" : "false");
  std::fflush(stdout);
}

// Three steps of the optimiser on the device and on the CPU, from the same numbers.
void CheckAdamW(const at::Device& device, at::ScalarType dtype) {
  const at::Tensor weight = (at::randn({1000}, at::kFloat) * 0.02).to(dtype),
                   gradient = at::randn({3, 1000}, at::kFloat);
  at::Tensor ends[2];
  for (const bool there : {false, true}) {
    at::Tensor value = weight.clone().to(there ? device : at::kCPU).requires_grad_();
    const auto optimizer = trainer::AdamW::Create({}, {{"weight", value, true}}).value();
    for (int step = 0; step < 3; ++step) {
      at::Tensor gradients = optimizer->gradients();
      gradients.narrow(0, 0, 1000).copy_(gradient[step]);
      if (!optimizer->Step(1e-2, 0.25).ok()) std::printf("{\"failed\": \"adamw\"}\n");
    }
    ends[there] = value.detach();
  }
  PrintCheck("adamw", RelativeError(ends[1], ends[0]), dtype == at::kHalf ? 1e-4 : 1e-3);
  PrintCheck("adamw moved the weights", 1 / (1e-9 + RelativeError(ends[1], weight)), 100);
}

// Each kernel against ATen's operators on the same numbers, in fp32 on the CPU. Limits are bf16's.
void CheckRows(const at::Device& device, at::ScalarType dtype) {
  std::printf("{\"rows\": \"%s\"}\n", NameOf(dtype));
  const auto random = [&](at::IntArrayRef sizes, double scale = 1.0) {
    return (at::randn(sizes, at::kFloat) * scale).to(dtype);
  };
  const auto wide = [](const at::Tensor& t) { return t.to(at::kFloat); };
  for (int64_t dim : {1536, 4096, 128, 8200}) {
    const at::Tensor x = random({333, dim}), w = random({dim}), dy = random({333, dim});
    const auto want = policy::rows::RmsNorm(wide(x), wide(w), 0, 1e-6);
    const auto got = policy::rows::RmsNorm(x.to(device), w.to(device), 0, 1e-6);
    PrintCheck("rms_norm " + std::to_string(dim), RelativeError(got.y, want.y), 6e-3);
    const auto dwant = policy::rows::RmsNormBackward(wide(x), wide(w), want.inverse, wide(dy), 0, true);
    const auto dgot = policy::rows::RmsNormBackward(x.to(device), w.to(device), got.inverse, dy.to(device), 0, true);
    PrintCheck("rms_norm dx " + std::to_string(dim), RelativeError(dgot.dx, dwant.dx), 6e-3);
    PrintCheck("rms_norm dw " + std::to_string(dim), RelativeError(dgot.dweight, dwant.dweight), 1e-4);
  }
  for (int64_t dim : {64, 128, 256}) {
    const policy::AttentionShape shape{6, 2, dim, 1, 0};
    const at::Tensor qkv = random({77, 10 * dim}), dy = random({77, 10 * dim}), wq = random({dim}), wk = random({dim});
    const at::Tensor angles = at::rand({77, dim / 2}) * 6.28, cos = angles.cos(), sin = angles.sin();
    for (bool normed : {false, true}) {
      const auto norms = [&](auto&& move) {
        return normed ? policy::rows::HeadNorms{move(wq), move(wk), 0, 1e-6} : policy::rows::HeadNorms{};
      };
      const auto there = [&](const at::Tensor& t) { return t.to(device); };
      const std::string name = "norm_rotate " + std::to_string(dim) + (normed ? " normed" : "");
      PrintCheck(name,
                 RelativeError(policy::rows::NormRotate(there(qkv), norms(there), there(cos), there(sin), shape),
                               policy::rows::NormRotate(wide(qkv), norms(wide), cos, sin, shape)),
                 8e-3);
      const auto got =
          policy::rows::NormRotateBackward(there(qkv), norms(there), there(cos), there(sin), there(dy), shape);
      const auto want = policy::rows::NormRotateBackward(wide(qkv), norms(wide), cos, sin, wide(dy), shape);
      PrintCheck(name + " dqkv", RelativeError(got.dqkv, want.dqkv), 8e-3);
      if (normed)
        PrintCheck(
            name + " dnorms",
            RelativeError(at::cat({got.dquery_norm, got.dkey_norm}), at::cat({want.dquery_norm, want.dkey_norm})),
            8e-3);
    }
  }
  for (auto activation : {policy::GateActivation::kSilu, policy::GateActivation::kGeluTanh}) {
    const at::Tensor x = random({55, 2 * 8960}), dy = random({55, 8960});
    PrintCheck("gated",
               RelativeError(policy::rows::Gated(x.to(device), activation), policy::rows::Gated(wide(x), activation)),
               6e-3);
    const auto got = policy::rows::GatedBackward(x.to(device), dy.to(device), activation),
               want = policy::rows::GatedBackward(wide(x), wide(dy), activation);
    PrintCheck("gated backward", RelativeError(got.dgate_up, want.dgate_up), 6e-3);
    PrintCheck("gated again", RelativeError(got.y, want.y), 6e-3);
  }
  const at::Tensor logits = at::randn({65, 151936}) * 3, targets = at::randint(0, 151936, {65}, at::kLong),
                   dl = at::randn({65}), de = at::randn({65});
  const auto want = policy::rows::LogProbs(logits.to(at::kDouble), targets, 0.7);
  const auto got = policy::rows::LogProbs(logits.to(device), targets.to(device), 0.7);
  PrintCheck("log_probs", RelativeError(got.log_probs, want.log_probs), 1e-5);
  PrintCheck("entropy", RelativeError(got.entropy, want.entropy), 1e-4);
  PrintCheck("dlogits",
             RelativeError(policy::rows::LogProbsBackward(logits.to(device), targets.to(device), got, dl.to(device),
                                                          de.to(device), 0.7, dtype),
                           policy::rows::LogProbsBackward(logits.to(at::kDouble), targets, want, dl.to(at::kDouble),
                                                          de.to(at::kDouble), 0.7, at::kDouble)),
             6e-3);
  const at::Tensor a = random({700, 96}), b = random({700, 72}), start = at::randn({96, 72});
  at::Tensor sum = start.clone().to(device);
  policy::rows::AddProduct(sum, a.to(device).t(), b.to(device));
  PrintCheck("add_product", RelativeError(sum, start + at::mm(wide(a).t(), wide(b))), 1e-5);
  CheckAdamW(device, dtype);
}

struct Gradients {
  double loss;
  std::vector<std::pair<std::string, at::Tensor>> by_name;
};

Gradients GradientsOf(Decoder& decoder, const std::vector<trainer::TrainSequence>& sequences) {
  trainer::SftOptions options;
  options.learner.schedule.peak = 0;
  options.learner.clip_norm = 0;
  options.learner.micro_batch_tokens = 300;
  auto sft = trainer::SftTrainer::Create(options, decoder).value();
  const double loss = sft->Step(sequences).value().at("loss");
  Gradients out{loss, {}};
  for (const policy::Leaf& leaf : decoder.TrainedLeaves())
    out.by_name.emplace_back(leaf.name, leaf.value.grad().to(at::kCPU).to(at::kFloat).clone());
  return out;
}

void CheckModels(const at::Device& device) {
  ModelConfig qwen2 = Shape(1000, 256, 512, 3, 4, 2, 64);
  qwen2.attention_bias = true;
  ModelConfig qwen3 = Shape(1000, 256, 512, 3, 4, 2, 64);
  qwen3.query_key_norm = true;
  qwen3.tie_word_embeddings = false;
  ModelConfig gemma = Shape(1000, 256, 512, 3, 4, 1, 64);
  gemma.query_key_norm = gemma.norm_adds_one = gemma.norm_after_blocks = true;
  gemma.activation = policy::GateActivation::kGeluTanh;
  gemma.embedding_scale = 16;
  gemma.layer_is_local = {true, true, false};
  gemma.sliding_window = 20;
  for (auto& [name, config] :
       std::vector<std::pair<std::string, ModelConfig>>{{"qwen2", qwen2}, {"qwen3", qwen3}, {"gemma", gemma}}) {
    config.initializer_range = 0.08;
    auto plain = Decoder::Create(config).value();
    plain->parameters().Initialize(3);
    {
      at::NoGradGuard no_grad;
      at::Tensor flat = plain->parameters().flat();
      flat.copy_(flat.to(at::kBFloat16));  // both start from the same numbers
    }
    std::vector<trainer::TrainSequence> sequences = Sequences(3, 120, 1000);
    for (auto& more : Sequences(2, 37, 1000)) sequences.push_back(more);
    for (bool with_lora : {false, true}) {
      std::vector<std::unique_ptr<policy::Lora>> loras;
      const auto wear = [&](Decoder& decoder) {
        if (!with_lora) return;
        for (const policy::Leaf& leaf : decoder.parameters().leaves()) {
          at::Tensor value = leaf.value;
          value.set_requires_grad(false);
        }
        const auto options = decoder.parameters().flat().options();
        loras.push_back(policy::Lora::Create(config, {}, options, 5).value());
        at::NoGradGuard no_grad;
        for (const policy::NamedTensor& named : loras.back()->named()) {
          at::Tensor tensor = named.tensor;
          if (named.name.find("lora_B") != std::string::npos)
            tensor.copy_(at::linspace(-0.05, 0.05, tensor.numel()).view(tensor.sizes()).to(at::kBFloat16));
          if (named.name.find("lora_A") != std::string::npos) tensor.copy_(tensor.to(at::kBFloat16).clone());
        }
        decoder.UseLora(loras.back().get());
      };
      wear(*plain);
      const Gradients want = GradientsOf(*plain, sequences);
      for (bool checkpoint : {false, true}) {
        auto half =
            Decoder::Create(config, {.device = device, .dtype = at::kBFloat16, .checkpoint_activations = checkpoint})
                .value();
        at::Tensor flat = half->parameters().flat();
        flat.copy_(plain->parameters().flat());
        wear(*half);
        const std::string label = name + (with_lora ? " lora" : "") + (checkpoint ? " checkpointed" : "");
        const Gradients got = GradientsOf(*half, sequences);
        PrintCheck(label + " loss", std::abs(got.loss - want.loss) / want.loss, 2e-3);
        double worst = 0;
        std::string where;
        for (size_t i = 0; i < want.by_name.size(); ++i) {
          const double error = RelativeError(got.by_name[i].second, want.by_name[i].second);
          if (error > worst) worst = error, where = want.by_name[i].first;
        }
        PrintCheck(label + " worst gradient (" + where + ")", worst, 5e-2);
        at::NoGradGuard no_grad;
        const auto a = trainer::ScoreSequences(*half, sequences, 1, 10000).value(),
                   b = trainer::ScoreSequences(*half, sequences, 1, 130).value();
        const auto c = trainer::ScoreSequences(*plain, sequences, 1, 10000).value();
        double cut = 0, gap = 0, count = 0;
        for (size_t i = 0; i < a.size(); ++i) {
          for (size_t t = 0; t < a[i].size(); ++t) {
            cut = std::max<double>(cut, std::abs(a[i][t] - b[i][t]));
            gap += std::abs(a[i][t] - c[i][t]);
            ++count;
          }
        }
        PrintCheck(label + " largest log-prob change by micro-batching", cut, 0.05);
        PrintCheck(label + " mean log-prob gap to fp32", gap / count, 0.02);
      }
    }
  }
}

// --- speed

void Full(const at::Device& device, bool checkpoint, bool offload = false) {
  const ModelConfig config = Qwen1_5B();
  auto decoder = RandomDecoder(config, device, checkpoint);
  trainer::SftOptions options;
  options.learner.micro_batch_tokens = 1 << 20;
  options.learner.schedule.peak = 1e-5;
  options.learner.adamw.offload = offload;
  auto sft = trainer::SftTrainer::Create(options, *decoder).value();
  const auto sequences = Sequences(4, 4096, config.vocab_size);
  policy::ResetPeakMemory(device);
  std::vector<double> losses;
  const double median =
      MedianSeconds(device, 2, offload ? 3 : 7, [&] { losses.push_back(sft->Step(sequences).value().at("loss")); });
  std::printf("{\"losses\": [%.6f, %.6f, %.6f, %.6f, %.6f]}\n", losses[0], losses[1], losses[2], losses[3], losses[4]);
  Print(offload      ? "qwen1_5b full, optimiser on the host"
        : checkpoint ? "qwen1_5b full, checkpointed"
                     : "qwen1_5b full",
        4 * 4096, median, FlopsPerToken(*decoder, 4096, trainer::TrainPasses(*decoder)), device);
}

// Where a step's time goes: waits at the border of each phase, so that the sum is a little more than a step.
void FullPhases(const at::Device& device) {
  auto decoder = RandomDecoder(Qwen1_5B(), device, false);
  auto last = std::chrono::steady_clock::now();
  int phase = -1;
  std::map<int, double> seconds;
  const auto mark = [&](int next) {
    policy::Synchronize(device);
    const auto now = std::chrono::steady_clock::now();
    if (phase >= 0) seconds[phase] += std::chrono::duration<double>(now - last).count();
    last = now;
    phase = next;
  };
  trainer::SftOptions options;
  options.learner.micro_batch_tokens = 1 << 20;
  options.learner.schedule.peak = 1e-5;
  options.learner.on_phase = [&](trainer::StepPhase next) { mark(static_cast<int>(next)); };
  auto sft = trainer::SftTrainer::Create(options, *decoder).value();
  const auto sequences = Sequences(4, 4096, decoder->config().vocab_size);
  sft->Step(sequences).value();
  mark(-1);
  seconds.clear();
  for (int i = 0; i < 5; ++i) {
    sft->Step(sequences).value();
    mark(-1);
  }
  std::printf(
      "{\"phases\": \"qwen1_5b full\", \"forward_s\": %.4f, \"backward_and_norm_s\": %.4f, \"optimizer_s\": %.4f}\n",
      seconds[1] / 5, seconds[2] / 5, seconds[3] / 5);
  std::fflush(stdout);
}

// Each operator of the 1.5B model's layer alone, forward and with its backward pass.
void Operators(const at::Device& device) {
  const int64_t tokens = 16384, length = 4096;
  const auto bf16 = at::TensorOptions(device).dtype(at::kBFloat16);
  const auto time = [&](const char* name, const std::function<at::Tensor()>& forward) {
    double seconds[2];
    {
      at::NoGradGuard no_grad;
      seconds[0] = MedianSeconds(device, 2, 5, [&] { forward(); });
    }
    const at::Tensor gradient = at::randn_like(forward());
    seconds[1] = MedianSeconds(device, 2, 5, [&] { forward().backward(gradient); });
    std::printf("{\"operator\": \"%s\", \"forward_ms\": %.3f, \"backward_ms\": %.3f}\n", name, seconds[0] * 1e3,
                (seconds[1] - seconds[0]) * 1e3);
    std::fflush(stdout);
  };
  const auto weight = [&](at::IntArrayRef sizes) {
    at::Tensor w = at::randn(sizes, bf16).mul_(0.02).requires_grad_();
    w.mutable_grad() = at::zeros(sizes, bf16.dtype(at::kFloat));
    return w;
  };
  const auto leaf = [&](int64_t width) { return at::randn({tokens, width}, bf16).requires_grad_(); };
  const at::Tensor norm = weight({1536});
  policy::Prologue normed{policy::Prologue::Kind::kRmsNorm, norm, 0, 1e-6};
  policy::Prologue gated;
  gated.kind = policy::Prologue::Kind::kGated;
  {
    const at::Tensor x = leaf(1536), wqkv = weight({2048, 1536}), bias = weight({2048}), wo = weight({1536, 1536}),
                     wg = weight({17920, 1536}), wd = weight({1536, 8960});
    const at::Tensor gate_up = leaf(17920), qkv = leaf(2048);
    time("rms_norm", [&] { return policy::NormRows(x, norm, 0, 1e-6); });
    time("norm + qkv", [&] { return policy::Project(x, normed, wqkv, bias, nullptr); });
    time("output", [&] { return policy::Project(x, {}, wo, {}, nullptr); });
    time("norm + gate_up", [&] { return policy::Project(x, normed, wg, {}, nullptr); });
    time("gate + down", [&] { return policy::Project(gate_up, gated, wd, {}, nullptr); });
    const policy::AttentionShape shape{12, 2, 128, 1 / std::sqrt(128.0), 0};
    const at::Tensor angles = at::rand({tokens, 64}, bf16.dtype(at::kFloat));
    time("rotation", [&] { return policy::NormRotate(qkv, {}, angles.cos(), angles.sin(), shape); });
    const at::Tensor offsets = at::arange(0, tokens + 1, length, at::kInt).to(device);
    time("flash attention", [&] { return policy::FlashAttention(qkv, offsets, length, shape); });
    try {
      at::NoGradGuard no_grad;
      PrintCheck("dense attention",
                 RelativeError(policy::DenseAttention(qkv, length, shape),
                               policy::FlashAttention(qkv, offsets, length, shape)),
                 6e-3);
      at::AutoGradMode with(true);
      std::vector<at::Tensor> gradients;
      const at::Tensor pull = at::randn({tokens, 1536}, bf16);
      for (bool dense : {true, false}) {
        at::Tensor input = qkv.detach().clone().requires_grad_();
        (dense ? policy::DenseAttention(input, length, shape) : policy::FlashAttention(input, offsets, length, shape))
            .backward(pull);
        gradients.push_back(input.grad());
      }
      PrintCheck("dense attention gradient", RelativeError(gradients[0], gradients[1]), 1e-2);
      time("dense attention", [&] { return policy::DenseAttention(qkv, length, shape); });
    } catch (const std::exception& error) {
      std::printf("{\"failed\": \"dense attention\", \"why\": \"%.200s\"}\n", error.what());
    }
  }
  const at::Tensor table = weight({151936, 1536}), hidden = leaf(1536),
                   ids = at::randint(0, 151936, {tokens}, at::kLong).to(device);
  time("embedding", [&] { return policy::Embed(table, ids); });
  for (int bits : {26, 28, 29}) {
    time(("log-probs, chunks of 2^" + std::to_string(bits)).c_str(),
         [&] { return policy::ChunkedLogProbs(hidden, table, ids, 1.0, int64_t{1} << bits).log_probs; });
  }
  const at::Tensor flat = at::zeros({1543714304}, bf16.dtype(at::kFloat));
  std::printf("{\"operator\": \"gradient norm\", \"forward_ms\": %.3f}\n",
              1e3 * MedianSeconds(device, 1, 5, [&] { at::linalg_vector_norm(flat, 2).item<float>(); }));
}

void Score(const at::Device& device) {
  const ModelConfig config = Qwen8B();
  auto decoder = RandomDecoder(config, device, false);
  const auto sequences = Sequences(4, 4096, config.vocab_size);
  policy::ResetPeakMemory(device);
  const double median =
      MedianSeconds(device, 2, 7, [&] { trainer::ScoreSequences(*decoder, sequences, 1, 1 << 20).value(); });
  Print("qwen8b score", 4 * 4096, median, FlopsPerToken(*decoder, 4096, 1), device);
}

void LoraSft(const at::Device& device, int64_t sequences_per_micro_batch) {
  const ModelConfig config = Qwen8B();
  auto decoder = RandomDecoder(config, device, false);
  for (const policy::Leaf& leaf : decoder->parameters().leaves()) {
    at::Tensor value = leaf.value;
    value.set_requires_grad(false);
  }
  const auto lora = policy::Lora::Create(config, {}, decoder->parameters().flat().options(), 1).value();
  decoder->UseLora(lora.get());
  trainer::SftOptions options;
  options.learner.micro_batch_tokens = sequences_per_micro_batch * 2050;
  options.learner.schedule.peak = 1e-4;
  auto sft = trainer::SftTrainer::Create(options, *decoder).value();
  const auto sequences = Sequences(8, 2048, config.vocab_size);
  policy::ResetPeakMemory(device);
  const double median = MedianSeconds(device, 2, 5, [&] { sft->Step(sequences).value(); });
  Print(("qwen8b lora, " + std::to_string(sequences_per_micro_batch) + " x 2048 a micro-batch").c_str(), 8 * 2048,
        median, FlopsPerToken(*decoder, 2048, trainer::TrainPasses(*decoder)), device);
}

// --- prompts that samples share

// `groups` prompts of `prompt` tokens with 8 answers of 230 to 430 tokens each.
std::vector<trainer::TrainSequence> GroupsOfEight(int64_t groups, int64_t prompt, int64_t vocab) {
  std::vector<trainer::TrainSequence> out;
  std::mt19937 random(3);
  const auto ids = [&](int64_t count) {
    std::vector<int32_t> made(count);
    for (int32_t& id : made) id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab));
    return made;
  };
  for (int64_t g = 0; g < groups; ++g) {
    const std::vector<int32_t> shared = ids(prompt + static_cast<int64_t>(random() % 100) - 50);
    for (int64_t i = 0; i < 8; ++i) {
      out.push_back(trainer::PromptAndResponse(shared, ids(230 + static_cast<int64_t>(random() % 201))));
      out.back().rollout_log_probs.assign(out.back().ids.size(),
                                          static_cast<float>(-std::log(static_cast<double>(vocab))));
      out.back().advantage = static_cast<double>(i) - 3.5;
    }
  }
  return out;
}

// A decoder of random weights with an adapter, whose B is not 0 as at the start, so that all of it has gradients.
struct Adapted {
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<policy::Lora> lora;
};

Adapted MakeAdapted(const ModelConfig& config, const at::Device& device, at::ScalarType dtype) {
  Adapted made{Decoder::Create(config, {.device = device, .dtype = dtype}).value(), nullptr};
  FillRandom(*made.decoder);
  for (const policy::Leaf& leaf : made.decoder->parameters().leaves()) {
    at::Tensor value = leaf.value;
    value.set_requires_grad(false);
  }
  made.lora = policy::Lora::Create(config, {}, made.decoder->parameters().flat().options(), 1).value();
  at::NoGradGuard no_grad;
  for (const policy::NamedTensor& named : made.lora->named()) {
    at::Tensor tensor = named.tensor;
    if (named.name.find("lora_B") != std::string::npos)
      tensor.copy_(at::linspace(-0.01, 0.01, tensor.numel(), at::kFloat).view(tensor.sizes()));
  }
  made.decoder->UseLora(made.lora.get());
  return made;
}

std::unique_ptr<trainer::RlTrainer> PrefixTrainer(Decoder& decoder, bool share) {
  trainer::RlOptions options;
  options.learner.schedule.peak = 0;
  options.learner.clip_norm = 0;
  options.learner.micro_batch_tokens = 16384;
  options.learner.share_prefixes = share;
  auto made = trainer::RlTrainer::Create(options, decoder).value();
  if (share) std::printf("{\"sharing\": \"%s\"}\n", made->prefix_sharing().ToString().c_str());
  return made;
}

// The last step's gradients; in fp16 without the scale that losses have there.
at::Tensor GradientsOf(trainer::RlTrainer& rl, const trainer::StepMetrics& step) {
  const at::Tensor gradients = rl.learner().optimizer().gradients().to(at::kCPU).to(at::kFloat);
  return gradients * (step.at("gradient_norm") / gradients.norm().item<double>());
}

struct Learned {
  at::Tensor gradients;
  std::vector<std::vector<float>> scores;
};

Learned LearnOnce(Decoder& decoder, bool share, const std::vector<trainer::TrainSequence>& sequences) {
  const auto rl = PrefixTrainer(decoder, share);
  return {GradientsOf(*rl, rl->Step(sequences).value()),
          trainer::ScoreSequences(decoder, sequences, 1, 16384, nullptr, share).value()};
}

struct ScoreGap {
  double mean = 0, largest = 0;
};

ScoreGap GapOf(const std::vector<trainer::TrainSequence>& sequences, const std::vector<std::vector<float>>& a,
               const std::vector<std::vector<float>>& b) {
  ScoreGap gap;
  double count = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    for (size_t t = 0; t < sequences[i].ids.size(); ++t) {
      if (sequences[i].loss_mask[t] == 0) continue;
      const double distance = std::abs(a[i][t] - b[i][t]);
      gap.mean += distance, gap.largest = std::max(gap.largest, distance), count += 1;
    }
  }
  gap.mean /= count;
  return gap;
}

// How far learning with and without shared prompts is from fp32 on the CPU: sharing must not be the further one.
void CheckPrefix(const at::Device& device) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    const absl::Status status = policy::TestPrefixAttention({12, 2, 128, 1 / std::sqrt(128.0), 0}, device, dtype);
    std::printf("{\"self_test\": \"%s\", \"status\": \"%s\"}\n", NameOf(dtype), status.ToString().c_str());
  }
  ModelConfig config = Shape(1000, 256, 512, 3, 4, 2, 64);
  config.family = "qwen2";
  config.attention_bias = true;
  const auto sequences = GroupsOfEight(2, 90, 1000);
  const Adapted exact = MakeAdapted(config, at::kCPU, at::kFloat);
  const Learned want = LearnOnce(*exact.decoder, false, sequences);
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    const Adapted half = MakeAdapted(config, device, dtype);
    {
      at::NoGradGuard no_grad;  // the same weights
      at::Tensor flat = half.decoder->parameters().flat();
      flat.copy_(exact.decoder->parameters().flat());
      for (size_t i = 0; i < half.lora->named().size(); ++i) {
        at::Tensor to = half.lora->named()[i].tensor;
        to.copy_(exact.lora->named()[i].tensor);
      }
    }
    const Learned apart = LearnOnce(*half.decoder, false, sequences),
                  shared = LearnOnce(*half.decoder, true, sequences);
    const auto check = [&](const std::string& what, double without, double with) {
      PrintCheck("prefix " + what + ", " + NameOf(dtype) + " apart, to fp32", without, 6e-2);
      PrintCheck("prefix " + what + ", " + NameOf(dtype) + " shared, to fp32", with, 1.3 * without);
    };
    check("gradient", RelativeError(apart.gradients, want.gradients), RelativeError(shared.gradients, want.gradients));
    check("mean log-prob gap", GapOf(sequences, apart.scores, want.scores).mean,
          GapOf(sequences, shared.scores, want.scores).mean);
  }
}

// The 1.5B model with an adapter on 8 groups of 8: gradients and log-probs with shared prompts against those without,
// and the time of both.
void Prefix(const at::Device& device, const std::vector<at::ScalarType>& dtypes) {
  const ModelConfig config = Qwen1_5B();
  const auto sequences = GroupsOfEight(8, 1100, config.vocab_size);
  int64_t tokens = 0;
  for (const auto& s : sequences) tokens += s.length();
  std::vector<at::Tensor> apart;
  for (const at::ScalarType dtype : dtypes) {
    const Adapted model = MakeAdapted(config, device, dtype);
    at::Tensor gradients[2];
    std::vector<std::vector<float>> scores[2];
    for (const bool share : {true, false}) {
      const std::string name = std::string("qwen1_5b lora prefix, ") + NameOf(dtype) + (share ? ", shared" : ", apart");
      const auto rl = PrefixTrainer(*model.decoder, share);
      policy::ResetPeakMemory(device);
      rl->Step({sequences.begin(), sequences.begin() + 24}).value();
      trainer::StepMetrics metrics;
      const double step = MedianSeconds(device, 0, 1, [&] { metrics = rl->Step(sequences).value(); });
      gradients[share] = GradientsOf(*rl, metrics);
      // Tokens learned from; FLOP of what is computed.
      Print(name.c_str(), static_cast<double>(tokens), step,
            metrics.at("tflops") * 1e12 * step / static_cast<double>(tokens), device);
      const double scoring = MedianSeconds(device, 0, 1, [&] {
        scores[share] = trainer::ScoreSequences(*model.decoder, sequences, 1, 16384, nullptr, share).value();
      });
      std::printf("{\"scoring\": \"%s\", \"seconds\": %.4f}\n", name.c_str(), scoring);
      std::fflush(stdout);
    }
    const ScoreGap gap = GapOf(sequences, scores[0], scores[1]);
    const std::string name = std::string(", ") + NameOf(dtype) + ", shared to apart";
    PrintCheck("prefix mean log-prob gap" + name, gap.mean, dtype == at::kHalf ? 6e-3 : 5e-2);
    PrintCheck("prefix largest log-prob gap" + name, gap.largest, dtype == at::kHalf ? 5e-2 : 0.4);
    PrintCheck("prefix gradient" + name, RelativeError(gradients[1], gradients[0]), dtype == at::kHalf ? 6e-2 : 0.2);
    apart.push_back(gradients[0]);
  }
  if (apart.size() > 1)
    PrintCheck("prefix gradient, apart, bf16 to fp16: what rounding does", RelativeError(apart[1], apart[0]), 0.3);
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  const std::string device_name = argc > 1 ? argv[1] : "cuda";
  const auto device = hone::policy::FindDevice(device_name);
  if (!device.ok()) {
    std::fprintf(stderr, "learner_bench: %s\n", std::string(device.status().message()).c_str());
    return 2;
  }
  std::set<std::string> wanted(argv + std::min(argc, 2), argv + argc);
  const auto run = [&](const char* name, auto&& body) {
    if (!wanted.empty() && wanted.count(name) == 0) return;
    try {
      body();
    } catch (const std::exception& error) {
      std::printf("{\"failed\": \"%s\", \"why\": \"%.300s\"}\n", name, error.what());
      std::fflush(stdout);
    }
  };
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) run("rows", [&] { hone::CheckRows(*device, dtype); });
  run("check", [&] { hone::CheckModels(*device); });
  run("ops", [&] { hone::Operators(*device); });
  run("full", [&] { hone::Full(*device, false); });
  run("phases", [&] { hone::FullPhases(*device); });
  run("full_checkpointed", [&] { hone::Full(*device, true); });
  run("full_offload", [&] { hone::Full(*device, false, true); });
  run("score", [&] { hone::Score(*device); });
  run("lora", [&] { hone::LoraSft(*device, 4); });
  run("lora", [&] { hone::LoraSft(*device, 8); });
  run("prefix_check", [&] { hone::CheckPrefix(*device); });
  run("prefix", [&] { hone::Prefix(*device, {at::kHalf, at::kBFloat16}); });
  if (wanted.count("prefix_fp16") > 0) run("prefix_fp16", [&] { hone::Prefix(*device, {at::kHalf}); });
  return 0;
}
