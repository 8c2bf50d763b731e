// `hone generate`: a prompt in, text out, with a rate.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "rollout/engine/loaded_model.h"
#include "rollout/serve/text_service.h"

namespace hone::cli {
namespace {

struct GenerateArguments {
  rollout::LoadedModelOptions model;
  std::string prompt;
  std::string system;
  bool chat = false;
  int64_t samples = 1;
  uint64_t seed = 0;
  double cache_gb = 0;
  std::vector<std::string> stop;
  rollout::SamplingOptions sampling;
};

using Clock = std::chrono::steady_clock;
double Seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

absl::StatusOr<std::vector<int32_t>> PromptIds(const GenerateArguments& arguments, const rollout::LoadedModel& model) {
  std::string text = arguments.prompt;
  if (text == "-") text.assign(std::istreambuf_iterator<char>(std::cin), {});
  if (text.empty()) return absl::InvalidArgumentError("the prompt is empty");
  if (!arguments.chat) return model.tokenizer().Encode(text, {.add_special = true});
  std::vector<policy::ChatMessage> messages;
  if (!arguments.system.empty()) messages.push_back({"system", arguments.system, {}});
  messages.push_back({"user", text, {}});
  HONE_ASSIGN_OR_RETURN(const std::string prompt, model.chat().Render(messages));
  return model.tokenizer().Encode(prompt);
}

// One sample is written as it grows; several are written one after another, each when it is whole.
absl::Status Generate(GenerateArguments arguments) {
  const Clock::time_point start = Clock::now();
  arguments.model.cache_bytes = static_cast<int64_t>(arguments.cache_gb * 1e9);
  HONE_ASSIGN_OR_RETURN(const auto model, rollout::LoadedModel::Load(arguments.model));
  absl::FPrintF(stderr, "%s, loaded in %s\n", model->Describe(), HumanSeconds(Seconds(start)));
  rollout::TextRequest request;
  HONE_ASSIGN_OR_RETURN(request.generation.prompt_ids, PromptIds(arguments, *model));
  request.generation.samples = arguments.samples;
  request.generation.seed = arguments.seed;
  request.generation.sampling = arguments.sampling;
  request.generation.sampling.stop_ids = model->end_ids();
  request.stop = arguments.stop;
  const size_t prompt_tokens = request.generation.prompt_ids.size();

  rollout::TextService service({}, model->scheduler(), model->tokenizer(), [&](const rollout::GenerationRequest& r) { return model->Check(r); });
  const Clock::time_point asked = Clock::now();
  HONE_ASSIGN_OR_RETURN(const auto stream, service.Submit(std::move(request)));
  std::vector<std::string> texts(arguments.samples);
  double first_s = 0, last_s = 0;
  int64_t tokens = 0;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const std::optional<rollout::TextEvent> event, stream->Next());
    if (!event) break;
    if (event->has_token && tokens++ == 0) first_s = Seconds(asked);
    last_s = Seconds(asked);
    if (arguments.samples == 1) {
      std::fwrite(event->text.data(), 1, event->text.size(), stdout);
      std::fflush(stdout);
      continue;
    }
    texts[event->sample] += event->text;
    if (event->finish) absl::PrintF("--- sample %d\n%s\n", event->sample, texts[event->sample]);
  }
  if (arguments.samples == 1) std::fputc('\n', stdout);
  const double rate = tokens > arguments.samples ? static_cast<double>(tokens - arguments.samples) / (last_s - first_s) : 0;
  absl::FPrintF(stderr, "%d prompt tokens read in %.3f s, %d tokens at %.1f tok/s\n", prompt_tokens, first_s, tokens, rate);
  return absl::OkStatus();
}

}  // namespace

void AddGenerate(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* generate = app.add_subcommand("generate", "Generates text with a model");
  generate->footer("Example:\n  hone generate models/qwen2.5-coder-1.5b --chat -p \"Write a CUDA kernel that adds two vectors.\" --max-tokens 400");
  generate->add_option("model", arguments->model.folder, "A model folder: config.json, safetensors, tokenizer.json")->required();
  generate->add_option("-p,--prompt", arguments->prompt, "The prompt; - reads it from standard input")->required();
  generate->add_flag("--chat", arguments->chat, "The prompt is a user's message in the model's chat template");
  generate->add_option("--system", arguments->system, "The system message, with --chat");
  generate->add_option("--max-tokens", arguments->sampling.max_tokens, "Default 256")->check(CLI::Range(1, 1 << 30));
  generate->add_option("--samples", arguments->samples, "Answers to the same prompt; default 1")->check(CLI::Range(1, 4096));
  generate->add_option("--temperature", arguments->sampling.temperature, "0 takes the most likely token; default 1")->check(CLI::Range(0.0, 100.0));
  generate->add_option("--top-k", arguments->sampling.top_k, "0: off, the default")->check(CLI::NonNegativeNumber);
  generate->add_option("--top-p", arguments->sampling.top_p, "Default 1")->check(CLI::Range(1e-6, 1.0));
  generate->add_option("--min-p", arguments->sampling.min_p, "Default 0")->check(CLI::Range(0.0, 0.999999));
  generate->add_option("--stop", arguments->stop, "Texts that end an answer");
  generate->add_option("--seed", arguments->seed, "Default 0");
  generate->add_option("--device", arguments->model.device, "auto, cpu, cuda or cuda:N; default auto");
  generate->add_flag("--fp32", arguments->model.fp32, "On a CPU: weights in fp32 rather than bf16");
  generate->add_option("--cache-gb", arguments->cache_gb, "Memory for keys and values; default most of the GPU's, 1 GiB on a CPU")->check(CLI::NonNegativeNumber);
  generate->add_flag("--deterministic", arguments->model.deterministic, "On a GPU: a sample depends on its seed alone; slower");
  generate->callback([arguments, &action] { action = [arguments] { return Report(Generate(*arguments)); }; });
}

}  // namespace hone::cli
