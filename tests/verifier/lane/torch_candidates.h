#pragma once

// Builds Python candidates for lane tests. Extensions take seconds to compile, so that their store outlives the
// program.

#include <memory>
#include <optional>
#include <string>

#include "base/task.h"
#include "verifier/build/builder.h"
#include "verifier/cache/artefact_store.h"

namespace hone::verifier::test {

class TorchCandidates {
 public:
  static TorchCandidates& Get();

  BuildResult Build(const Task& task, const std::string& source, Format format = Format::kTorch);
  /// By its text alone.
  std::optional<BuildResult> RejectUnbuilt(const Task& task, const std::string& source, Format format = Format::kTorch);
  /// Built, and judged by the lane of Bench; a build that did not succeed is its verdict.
  Verdict Judge(const Task& task, const std::string& source, Format format = Format::kTorch);

 private:
  TorchCandidates();
  std::unique_ptr<ArtefactStore> store_;
  std::unique_ptr<Builder> builder_;
};

}  // namespace hone::verifier::test
