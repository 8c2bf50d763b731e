#include "cli/train/setup.h"

#include <algorithm>
#include <thread>

#include "base/status_macros.h"
#include "cli/train/chat_language.h"
#include "cli/train/program_language.h"
#include "policy/model/threads.h"

namespace hone::cli {
namespace {

absl::StatusOr<std::unique_ptr<Prompter>> MakePrompter(const PolicySettings& settings, const std::string& folder) {
  if (settings.prompts == "program") return ProgramLanguage::Load(folder);
  return ChatLanguage::Load(folder, rollout::PromptOptions(), settings.thinking);
}

}  // namespace

absl::StatusOr<PolicySetup> PolicySetup::Create(const PolicySettings& settings, int64_t threads, int64_t seed) {
  if (settings.start.empty()) {
    return absl::InvalidArgumentError("policy.start is not set: an HF folder, a run's folder or a checkpoint");
  }
  policy::SetComputeThreads(threads > 0 ? static_cast<int>(threads) : static_cast<int>(std::thread::hardware_concurrency()));
  policy::SeedOperators(static_cast<uint64_t>(seed));
  PolicySetup setup;
  setup.settings_ = settings;
  setup.seed_ = seed;
  HONE_ASSIGN_OR_RETURN(setup.start_, LoadStart(settings.start));
  HONE_ASSIGN_OR_RETURN(setup.prompter_, MakePrompter(settings, setup.start_.folder));
  HONE_ASSIGN_OR_RETURN(setup.engine_, rollout::NativeEngine::Create({}, *setup.start_.decoder));
  return setup;
}

absl::Status PolicySetup::Connect(const VerifierSettings& verifier, const TaskSettings& tasks, double named_share,
                                  const std::string& log_path) {
  verifier_settings_ = verifier;
  HONE_ASSIGN_OR_RETURN(verifier_, StartVerifier(verifier, log_path));
  const uint64_t task_seed = static_cast<uint64_t>(seed_) * 2 + 1;
  if (tasks.from == "generated") {
    problems_ = GeneratedProblems(task_seed, named_share);
    return absl::OkStatus();
  }
  HONE_ASSIGN_OR_RETURN(problems_, CollectedProblems(tasks, task_seed, *verifier_.client));
  return absl::OkStatus();
}

RolloutParts PolicySetup::Parts(std::vector<Baseline> baselines) const {
  const int64_t model = start_.decoder->config().max_position_embeddings;
  const int64_t context = settings_.context > 0 ? std::min(settings_.context, model) : model;
  return {*problems_, *prompter_, *engine_, *verifier_.client, VerifyWith(verifier_settings_, std::move(baselines)), context,
          seed_};
}

}  // namespace hone::cli
