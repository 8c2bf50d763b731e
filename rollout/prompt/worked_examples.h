#pragma once

// Worked examples for prompts. A small model copies the launch of the example that it was shown last: an example whose launch
// has the task's shape rescues whole families of tasks, one of another shape ruins them.

#include <string>

#include "base/task.h"

namespace hone::rollout {

/// What one thread, or one block, works on.
enum class LaunchShape {
  kElements,  // a thread an element, one flat index
  kOutputs,   // a thread an element of the output, its flat index taken apart
  kRows,      // a block a row
  kTiles,     // a thread an element, two-dimensional blocks
};
inline constexpr LaunchShape kLaunchShapes[] = {LaunchShape::kElements, LaunchShape::kOutputs, LaunchShape::kRows,
                                                LaunchShape::kTiles};

/// By the task's family; where it has none of the suite's, by the operators that its reference calls.
LaunchShape ShapeOf(const Task& task);

struct WorkedExample {
  Task task;
  std::string skeleton;  // Skeleton of the task's signature
  std::string source;    // a right answer to it
};
WorkedExample ExampleOf(LaunchShape shape);

}  // namespace hone::rollout
