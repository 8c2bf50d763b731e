#pragma once

// The small language of the quickstart's tasks: a chain of element-wise lines in single-assignment style over one to three
// inputs of shape [rows, cols], and a last line that says what becomes of the chain's value `t`.
//
//   t = x * y
//   t = sigmoid(t)
//   return sum(t, 1)
//
// One Program has three renderings that say the same: these lines (what the policy reads), a PyTorch module (what the
// verifier runs) and the body of a device function (what demonstrations compute with).

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/signature.h"
#include "base/task.h"
#include "rollout/sampler/random.h"

namespace hone::rollout {

/// What happens to the chain's value t, [rows, cols].
enum class Tail {
  kNone,          // out[rows, cols] = t
  kRowSum,        // out[rows]
  kRowMean,
  kRowMax,
  kRowMeanSquare,
  kLogSumExp,     // out[rows]
  kSoftmax,       // out[rows, cols], along a row; so are the next two
  kLayerNorm,     // (t - mean) / sqrt(var + 1e-5), population variance
  kRmsNorm,       // t / sqrt(mean(t * t) + 1e-5)
  kColumnSum,     // out[cols]
  kColumnMean,
  kColumnMax,
  kTranspose,     // out[cols, rows]
  kMatmul,        // out[rows, width] = t @ w with w[cols, width]
};
inline constexpr int kTailCount = static_cast<int>(Tail::kMatmul) + 1;

/// One element-wise line: `op` indexes the language's table of operations; its first operand is x on the first line and t
/// after; `input` is the second operand of binary operations (0 x, 1 y, 2 z), else -1.
struct Line {
  int op = 0;
  int input = -1;
  friend bool operator==(const Line&, const Line&) = default;
};

struct Program {
  std::vector<Line> lines;  // at most three; none: t = x
  Tail tail = Tail::kNone;
  friend bool operator==(const Program&, const Program&) = default;

  /// Inputs of shape [rows, cols] that it reads, 1 to 3; kMatmul's w comes besides.
  int inputs() const;
};

/// Draws a program. Chains are numerically tame (|t| <= 100 for inputs within 4.5 standard deviations), no line is the
/// identity on the values that reach it, and at most one line saturates, so that no answer without work comes near.
Program DrawProgram(SplitMix& random);

/// Unique for a program and readable: "mul_y-sigmoid-row_sum". Task ids are these.
std::string Key(const Program& program);
/// The program that Key wrote; nothing for any other text.
std::optional<Program> ParseKey(absl::string_view key);

/// The lines, each ended by a newline.
std::string ProgramText(const Program& program);
/// The program that ProgramText wrote; nothing for any other text.
std::optional<Program> ParseProgram(absl::string_view text);

/// The entry point, as the verifier derives it from ReferenceText: inputs x, y, z, then w; out; rows, cols, width.
Signature ProgramSignature(const Program& program);

/// The PyTorch module, sizes included.
std::string ReferenceText(const Program& program);
/// Checked shapes besides the timed one: one element, and sizes that no block size divides, higher than wide and wider
/// than high.
std::vector<Sizes> ProgramVariants(const Program& program);

/// How an operation is written in CUDA C++. Every spelling is right within the task's tolerance.
enum class Spelling {
  kPlain,   // the accurate single-precision library
  kFast,    // intrinsics and cheaper identities
  kDouble,  // through double precision or powf: slow
};

/// The chain as a device function of its inputs, each line written as `spellings` says (one a line):
///   __device__ float f(float x, float y) {
///     float t = x * y;
///     t = 1.0f / (1.0f + expf(-t));
///     return t;
///   }
std::string DeviceFunction(const Program& program, const std::vector<Spelling>& spellings);

/// The same `f`, one operation at a time: each line is a function that is not inlined, in the accurate library. What the
/// scalar baseline computes with.
std::string OpByOpFunction(const Program& program);

absl::string_view Name(Tail tail);  // "row_sum"

}  // namespace hone::rollout
