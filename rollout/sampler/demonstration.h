#pragma once

// Kernels for programs of the quickstart's language, in many styles: what a policy is first taught, before measured
// reward says which of them are worth writing. Slow and fast ones on purpose, and a share of subtly wrong ones.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rollout/sampler/program.h"
#include "rollout/sampler/random.h"

namespace hone::rollout {

/// One complete CUDA source: `f`, the kernel `k` and `launch`. Compiles with nvcc and for the CPU backend.
struct Demonstration {
  std::string source;
  std::string style;  // "lanes", "warp", ...
  std::string flaw;   // what was broken; empty: right
};

struct DemonstrationOptions {
  double flawed_share = 0.1;   // [0, 1]
  double double_share = 0.08;  // of lines written through double precision or powf
};

/// The styles that can compute `tail`, the plainest first.
std::vector<std::string> StylesOf(Tail tail);

struct KernelChoices {
  std::string style;
  int block = 256;   // threads of a block; a power of two from 32 to 512. Styles with a shape of their own ignore it
  int lanes = 8;     // accumulators or elements of one thread: 4, 8 or 16
  bool fast = false; // intrinsics in the reduction
  std::vector<Spelling> spellings;  // one a line of the program
};

/// Right for every shape with rows * cols below 2^31.
std::string KernelSource(const Program& program, const KernelChoices& choices);

Demonstration DrawDemonstration(const Program& program, const DemonstrationOptions& options, SplitMix& random);

/// The native source timed as Baseline::kScalar: one thread an element or a row (a block a row for matmul), one operation at
/// a time, the accurate library.
std::string ScalarBaseline(const Program& program);

}  // namespace hone::rollout
