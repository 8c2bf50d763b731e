#include "cli/quickstart/demonstrations.h"

#include "base/status_macros.h"

namespace hone::cli {
namespace {

trainer::TrainSequence Answered(const std::vector<int32_t>& prompt, const std::vector<int32_t>& answer) {
  return trainer::PromptAndResponse(prompt, answer);
}

}  // namespace

Demonstrations::Demonstrations(const QuickstartSft& config, const ProgramLanguage& language, uint64_t seed)
    : config_(config), language_(language), generator_(seed), random_(seed ^ 0x5f7a11e5) {}

absl::StatusOr<trainer::TrainSequence> Demonstrations::Next() {
  const double draw = random_.Uniform();
  if (draw < config_.repair_share) return Repair();
  if (draw < config_.repair_share + config_.contrast_share) return Contrast();
  return Plain();
}

absl::StatusOr<trainer::TrainSequence> Demonstrations::Plain() {
  const rollout::Example example = generator_.NextExample();
  HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, language_.TaskPrompt(example.prompt));
  HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> answer, language_.Answer(example.demonstration.source));
  return Answered(prompt, answer);
}

rollout::Demonstration Demonstrations::Right(const rollout::Program& program) {
  rollout::DemonstrationOptions options;
  options.flawed_share = 0;
  return rollout::DrawDemonstration(program, options, random_);
}

absl::StatusOr<trainer::TrainSequence> Demonstrations::Repair() {
  const rollout::Program program = generator_.NextProgram();
  rollout::DemonstrationOptions flawed;
  flawed.flawed_share = 1;
  const std::string failing = rollout::DrawDemonstration(program, flawed, random_).source;
  HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt,
                        language_.RepairPrompt(rollout::Prompt(program), failing, VerdictStatus::kIncorrect));
  HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> answer, language_.Answer(Right(program).source));
  return Answered(prompt, answer);
}

absl::StatusOr<trainer::TrainSequence> Demonstrations::Contrast() {
  const rollout::Program program = generator_.NextProgram();
  HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt,
                        language_.ContrastPrompt(rollout::Prompt(program), Right(program).source, Right(program).source));
  HONE_ASSIGN_OR_RETURN(const std::vector<int32_t> answer, language_.Answer(Right(program).source));
  return Answered(prompt, answer);
}

}  // namespace hone::cli
