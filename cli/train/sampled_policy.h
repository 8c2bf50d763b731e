#pragma once

// What every command has that samples a policy and has its answers judged: `hone train`, `rollout`, `rft`, `eval policy`.

#include <cstdint>

#include "base/config.h"
#include "cli/train/model_settings.h"
#include "cli/train/settings.h"
#include "cli/train/start.h"

namespace hone::cli {

struct SampledPolicy {
  int64_t seed = 1;
  int64_t threads = 0;
  PolicySettings policy;
  DeviceSettings device;
  EngineSettings engine;
  VerifierSettings verifier;
};
template <class F>
void Describe(F& f, SampledPolicy& c) {
  f.Value("seed", c.seed, Range<int64_t>(0, int64_t{1} << 52), "of tasks and sampling");
  f.Value("threads", c.threads, Range<int64_t>(0, 1024), "of the model; 0: one a core");
  f.Section("policy", c.policy, "who answers");
  f.Section("device", c.device, "where the model computes");
  f.Section("engine", c.engine, "how it is sampled");
  f.Section("verifier", c.verifier, "who builds, checks and times the candidates");
}

}  // namespace hone::cli
