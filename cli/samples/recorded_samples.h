#pragma once

// Recorded answers of a model with the verdict that a GPU gave, and how a verifier's verdicts agree with those.
//
// A file has one JSON object a line. Read are
//   task          name of the reference, e.g. "softmax"
//   signature     C++ declaration of `launch` that the answer was asked for
//   check_sizes   the integers of that declaration, in its order, one list for each checked shape
//   source        the answer, CUDA C++
//   verdict_h200  "ok", "wrong", "compile", "oob_write" or "crash"
//   timing_size   the same integers for the shape that was timed; may be missing
//   candidate_ms, torch_eager_ms   what the answer and PyTorch took there; may be missing or null
// and other keys are left alone.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/signature.h"
#include "base/task.h"
#include "base/verdict.h"

namespace hone::cli {

/// One argument of the recorded `launch`; the stream is not among them.
struct RecordedArgument {
  std::string type;  // without spaces: "constfloat*", "int*", "float", "int"
  std::string name;
  friend bool operator==(const RecordedArgument&, const RecordedArgument&) = default;
};

struct RecordedSample {
  int line = 0;  // in the file, from 1
  std::string task;
  std::string declaration;
  std::vector<RecordedArgument> arguments;
  std::vector<Sizes> check_sizes;
  Sizes timing_size;  // empty: not recorded
  double candidate_ms = 0;  // at timing_size; 0: not recorded
  double eager_ms = 0;
  std::string source;
  std::string verdict;
};

/// kInvalidArgument, one line with `name` and the line in it: not JSON, a key that is missing or of another type, a
/// signature that is no `launch` with a stream, sizes that do not fit it, an unknown verdict, no sample at all.
absl::StatusOr<std::vector<RecordedSample>> ParseRecordedSamples(absl::string_view text, const std::string& name);

/// The sample's reference out of `folder`, checked at the recorded sizes, on a GPU timed at the recorded one. kNotFound: there is none of that name.
absl::StatusOr<Task> TaskOfSample(const RecordedSample& sample, const std::string& folder);

/// The answer as a candidate for `signature`: unchanged where the recorded arguments are those, else with a `launch`
/// behind it that passes them on in the recorded order. kInvalidArgument: an argument that `signature` does not have.
absl::StatusOr<std::string> AdaptSource(const RecordedSample& sample, const Signature& signature);

struct Agreement {
  int n = 0;
  int both_ok = 0;
  int both_rejected = 0;
  int wrongly_accepted = 0;                                    // right here, not on the GPU
  int wrongly_rejected = 0;                                    // right on the GPU, not here
  int unjudged = 0;                                            // INFRA: the verifier failed, in none of the four above
  std::map<std::pair<std::string, std::string>, int> classes;  // recorded verdict, Name(status) -> samples
};

/// `verdicts` has one for each sample.
Agreement Compare(absl::Span<const RecordedSample> samples, absl::Span<const Verdict> verdicts);

}  // namespace hone::cli
