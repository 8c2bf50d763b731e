// Generation speed of the in-process engine with random weights of a published model's shape.
//
//   engine_bench --shape qwen1_5b --device cuda [--record FILE --commit HASH] [--only b1,b64]
//   engine_bench --first-token FOLDER      seconds from the program's start to the first token of a model folder
//
// Every scenario is one line of JSON on stdout. Tokens per second count generated tokens over the whole time, prompts
// included; decode_tok_s leaves the reading of the prompts out.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/results.h"
#include "base/subprocess.h"
#include "cmake/torch_pch.h"
#include "policy/model/decoder.h"
#include "policy/model/device.h"
#include "policy/model/hf_folder.h"
#include "policy/model/threads.h"
#include "rollout/engine/native_engine.h"

namespace hone {
namespace {

using Clock = std::chrono::steady_clock;
double Seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

policy::ModelConfig Qwen2_1_5b() {
  policy::ModelConfig c;
  c.family = "qwen2";
  c.vocab_size = 151936;
  c.hidden_size = 1536;
  c.intermediate_size = 8960;
  c.num_hidden_layers = 28;
  c.num_attention_heads = 12;
  c.num_key_value_heads = 2;
  c.head_dim = 128;
  c.max_position_embeddings = 32768;
  c.attention_bias = true;
  c.rope.theta = 1e6;
  return c;
}

policy::ModelConfig Qwen3_8b() {
  policy::ModelConfig c;
  c.family = "qwen3";
  c.vocab_size = 151936;
  c.hidden_size = 4096;
  c.intermediate_size = 12288;
  c.num_hidden_layers = 36;
  c.num_attention_heads = 32;
  c.num_key_value_heads = 8;
  c.head_dim = 128;
  c.max_position_embeddings = 40960;
  c.tie_word_embeddings = false;
  c.query_key_norm = true;
  c.rope.theta = 1e6;
  return c;
}

// Random weights on the device itself: the values matter to nobody, only that they are finite and differ.
void Fill(policy::Parameters& parameters) {
  at::NoGradGuard no_grad;
  for (const policy::NamedTensor& named : parameters.named()) {
    at::Tensor tensor = named.tensor;
    if (absl::EndsWith(named.name, "norm.weight")) {
      tensor.fill_(1.0);
    } else {
      tensor.normal_(0, 0.02);
    }
  }
}

struct Arguments {
  std::string shape = "qwen1_5b";
  std::string device = "cuda";
  std::string only;
  std::string first_token;
  int64_t cache_gb = 0;  // 0: 40 on a GPU, 1 on the CPU
  int64_t threads = 0;
  bool deterministic = false;
  std::string record;   // file
  std::string machine = "NVIDIA H200";
  std::string commit = "unknown";
  std::vector<std::string> peers;  // "b1=3.6": tokens a second of another engine in the same scenario
};

class Bench {
 public:
  Bench(const Arguments& arguments, policy::Decoder& decoder) : arguments_(arguments), decoder_(decoder) {}

  bool Wanted(const std::string& name) const {
    if (arguments_.only.empty()) return true;
    for (absl::string_view word : absl::StrSplit(arguments_.only, ',')) {
      if (name == word) return true;
    }
    return false;
  }

  std::unique_ptr<rollout::NativeEngine> Engine(int64_t rows) {
    rollout::NativeEngineOptions options;
    options.max_running = rows;
    options.prefill_tokens = decoder_.parameters().flat().is_cuda() ? 8192 : 2048;
    const bool cpu = decoder_.parameters().flat().is_cpu();
    options.cache_bytes = (arguments_.cache_gb > 0 ? arguments_.cache_gb : cpu ? 1 : 40) << 30;
    options.deterministic = arguments_.deterministic;
    auto engine = rollout::NativeEngine::Create(options, decoder_);
    if (!engine.ok()) {
      std::fprintf(stderr, "%s\n", std::string(engine.status().message()).c_str());
      std::exit(1);
    }
    return std::move(*engine);
  }

  std::vector<rollout::GenerationRequest> Requests(int64_t prompts, int64_t samples, int64_t prompt, int64_t tokens) const {
    std::vector<rollout::GenerationRequest> requests;
    for (int64_t i = 0; i < prompts; ++i) {
      rollout::GenerationRequest request;
      for (int64_t t = 0; t < prompt; ++t) request.prompt_ids.push_back(static_cast<int32_t>((7919 * t + 104729 * i + 13) % decoder_.config().vocab_size));
      request.samples = samples;
      request.seed = 1000 + i;
      request.sampling.max_tokens = tokens;
      requests.push_back(std::move(request));
    }
    return requests;
  }

