// The terms there are, one line each; the first is the default.

#include "rewards/terms/correct.h"
#include "rewards/terms/coverage.h"
#include "rewards/terms/cuda_l1.h"
#include "rewards/terms/kernelgym.h"
#include "rewards/terms/kevin.h"
#include "rewards/terms/log_speed.h"
#include "rewards/terms/milestones.h"
#include "rewards/terms/musacoder.h"
#include "rewards/terms/overlong.h"
#include "rewards/terms/term.h"

namespace hone::rewards {

absl::Span<const Registration<Term>> Term::Registry() {
  static const Registration<Term> terms[] = {
      Register<Term, MusaCoderScore>(), Register<Term, LogSpeedScore>(),    Register<Term, CudaL1Speedup>(),
      Register<Term, KernelGymScore>(), Register<Term, CoverageScore>(),    Register<Term, KevinScore>(),
      Register<Term, MilestoneScore>(), Register<Term, CorrectnessScore>(), Register<Term, OverlongPenalty>(),
      Register<Term, OverlongFilter>(),
  };
  return terms;
}

}  // namespace hone::rewards
