#include "cli/quickstart/config.h"

#include "rewards/advantage/group.h"
#include "rewards/terms/log_speed.h"
#include "rewards/turns/primeecho.h"

namespace hone::cli {

rewards::PipelineConfig QuickstartRewards() {
  rewards::LogSpeedScore score;
  score.speed.baseline = Baseline::kScalar;
  rewards::PipelineConfig config;
  config.terms = {{rewards::Choice<rewards::Term>::Of(score), 1.0}};
  // Half of the groups soon pass throughout and differ by timing noise alone; a plain std would blow that up.
  rewards::Grpo advantage;
  advantage.epsilon = 0.1;
  config.advantage.kind = rewards::Choice<rewards::Advantage>::Of(advantage);
  config.turns.rule = rewards::Choice<rewards::TurnRule>::Of(rewards::PrimeEcho{});
  return config;
}

}  // namespace hone::cli
