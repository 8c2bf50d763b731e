// The styles of reductions along rows and down columns.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "rollout/sampler/kernel_writer.h"

namespace hone::rollout {
namespace {

std::string Of(absl::string_view form, absl::string_view value) { return absl::StrReplaceAll(form, {{"v", value}}); }

constexpr absl::string_view kRowLoop = "for (int i = r * cols; i < (r + 1) * cols; ++i) {";

}  // namespace

// ---- Along rows. ----

void KernelWriter::Reduce() {
  if (Is("staged")) return ReduceSerial(/*staged=*/true);
  if (Is("lanes")) return ReduceLanes();
  if (Is("block")) return ReduceBlock();
  if (Is("warp")) return ReduceWarp();
  if (Is("online")) return ReduceOnline();
  if (Is("atomic")) return ReduceAtomic();
  ReduceSerial(/*staged=*/false);
}

void KernelWriter::ReduceSerial(bool staged) {
  RowOfThread();
  for (size_t pass = 0; pass < plan_.reductions.size(); ++pass) {
    const Reduction& reduction = plan_.reductions[pass];
    Line(1, "float ", reduction.name, " = ", Init(reduction), ";");
    Line(1, kRowLoop);
    Value(2, staged, pass);
    Line(2, Combine(reduction, reduction.name, reduction.term));
    Line(1, "}");
    After(reduction);
  }
  if (plan_.element.empty()) {
    Line(1, "out[r] = ", plan_.row, ";");
  } else {
    Line(1, kRowLoop);
    Value(2, staged, plan_.reductions.size());
    Line(2, "out[i] = ", plan_.element, ";");
    Line(1, "}");
  }
  LaunchOver("rows", choices_.block);
}

/// Several accumulators a thread, so that no addition waits for the one before it.
void KernelWriter::ReduceLanes() {
  const int lanes = choices_.lanes;
  const bool staged = !plan_.element.empty();
  RowOfThread();
  Line(1, "int b = r * cols, e = b + cols;");
  Line(1, "float p[", lanes, "];");
  for (size_t pass = 0; pass < plan_.reductions.size(); ++pass) {
    const Reduction& reduction = plan_.reductions[pass];
    const bool again = staged && pass > 0;
    Line(1, "for (int j = 0; j < ", lanes, "; ++j) p[j] = ", Init(reduction), ";");
    Line(1, pass == 0 ? "int i = b;" : "i = b;");
    Line(1, "for (; i + ", lanes, " <= e; i += ", lanes, ")");
    Line(2, "for (int j = 0; j < ", lanes, "; ++j) {");
    Line(3, "float v = ", again ? "out[i + j]" : Call("i + j"), ";");
    if (staged && pass == 0) Line(3, "out[i + j] = v;");
    Line(3, Combine(reduction, "p[j]", reduction.term));
    Line(2, "}");
    Line(1, "for (; i < e; ++i) {");
    Value(2, staged, pass);
    Line(2, Combine(reduction, "p[0]", reduction.term));
    Line(1, "}");
    Line(1, "float ", reduction.name, " = p[0];");
    Line(1, "for (int j = 1; j < ", lanes, "; ++j) ", Combine(reduction, reduction.name, "p[j]"));
    After(reduction);
  }
  if (plan_.element.empty()) {
    Line(1, "out[r] = ", plan_.row, ";");
  } else {
    Line(1, "for (i = b; i < e; ++i) out[i] = ", Of(plan_.element, "out[i]"), ";");
  }
  LaunchOver("rows", choices_.block);
}

void KernelWriter::ReduceBlock() {
  const int block = choices_.block;
  const std::string loop = absl::StrCat("for (int i = r * cols + j; i < (r + 1) * cols; i += ", block, ") {");
  Line(1, "__shared__ float p[", block, "];");
  Line(1, "int r = blockIdx.x, j = threadIdx.x;");
  for (size_t pass = 0; pass < plan_.reductions.size(); ++pass) {
    const Reduction& reduction = plan_.reductions[pass];
    if (pass > 0) Line(1, "__syncthreads();");
    Line(1, "float ", reduction.name, " = ", Init(reduction), ";");
    Line(1, loop);
    Value(2, /*staged=*/false, pass);
    Line(2, Combine(reduction, reduction.name, reduction.term));
    Line(1, "}");
    TreeReduce(reduction);
    After(reduction);
  }
  if (plan_.element.empty()) {
    Line(1, "if (j == 0) out[r] = ", plan_.row, ";");
  } else {
    Line(1, loop);
    Value(2, /*staged=*/false, 1);
    Line(2, "out[i] = ", plan_.element, ";");
    Line(1, "}");
  }
  absl::StrAppend(&launch_, "  k<<<rows, ", block, ", 0, stream>>>(", arguments_, ");\n");
}

void KernelWriter::ReduceWarp() {
  constexpr absl::string_view kLoop = "for (int i = r * cols + j; i < (r + 1) * cols; i += 32) {";
  Line(1, "int r = blockIdx.x, j = threadIdx.x;");
  for (size_t pass = 0; pass < plan_.reductions.size(); ++pass) {
    const Reduction& reduction = plan_.reductions[pass];
    Line(1, "float ", reduction.name, " = ", Init(reduction), ";");
    Line(1, kLoop);
    Value(2, /*staged=*/false, pass);
    Line(2, Combine(reduction, reduction.name, reduction.term));
    Line(1, "}");
    const std::string other = absl::StrCat("__shfl_xor_sync(~0u, ", reduction.name, ", d)");
    Line(1, "for (int d = 16; d > 0; d /= 2) ", Combine(reduction, reduction.name, other));
    After(reduction);
  }
  if (plan_.element.empty()) {
    Line(1, "if (j == 0) out[r] = ", plan_.row, ";");
  } else {
    Line(1, kLoop);
    Value(2, /*staged=*/false, 1);
    Line(2, "out[i] = ", plan_.element, ";");
    Line(1, "}");
  }
  absl::StrAppend(&launch_, "  k<<<rows, 32, 0, stream>>>(", arguments_, ");\n");
}

/// Maximum and sum of exponentials in one pass (Milakov, Gimelshein, arXiv:1805.02867).
void KernelWriter::ReduceOnline() {
  const std::string exponent = choices_.fast ? "__expf" : "expf";
  RowOfThread();
  Line(1, "float m = -1e30f, s = 0.0f;");
  Line(1, kRowLoop);
  Line(2, "float v = ", Call("i"), ", n = fmaxf(m, v);");
  Line(2, "s = s * ", exponent, "(m - n) + ", exponent, "(v - n);");
  Line(2, "m = n;");
  Line(1, "}");
  if (plan_.element.empty()) {
    Line(1, "out[r] = ", plan_.row, ";");
  } else {
    Line(1, kRowLoop);
    Value(2, /*staged=*/false, 1);
    Line(2, "out[i] = ", plan_.element, ";");
    Line(1, "}");
  }
  LaunchOver("rows", choices_.block);
}

void KernelWriter::ReduceAtomic() {
  Line(1, "int i = blockIdx.x * blockDim.x + threadIdx.x;");
  Line(1, "if (i >= rows * cols) return;");
  Value(1, /*staged=*/false, 0);
  Line(1, "atomicAdd(&out[i / cols], ", plan_.reductions[0].term, plan_.row == "a" ? "" : " / cols", ");");
  absl::StrAppend(&launch_, "  cudaMemsetAsync(out, 0, 4 * rows, stream);\n");
  LaunchOver("rows * cols", choices_.block);
}

// ---- Down columns. ----

void KernelWriter::Column() {
  if (Is("lanes")) return ColumnLanes();
  if (Is("block")) return ColumnBlock();
  if (Is("atomic")) return ColumnAtomic();
  ColumnSerial();
}

void KernelWriter::ColumnSerial() {
  const Reduction& reduction = plan_.reductions[0];
  Line(1, "int c = blockIdx.x * blockDim.x + threadIdx.x;");
  Line(1, "if (c >= cols) return;");
  Line(1, "float a = ", Init(reduction), ";");
  Line(1, "for (int i = c; i < rows * cols; i += cols) {");
  Value(2, /*staged=*/false, 0);
  Line(2, Combine(reduction, "a", reduction.term));
  Line(1, "}");
  Line(1, "out[c] = ", plan_.row, ";");
  LaunchOver("cols", choices_.block);
}

/// Neighbouring columns in one thread, so that a row is read in its order.
void KernelWriter::ColumnLanes() {
  const Reduction& reduction = plan_.reductions[0];
  const int lanes = choices_.lanes;
  Line(1, "int b = ", lanes, " * (blockIdx.x * blockDim.x + threadIdx.x);");
  Line(1, "float p[", lanes, "];");
  Line(1, "for (int j = 0; j < ", lanes, "; ++j) p[j] = ", Init(reduction), ";");
  Line(1, "for (int r = 0; r < rows; ++r)");
  Line(2, "for (int j = 0; j < ", lanes, "; ++j)");
  Line(3, "if (b + j < cols) {");
  Line(4, "int i = r * cols + b + j;");
  Value(4, /*staged=*/false, 0);
  Line(4, Combine(reduction, "p[j]", reduction.term));
  Line(3, "}");
  Line(1, "for (int j = 0; j < ", lanes, "; ++j)");
  Line(2, "if (b + j < cols) out[b + j] = ", absl::StrReplaceAll(plan_.row, {{"a", "p[j]"}}), ";");
  absl::StrAppend(&launch_, "  int n = (cols + ", lanes - 1, ") / ", lanes, ";\n");
  LaunchOver("n", 32);
}

void KernelWriter::ColumnBlock() {
  const Reduction& reduction = plan_.reductions[0];
  Line(1, "__shared__ float p[", choices_.block, "];");
  Line(1, "int c = blockIdx.x, j = threadIdx.x;");
  Line(1, "float a = ", Init(reduction), ";");
  Line(1, "for (int r = j; r < rows; r += ", choices_.block, ") {");
  Line(2, "int i = r * cols + c;");
  Value(2, /*staged=*/false, 0);
  Line(2, Combine(reduction, "a", reduction.term));
  Line(1, "}");
  TreeReduce(reduction);
  Line(1, "if (j == 0) out[c] = ", plan_.row, ";");
  absl::StrAppend(&launch_, "  k<<<cols, ", choices_.block, ", 0, stream>>>(", arguments_, ");\n");
}

void KernelWriter::ColumnAtomic() {
  Line(1, "int i = blockIdx.x * blockDim.x + threadIdx.x;");
  Line(1, "if (i >= rows * cols) return;");
  Value(1, /*staged=*/false, 0);
  Line(1, "atomicAdd(&out[i % cols], ", plan_.row == "a" ? "v" : "v / rows", ");");
  absl::StrAppend(&launch_, "  cudaMemsetAsync(out, 0, 4 * cols, stream);\n");
  LaunchOver("rows * cols", choices_.block);
}

}  // namespace hone::rollout
