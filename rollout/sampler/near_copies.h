#pragma once

// Whether a task to train on is a task to be evaluated on, or nearly: three comparisons of their PyTorch modules, each
// blunter than the one before.
//
//   exact        the texts, blanks at line ends apart
//   normalised   the token sequences without comments, texts of documentation, imports and annotations, local names numbered
//                in order of appearance and numbers taken out: the same program renamed or at other sizes
//   similarity   Jaccard similarity of every three neighbouring tokens of what the module computes: the statements of its
//                classes, with local names and numbers taken out and the names of functions and modules kept
//
// A task of the same family (another reduction, a convolution with another epilogue) shares some of these triples; a copy
// shares nearly all. Where two modules compute one thing in unlike words, no comparison of texts sees it.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/task.h"

namespace hone::rollout {

enum class CopyKind { kNone, kSimilar, kNormalised, kExact };
absl::string_view Name(CopyKind kind);

struct TaskPrint {
  std::string id;
  std::string text;                // trimmed
  std::string normalised;
  std::vector<uint64_t> triples;   // ascending, each once
};
TaskPrint PrintOf(const std::string& id, absl::string_view module);

double Similarity(const TaskPrint& a, const TaskPrint& b);  // [0, 1]

struct NearestTask {
  size_t index = 0;  // into the tasks compared with
  double similarity = 0;
  CopyKind kind = CopyKind::kNone;
};
/// The most similar one of `others`, copies first; kSimilar from `threshold` on. `others` is not empty.
NearestTask Nearest(const TaskPrint& task, const std::vector<TaskPrint>& others, double threshold);

}  // namespace hone::rollout
