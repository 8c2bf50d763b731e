#pragma once

// `hone worker`: samples and judges groups for a run of `hone train` that listens. What the run is, down to the policy's
// tokenizer, comes from the run itself, and so do the weights: a worker needs the address and a device. It leaves on SIGTERM
// or Ctrl-C with its leases given back, and waits for a run that is away.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/config.h"
#include "cli/train/config.h"
#include "cli/train/model_settings.h"
#include "cli/train/settings.h"

namespace hone::cli {

/// What a worker may decide for itself; where it does not, the run's own setting counts.
struct WorkerConfig {
  int64_t threads = 0;
  int64_t groups = 0;
  double patience_s = 300;
  DeviceSettings device;
  EngineSettings engine;
  VerifierSettings verifier;
};
template <class F>
void Describe(F& f, WorkerConfig& c) {
  f.Value("threads", c.threads, Range<int64_t>(0, 1024), "of the model; 0: one a core");
  f.Value("groups", c.groups, Range<int64_t>(0, 1024), "leased at a time; 0: as many as engine.max_running samples are");
  f.Value("patience_s", c.patience_s, Range(1.0, 1e7), "seconds without an answer of the run after which the worker ends");
  f.Section("device", c.device, "where it samples");
  f.Section("engine", c.engine, "how it samples");
  f.Section("verifier", c.verifier, "who builds, checks and times the candidates");
}

/// The worker's settings under those of the run.
WorkerConfig DefaultsOf(const TrainConfig& run);

struct WorkerStart {
  std::string coordinator;
  std::string name;
  ConfigFile& config;  // of a WorkerConfig
};

/// Works until the run is over or the worker is told to stop. kUnavailable: no answer for patience_s.
/// kInvalidArgument: a setting. kFailedPrecondition: engine and learner do not agree, or the run's weights are not those of
/// this device.
absl::Status RunWorkerProcess(WorkerStart start);

}  // namespace hone::cli
