// The turn rules there are, one line each; the first is the default.

#include "rewards/turns/discounted.h"
#include "rewards/turns/primeecho.h"
#include "rewards/turns/single.h"
#include "rewards/turns/turn_rule.h"

namespace hone::rewards {

absl::Span<const Registration<TurnRule>> TurnRule::Registry() {
  static const Registration<TurnRule> rules[] = {
      Register<TurnRule, PrimeEcho>(),
      Register<TurnRule, DiscountedReturn>(),
      Register<TurnRule, SingleScore>(),
  };
  return rules;
}

}  // namespace hone::rewards