  // Returns seconds of the whole and of the part after the last prompt has been read.
  std::pair<double, double> Time(rollout::NativeEngine& engine, const std::vector<rollout::GenerationRequest>& requests) {
    Clock::time_point read = Clock::now();
    size_t first_tokens = 0;
    rollout::GenerateOptions options;
    options.stop = [&](size_t, size_t, const rollout::Sample& so_far) {
      if (so_far.ids.size() == 1) {
        ++first_tokens;
        read = Clock::now();
      }
      return false;
    };
    engine.scheduler().DropPrefixes();  // every prompt is read anew
    const Clock::time_point start = Clock::now();
    const auto results = engine.Generate(requests, options);
    const double all = Seconds(start), decode = Seconds(read);
    if (!results.ok()) {
      std::fprintf(stderr, "%s\n", std::string(results.status().message()).c_str());
      std::exit(1);
    }
    return {all, decode};
  }

  void Throughput(const std::string& name, int64_t prompts, int64_t samples, int64_t prompt, int64_t tokens) {
    if (!Wanted(name)) return;
    const auto engine = Engine(prompts * samples);
    const auto requests = Requests(prompts, samples, prompt, tokens);
    Time(*engine, requests);  // records the graphs
    const auto [all, decode] = Time(*engine, requests);
    const double total = static_cast<double>(prompts * samples * tokens);
    std::printf("{\"shape\": \"%s\", \"name\": \"%s\", \"prompts\": %ld, \"samples\": %ld, \"prompt\": %ld, \"tokens\": %ld, "
                "\"tok_s\": %.1f, \"decode_tok_s\": %.1f, \"step_ms\": %.4f, \"prefill_tok_s\": %.0f}\n",
                arguments_.shape.c_str(), name.c_str(), prompts, samples, prompt, tokens, total / all,
                static_cast<double>(prompts * samples * (tokens - 1)) / decode, 1e3 * decode / static_cast<double>(tokens - 1),
                static_cast<double>(prompts * prompt) / (all - decode));
    std::fflush(stdout);
    Keep(absl::StrCat(name, name == "b256" ? "_n256" : "", "_tok_s"), total / all, "tok/s");
    for (const std::string& peer : arguments_.peers) {
      const std::pair<std::string, std::string> parts = absl::StrSplit(peer, absl::MaxSplits('=', 1));
      double tok_s = 0;
      if (parts.first != name || !absl::SimpleAtod(parts.second, &tok_s) || tok_s <= 0) continue;
      std::printf("{\"name\": \"%s\", \"peer_tok_s\": %.2f, \"ratio\": %.3f}\n", name.c_str(), tok_s, total / all / tok_s);
      Keep(absl::StrCat(name, "_ratio"), total / all / tok_s, "x");
    }
    Keep(absl::StrCat(name, name == "b256" ? "_n256" : "", "_decode_tok_s"), static_cast<double>(prompts * samples * (tokens - 1)) / decode, "tok/s");
  }

  void GroupPrefill() {
    if (!Wanted("group")) return;
    const auto engine = Engine(8);
    const auto best = [&](int64_t samples) {
      double seconds = 1e9;
      for (int i = 0; i < 6; ++i) seconds = std::min(seconds, Time(*engine, Requests(1, samples, 4096, 1)).first);
      return seconds;
    };
    const double one = best(1), eight = best(8);
    std::printf("{\"shape\": \"%s\", \"name\": \"group_prefill\", \"one_s\": %.5f, \"eight_s\": %.5f, \"ratio\": %.3f, \"prefill_tok_s\": %.0f}\n",
                arguments_.shape.c_str(), one, eight, eight / one, 4096 / one);
    std::fflush(stdout);
    if (arguments_.shape == "qwen1_5b") Add("engine.group_prefill_ratio", eight / one, "x");
  }

