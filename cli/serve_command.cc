// `hone serve`: a model behind the OpenAI HTTP API.

#include <csignal>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "rollout/engine/loaded_model.h"
#include "rollout/serve/openai_server.h"

namespace hone::cli {
namespace {

struct ServeArguments {
  rollout::LoadedModelOptions model;
  rollout::OpenAiServerOptions server;
  rollout::TextService::Options service;
  std::string name;
  double cache_gb = 0;
};

// Blocks the signals that end the program in every thread started from here on; Wait returns when one comes.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  void Wait() {
    int signal = 0;
    sigwait(&set_, &signal);
  }

 private:
  sigset_t set_;
};

absl::Status Serve(ServeArguments arguments) {
  EndSignals signals;
  arguments.model.cache_bytes = static_cast<int64_t>(arguments.cache_gb * 1e9);
  HONE_ASSIGN_OR_RETURN(const auto model, rollout::LoadedModel::Load(arguments.model));
  arguments.server.model_name = arguments.name.empty() ? std::filesystem::path(arguments.model.folder).lexically_normal().filename().string() : arguments.name;
  if (arguments.server.model_name.empty()) arguments.server.model_name = "hone";
  arguments.server.context = model->context();
  arguments.server.end_ids = model->end_ids();
  auto service = std::make_unique<rollout::TextService>(arguments.service, model->scheduler(), model->tokenizer(),
                                                        [&](const rollout::GenerationRequest& r) { return model->Check(r); });
  HONE_ASSIGN_OR_RETURN(auto server, rollout::OpenAiServer::Start(arguments.server, *service, model->tokenizer(), model->chat()));
  absl::PrintF("%s\nserving \"%s\" on http://%s:%d/v1\n", model->Describe(), arguments.server.model_name, arguments.server.host, server->port());
  std::fflush(stdout);
  signals.Wait();
  service->Stop();
  server.reset();
  return absl::OkStatus();
}

}  // namespace

void AddServe(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ServeArguments>();
  CLI::App* serve = app.add_subcommand("serve", "Serves a model over the OpenAI HTTP API");
  serve->footer(
      "Example:\n  hone serve models/qwen2.5-coder-1.5b --port 8000\n"
      "  curl http://127.0.0.1:8000/v1/completions -d '{\"prompt\": \"__global__ void\", \"max_tokens\": 50}'");
  serve->add_option("model", arguments->model.folder, "A model folder: config.json, safetensors, tokenizer.json")->required();
  serve->add_option("--host", arguments->server.host, "Default 127.0.0.1: this machine only");
  serve->add_option("--port", arguments->server.port, "Default 8000; 0 takes a free one")->check(CLI::Range(0, 65535));
  serve->add_option("--name", arguments->name, "The model's name in the API; default the folder's");
  serve->add_option("--device", arguments->model.device, "auto, cpu, cuda or cuda:N; default auto");
  serve->add_flag("--fp32", arguments->model.fp32, "On a CPU: weights in fp32 rather than bf16");
  serve->add_option("--max-running", arguments->model.max_running, "Samples decoded together; default 256")->check(CLI::Range(1, 4096));
  serve->add_option("--max-waiting", arguments->service.max_waiting, "Samples that may wait before calls are refused; default 4096")->check(CLI::PositiveNumber);
  serve->add_option("--cache-gb", arguments->cache_gb, "Memory for keys and values; default most of the GPU's, 1 GiB on a CPU")->check(CLI::NonNegativeNumber);
  serve->add_flag("--deterministic", arguments->model.deterministic, "On a GPU: a sample depends on its seed alone; slower");
  serve->callback([arguments, &action] { action = [arguments] { return Report(Serve(*arguments)); }; });
}

}  // namespace hone::cli
