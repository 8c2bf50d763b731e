#pragma once

// One quickstart run in one folder:
//
//   config.yaml            the resolved configuration
//   policy/                an HF folder: config.json, tokenizer.json, at the end the weights
//   checkpoint/sft/        the end of the supervised phase; `hone train` can start from it
//   report.html            all of it to look at (cli/train/report.h)
//
// and the files of the phases (cli/train/phases.h).

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/quickstart/config.h"

namespace hone::cli {

class QuickstartRun {
 public:
  /// `folder` is created. kAlreadyExists: it holds a run and `resume` is false. kNotFound: nothing to resume.
  /// kInvalidArgument: the sizes of the model do not fit each other.
  static absl::StatusOr<std::unique_ptr<QuickstartRun>> Create(const QuickstartConfig& config, const std::string& folder,
                                                               bool resume);
  ~QuickstartRun();

  /// All phases. False: rl.max_seconds were over. kCancelled: interrupted. The folder can be resumed after both.
  absl::StatusOr<bool> Run();

 private:
  struct State;
  explicit QuickstartRun(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::cli