  // How far the log-probs that the engine returns are from those of the learner's forward pass over the same tokens, after the
  // same 16 random ones; engine_hf.py measures how far transformers is from itself.
  void LogProbGap() {
    if (!Wanted("gap")) return;
    const auto engine = Engine(8);
    const auto requests = Requests(8, 1, 16, 284);
    const auto results = engine->Generate(requests, {}).value();
    at::NoGradGuard no_grad;
    double sum = 0, worst = 0;
    int64_t count = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      const rollout::Sample& sample = results[i][0];
      std::vector<int64_t> ids(requests[i].prompt_ids.begin(), requests[i].prompt_ids.end());
      const int64_t prompt = static_cast<int64_t>(ids.size()), tokens = static_cast<int64_t>(sample.ids.size());
      ids.insert(ids.end(), sample.ids.begin(), sample.ids.end());
      policy::PackedSequences attention(at::tensor({int64_t{0}, prompt + tokens}, at::kLong));
      const at::Tensor hidden = decoder_.Hidden(at::tensor(ids, at::kLong), at::arange(prompt + tokens, at::kLong), attention).value();
      const at::Tensor targets = at::tensor(std::vector<int64_t>(sample.ids.begin(), sample.ids.end()), at::kLong);
      const at::Tensor learned = decoder_.TargetLogProbs(hidden.narrow(0, prompt - 1, tokens), targets, 1.0).value().log_probs.to(at::kDouble).cpu();
      for (int64_t t = 0; t < tokens; ++t) {
        const double apart = std::abs(learned[t].item<double>() - sample.log_probs[t]);
        sum += apart;
        worst = std::max(worst, apart);
        ++count;
      }
    }
    std::printf("{\"shape\": \"%s\", \"name\": \"log_prob_gap\", \"mean\": %.3e, \"worst\": %.3e, \"tokens\": %ld}\n", arguments_.shape.c_str(),
                sum / static_cast<double>(count), worst, count);
    std::fflush(stdout);
    Keep("log_prob_gap", sum / static_cast<double>(count), "nats");
  }

  // New weights in the middle of a generation: how long it takes, and that every sample goes on to its end.
  void WeightUpdate() {
    if (!Wanted("update")) return;
    const auto engine = Engine(16);
    const at::Tensor weights = decoder_.parameters().flat().clone();
    double worst = 0;
    int64_t version = 0;
    rollout::GenerateOptions options;
    int64_t tokens = 0;
    options.stop = [&](size_t, size_t, const rollout::Sample&) {
      if (++tokens % 200 != 0) return false;
      const Clock::time_point start = Clock::now();
      if (!engine->UpdateWeights(weights, ++version).ok()) std::exit(1);
      worst = std::max(worst, Seconds(start));
      return false;
    };
    const auto results = engine->Generate(Requests(16, 1, 128, 64), options).value();
    size_t lost = 0, spans = 0;
    for (const auto& request : results) {
      lost += request[0].ids.size() != 64;
      spans = std::max(spans, request[0].versions.size());
    }
    std::printf("{\"shape\": \"%s\", \"name\": \"weight_update\", \"updates\": %ld, \"worst_ms\": %.2f, \"lost\": %zu, \"versions_in_a_sample\": %zu}\n",
                arguments_.shape.c_str(), version, 1e3 * worst, lost, spans);
    std::fflush(stdout);
    if (arguments_.shape == "qwen1_5b") Add("engine.weight_update_ms", 1e3 * worst, "ms");
  }

  void Keep(const std::string& what, double value, const std::string& unit) {
    const std::string model = arguments_.shape == "qwen8b" ? "qwen8b" : "qwen1_5b";
    const std::string prefix = arguments_.device == "cpu" ? "engine.cpu." : "engine." + model + ".";
    Add(prefix + what, value, unit);
  }

  void Add(const std::string& id, double value, const std::string& unit) { results_.push_back({id, value, unit, {}, {}, {}, {}}); }

  const std::vector<BenchResult>& results() const { return results_; }

