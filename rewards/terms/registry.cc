// The terms there are, one line each.

#include "rewards/terms/musacoder.h"
#include "rewards/terms/term.h"

namespace hone::rewards {

absl::Span<const Registration<Term>> Term::Registry() {
  static const Registration<Term> terms[] = {
      Register<Term, MusaCoderScore>(),
      Register<Term, LogSpeedScore>(),
  };
  return terms;
}

}  // namespace hone::rewards
