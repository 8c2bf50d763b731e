// A short RL run with a checkpoint each step, for checkpoint_test: it can be told to kill itself at a given place.
// usage: killed_run FOLDER [PLACE STEP]   prints the SHA-256 of the final weights

#include <csignal>
#include <cstdio>
#include <random>
#include <sstream>
#include <string>

#include "base/hash.h"
#include "cmake/torch_pch.h"
#include "rollout/engine/native_engine.h"
#include "tests/support/tiny_model.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/learner_state.h"
#include "trainer/loop/rl_trainer.h"

namespace hone::trainer {
namespace {

constexpr int64_t kSteps = 5;

class Run {
 public:
  Run(std::string folder, std::string place, int64_t step) : folder_(std::move(folder)), place_(std::move(place)), kill_step_(step) {}

  void Go() {
    decoder_ = testing::MakeDecoder(testing::TinyConfig());
    engine_ = rollout::NativeEngine::Create({}, *decoder_).value();
    RlOptions options;
    options.learner.schedule = {Schedule::Shape::kCosine, 5e-3, 0, 2, kSteps};
    options.learner.on_phase = [&](StepPhase phase) {
      constexpr const char* kNames[] = {"score", "forward", "backward", "optimizer"};
      Pass(kNames[static_cast<int>(phase)]);
    };
    options.old_policy = OldPolicy::kRecomputed;
    trainer_ = RlTrainer::Create(options, *decoder_).value();
    const auto checkpointer = Checkpointer::Create({.folder = folder_, .keep = 2, .on_file = [&](const std::string& file) { Pass(file); }}).value();
    Resume(*checkpointer);
    while (trainer_->learner().step() < kSteps) {
      Step();
      CheckpointData data;
      std::ostringstream sampler;
      sampler << prompts_;
      data.blobs["sampler"] = sampler.str();
      AddLearnerState(trainer_->learner(), data);
      if (!checkpointer->Save(data).ok()) std::abort();
    }
    const at::Tensor flat = decoder_->parameters().flat();
    std::printf("%s\n", Sha256Hex({static_cast<const char*>(flat.const_data_ptr()), static_cast<size_t>(flat.nbytes())}).c_str());
  }

 private:
  void Pass(const std::string& place) const {
    if (place == place_ && trainer_ != nullptr && trainer_->learner().step() == kill_step_) std::raise(SIGKILL);
  }

  void Resume(const Checkpointer& checkpointer) {
    const absl::StatusOr<CheckpointData> data = checkpointer.LoadLatest();
    if (!data.ok()) return;
    if (!RestoreLearnerState(*data, trainer_->learner()).ok()) std::abort();
    std::istringstream(data->blobs.at("sampler")) >> prompts_;
  }

  void Step() {
    std::vector<rollout::GenerationRequest> requests;
    for (int i = 0; i < 2; ++i) {
      requests.push_back({{static_cast<int32_t>(prompts_() % 37), 1}, 4, prompts_(), {}});
      requests.back().sampling.max_tokens = 12;
    }
    if (!engine_->SetPolicyVersion(trainer_->learner().policy_version()).ok()) std::abort();
    Pass("generate");
    const auto samples = engine_->Generate(requests, {}).value();
    std::vector<TrainSequence> batch;
    for (size_t i = 0; i < samples.size(); ++i) {
      for (const rollout::Sample& sample : samples[i]) {
        Turn turn;
        turn.prompt_ids = requests[i].prompt_ids;
        turn.response_ids = sample.ids;
        turn.log_probs = sample.log_probs;
        turn.versions = sample.versions;
        batch.push_back(SampledTurn(turn, sample.ids[0] % 2 == 0 ? 1.0 : -1.0));
      }
    }
    if (!trainer_->Step(batch).ok()) std::abort();
  }

  std::string folder_, place_;
  int64_t kill_step_;
  std::unique_ptr<policy::Decoder> decoder_;
  std::unique_ptr<rollout::NativeEngine> engine_;
  std::unique_ptr<RlTrainer> trainer_;
  std::mt19937 prompts_{4};
};

}  // namespace
}  // namespace hone::trainer

int main(int argc, char** argv) {
  at::set_num_threads(1);
  hone::trainer::Run(argv[1], argc > 3 ? argv[2] : "", argc > 3 ? std::stoll(argv[3]) : -1).Go();
  return 0;
}
