#pragma once

// Where a model computes, and what of it is trained: settings that `hone sft`, `hone train`, `hone rollout` and `hone rft`
// share.

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"

namespace hone::cli {

struct DeviceSettings {
  std::string device = "cpu";
  std::string dtype = "fp32";
  bool checkpoint_activations = false;
  bool offload_optimizer = false;
};
template <class F>
void Describe(F& f, DeviceSettings& c) {
  f.Value("device", c.device, "cpu, cuda or cuda:<n>; with several ranks, cuda takes the rank's own");
  f.Value("dtype", c.dtype, OneOf{{"fp32", "bf16", "fp16"}},
          "of weights and activations; masters, gradients and moments are fp32. To sample on cuda: bf16, or fp16, with which "
          "sampler and learner agree better and which a model must bear: it ends at 65504");
  f.Value("checkpoint_activations", c.checkpoint_activations,
          "compute each layer again in the backward pass: less memory, a third more time");
  f.Value("offload_optimizer", c.offload_optimizer,
          "masters and moments in the host's memory, and the step there: 12 bytes a weight less on the device");
}

struct LoraSettings {
  int64_t rank = 0;
  double alpha = 32;
  std::vector<std::string> targets = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};
};
template <class F>
void Describe(F& f, LoraSettings& c) {
  f.Value("rank", c.rank, Range<int64_t>(0, 1024), "0: all weights are trained");
  f.Value("alpha", c.alpha, Range(1e-3, 1e6), "the addition is scaled by alpha / rank");
  f.Value("targets", c.targets, "modules with an adapter");
}

struct EngineSettings {
  int64_t max_running = 256;
  int64_t prefill_tokens = 8192;
  double cache_gb = 0;
};
template <class F>
void Describe(F& f, EngineSettings& c) {
  f.Value("max_running", c.max_running, Range<int64_t>(1, 4096), "samples decoded together");
  f.Value("prefill_tokens", c.prefill_tokens, Range<int64_t>(16, 1 << 20), "prompt tokens read at a time");
  f.Value("cache_gb", c.cache_gb, Range(0.0, 4096.0),
          "memory for keys and values; 0: a sixth of what the GPU has free beside the weights, 0.27 on a CPU");
}

}  // namespace hone::cli
