#pragma once

// One quickstart run in one folder:
//
//   config.yaml            the resolved configuration
//   policy/                tokenizer.json and the trained weights
//   journal.jsonl.zst      every group of the reinforcement phase, written before it is trained on
//   evaluation_before.jsonl.zst, evaluation_after.jsonl.zst   the held-out groups
//   metrics.jsonl, events.out.tfevents.*                      one record a step
//   phases.json            seconds of each phase
//   checkpoint/            where an interrupted run goes on (--resume)
//   report.html            all of it to look at (cli/quickstart/report.h)

#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/quickstart/config.h"

namespace hone::cli {

class QuickstartRun {
 public:
  /// `folder` is created. kAlreadyExists: it holds a run and `resume` is false. kNotFound: nothing to resume.
  static absl::StatusOr<std::unique_ptr<QuickstartRun>> Create(const QuickstartConfig& config, const std::string& folder,
                                                               bool resume);
  ~QuickstartRun();

  /// All phases. kCancelled: interrupted; the folder can be resumed.
  absl::Status Run();

 private:
  struct State;
  explicit QuickstartRun(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::cli
