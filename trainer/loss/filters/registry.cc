// The filters there are, one line each.

#include "trainer/loss/filters/filter.h"
#include "trainer/loss/filters/sequence_masks.h"
#include "trainer/loss/filters/token_weights.h"

namespace hone::trainer {

absl::Span<const rewards::Registration<Filter>> Filter::Registry() {
  using rewards::Register;
  static const rewards::Registration<Filter> filters[] = {
      Register<Filter, MirrorPop>(),     Register<Filter, Tis>(),      Register<Filter, TwoSidedTis>(),
      Register<Filter, SequenceTis>(),   Register<Filter, TokenMis>(), Register<Filter, SequenceMis>(),
      Register<Filter, GeometricMask>(), Register<Filter, K2Mask>(),   Register<Filter, K3Mask>(),
      Register<Filter, Veto>(),          Register<Filter, IcePop>(),   Register<Filter, SequenceMaskTis>(),
      Register<Filter, Opsm>(),          Register<Filter, Dppo>(),
  };
  return filters;
}

}  // namespace hone::trainer
