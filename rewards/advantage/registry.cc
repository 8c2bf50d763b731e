// The advantages there are, one line each; the first is the default.

#include "rewards/advantage/group.h"
#include "rewards/advantage/reinforce.h"

namespace hone::rewards {

absl::Span<const Registration<Advantage>> Advantage::Registry() {
  static const Registration<Advantage> advantages[] = {
      Register<Advantage, Grpo>(),
      Register<Advantage, DrGrpo>(),
      Register<Advantage, Rloo>(),
      Register<Advantage, Trloo>(),
      Register<Advantage, ReinforcePlusPlus>(),
  };
  return advantages;
}

}  // namespace hone::rewards