 private:
  const Arguments& arguments_;
  policy::Decoder& decoder_;
  std::vector<BenchResult> results_;
};

// A folder with these weights, loaded by a fresh process: seconds until its first token.
void Start(const Arguments& arguments, const policy::Decoder& decoder, Bench& bench) {
  if (!bench.Wanted("start") || arguments.shape != "qwen1_5b") return;
  const auto folder = TempFolder::Create("hone_engine_bench");
  if (!folder.ok()) return;
  const policy::ModelConfig& c = decoder.config();
  const std::string config = absl::StrFormat(
      "{\"model_type\": \"qwen2\", \"vocab_size\": %d, \"hidden_size\": %d, \"intermediate_size\": %d, \"num_hidden_layers\": %d, "
      "\"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"max_position_embeddings\": %d, \"rope_theta\": 1000000.0, "
      "\"tie_word_embeddings\": true}",
      c.vocab_size, c.hidden_size, c.intermediate_size, c.num_hidden_layers, c.num_attention_heads, c.num_key_value_heads, c.max_position_embeddings);
  if (!policy::SaveHfWeights(decoder, folder->path()).ok() || !WriteFileAtomically(folder->path() + "/config.json", config).ok()) return;
  SpawnOptions spawn;
  spawn.argv = {std::filesystem::read_symlink("/proc/self/exe").string(), "--first-token", folder->path(), "--device", arguments.device, "--cache-gb", "8"};
  const Clock::time_point start = Clock::now();
  const auto run = hone::Run(spawn, absl::Seconds(120));
  const double seconds = Seconds(start);
  if (!run.ok() || run->exit_code != 0) return;
  std::fputs(run->output.c_str(), stdout);
  std::printf("{\"shape\": \"qwen1_5b\", \"name\": \"start\", \"seconds\": %.3f}\n", seconds);
  bench.Add("engine.start_s", seconds, "s");
}

int FirstToken(const Arguments& arguments) {
  const Clock::time_point start = Clock::now();
  const at::Device device = policy::FindDevice(arguments.device).value();
  auto decoder = policy::LoadHfFolder(arguments.first_token, {device, at::kBFloat16, /*fp32_activations=*/device.is_cpu()});
  if (!decoder.ok()) {
    std::fprintf(stderr, "%s\n", std::string(decoder.status().message()).c_str());
    return 1;
  }
  const double loaded = Seconds(start);
  Bench bench(arguments, **decoder);
  const auto engine = bench.Engine(64);
  bench.Time(*engine, bench.Requests(1, 1, 16, 1));
  std::printf("{\"name\": \"first_token\", \"load_s\": %.3f, \"start_s\": %.3f}\n", loaded, Seconds(start));
  return 0;
}

// Keeps the figures where asked to.
int Finish(const Arguments& arguments, const Bench& bench) {
  if (arguments.record.empty()) return 0;
  std::vector<BenchResult> results = bench.results();
  for (BenchResult& result : results) {
    result.command = absl::StrCat("engine_bench --shape ", arguments.shape, " --device ", arguments.device);
    result.machine = arguments.device == "cpu" ? MachineKind() : arguments.machine;
    result.date = Today();
    result.commit = arguments.commit;
  }
  const absl::Status status = RecordResults(arguments.record, results);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

int Measure(const Arguments& arguments) {
  if (arguments.threads > 0) policy::SetComputeThreads(static_cast<int>(arguments.threads));
  if (!arguments.first_token.empty()) return FirstToken(arguments);
  const auto found = policy::FindDevice(arguments.device);
  if (!found.ok()) {
    std::fprintf(stderr, "%s\n", std::string(found.status().message()).c_str());
    return 2;
  }
  const at::Device device = *found;
  const policy::ModelConfig config = arguments.shape == "qwen8b" ? Qwen3_8b() : Qwen2_1_5b();
  auto decoder = policy::Decoder::Create(config, {device, at::kBFloat16, /*fp32_activations=*/device.is_cpu()}).value();
  Fill(decoder->parameters());
  Bench bench(arguments, *decoder);
  if (device.is_cpu()) {
    bench.Throughput("b1", 1, 1, 64, 32);
    bench.Throughput("b8", 8, 1, 64, 32);
    return Finish(arguments, bench);
  }
  bench.Throughput("b1", 1, 1, 512, 256);
  bench.Throughput("b8", 8, 1, 512, 256);
  bench.Throughput("b64", 64, 1, 512, 256);
  bench.Throughput("b256", 256, 1, 512, 256);
  bench.Throughput("b256_n512", 256, 1, 512, 512);
  bench.Throughput("b256_groups", 32, 8, 512, 256);
  bench.Throughput("b256_groups_n512", 32, 8, 512, 512);
  bench.GroupPrefill();
  bench.WeightUpdate();
  bench.LogProbGap();
  Start(arguments, *decoder, bench);
  return Finish(arguments, bench);
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  hone::Arguments arguments;
  CLI::App app{"Generation speed of the in-process engine"};
  app.add_option("--shape", arguments.shape)->check(CLI::IsMember({"qwen1_5b", "qwen8b"}));
  app.add_option("--device", arguments.device)->check(CLI::IsMember({"cuda", "cpu"}));
  app.add_option("--only", arguments.only, "Scenarios, with commas: b1,b8,b64,b256,b256_n512,b256_groups,b256_groups_n512,group,update,gap,start");
  app.add_option("--first-token", arguments.first_token);
  app.add_option("--cache-gb", arguments.cache_gb);
  app.add_option("--threads", arguments.threads);
  app.add_option("--record", arguments.record, "results.json to put the figures into");
  app.add_option("--peer", arguments.peers, "SCENARIO=TOKENS_A_SECOND of another engine, for the ratio");
  app.add_option("--machine", arguments.machine, "The GPU's name in the record");
  app.add_option("--commit", arguments.commit, "Of this build, in the record");
  app.add_flag("--deterministic", arguments.deterministic);
  CLI11_PARSE(app, argc, argv);
  return hone::Measure(arguments);
}
