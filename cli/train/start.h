#pragma once

// What a training run starts from.

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/config.h"
#include "policy/model/decoder.h"

namespace hone::cli {

struct PolicySettings {
  std::string start;
  std::string adapter;
  std::string prompts = "chat";
  std::string example = "auto";
  bool thinking = false;
  int64_t context = 0;
};
template <class F>
void Describe(F& f, PolicySettings& c) {
  f.Value("start", c.start, "an HF folder, a run's folder (its newest checkpoint), or one checkpoint (.../step_00000700)");
  f.Value("adapter", c.adapter,
          "a folder of PEFT with a low-rank adapter of it; what is trained then goes on from it. Runs bring their own");
  f.Value("prompts", c.prompts, OneOf{{"chat", "program"}},
          "chat: the model's chat template; program: what hone quickstart trains");
  f.Value("example", c.example, OneOf{{"auto", "none"}},
          "chat: a worked example before the task, whose launch has the task's shape");
  f.Value("thinking", c.thinking, "for chat templates that know it");
  f.Value("context", c.context, Range<int64_t>(0, int64_t{1} << 24), "tokens of an episode's last turn at most; 0: the model's");
}

/// Of device.dtype.
at::ScalarType TypeNamed(const std::string& dtype);

struct StartingPolicy {
  std::unique_ptr<policy::Decoder> decoder;  // as the options say; without any, fp32 on the CPU
  std::string folder;                        // with config.json and tokenizer.json
  std::string weights;                       // where the weights were found
  std::string adapter;                       // a run's own, as a folder of PEFT; empty: it has none
};

/// Of a run that trained an adapter: the model that it belongs to, and the adapter that the run left.
/// kNotFound: none of the three, or a run without weights; kDataLoss, kInvalidArgument: the file that is wrong.
absl::StatusOr<StartingPolicy> LoadStart(const std::string& start, const policy::DecoderOptions& options = {});

/// The model that `folder`/config.json describes, whose weights are to come from elsewhere.
absl::StatusOr<StartingPolicy> StartWithoutWeights(const std::string& folder, const policy::DecoderOptions& options);

/// What makes `folder` an HF folder, weights apart: bytes by file name.
absl::StatusOr<std::map<std::string, std::string>> ReadPolicyFiles(const std::string& folder);

/// Copies those of `from` into `to`: a run does not depend on where it started.
absl::Status CopyPolicyFiles(const std::string& from, const std::string& to);

}  // namespace hone::cli
