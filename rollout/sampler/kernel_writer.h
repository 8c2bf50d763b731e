#pragma once

// Writes kernels line by line. Only demonstration.cc uses this; kernel_writer_*.cc hold the styles of each kind of tail.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rollout/sampler/demonstration.h"
#include "rollout/sampler/program.h"

namespace hone::rollout {

/// A reduction along a row or a column, and what is made of it.
struct Reduction {
  absl::string_view name;   // of the accumulator
  bool is_max = false;      // else a sum
  std::string term;         // what each value v contributes
  std::string after;        // statement once the whole row is in; may be empty
};

/// Reductions in order (each may use the results before), then one value an element or one a row.
struct ReductionPlan {
  std::vector<Reduction> reductions;
  std::string element;  // of v; empty: the result is `row`
  std::string row;
};

ReductionPlan PlanOf(Tail tail, bool fast);

class KernelWriter {
 public:
  KernelWriter(const Program& program, const KernelChoices& choices);

  /// The whole source. `function`: the device function f.
  std::string Write(absl::string_view function);

 private:
  // One function a style; each appends the kernel's body and sets launch_.
  void Map();
  void MapFlat();
  void MapStride();
  void MapRow();
  void MapBlockRow();
  void MapChunk();
  void MapFloat4();

  void Reduce();
  void ReduceSerial(bool staged);
  void ReduceLanes();
  void ReduceBlock();
  void ReduceWarp();
  void ReduceOnline();
  void ReduceAtomic();

  void Column();
  void ColumnSerial();
  void ColumnLanes();
  void ColumnBlock();
  void ColumnAtomic();

  void Transpose();
  void TransposeFlat();
  void TransposeOutput();
  void TransposeTile();
  void TransposeColumn();
  void TransposePatch();

  void Matmul();
  void MatmulDot();
  void MatmulLanes();
  void MatmulRow();
  void MatmulSharedRow();
  void MatmulTile();

  // Pieces.
  template <class... Parts>
  void Line(int depth, const Parts&... parts) {
    body_.append(2 * depth, ' ');
    absl::StrAppend(&body_, parts..., "\n");
  }
  std::string Call(absl::string_view index) const;  // f(x[index], y[index])
  static std::string Init(const Reduction& reduction) { return reduction.is_max ? "-1e30f" : "0.0f"; }
  static std::string Combine(const Reduction& reduction, absl::string_view into, absl::string_view value);
  void Value(int depth, bool staged, size_t pass);
  void After(const Reduction& reduction);
  void RowOfThread();
  void TreeReduce(const Reduction& reduction);
  void LaunchOver(absl::string_view count, int block);  // one thread for each of `count`
  bool Is(absl::string_view style) const { return choices_.style == style; }

  const Program& program_;
  const KernelChoices& choices_;
  const ReductionPlan plan_;
  std::string arguments_;   // x, y, out, rows, cols
  std::string parameters_;  // const float* x, ..., int cols
  std::string body_;
  std::string launch_;
};

}  // namespace hone::rollout
