#include "rollout/sampler/kernel_writer.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"

namespace hone::rollout {
namespace {

constexpr absl::string_view kInputNames[] = {"x", "y", "z"};

std::string Parameters(const Signature& signature) {
  std::string text = signature.Declaration();
  const size_t begin = text.find('(') + 1;
  return text.substr(begin, text.find(", cudaStream_t") - begin);
}

std::string Arguments(const Signature& signature) {
  std::vector<std::string> names;
  for (const TensorArgument& tensor : signature.tensors) names.push_back(tensor.spec.name);
  for (const SizeArgument& size : signature.sizes) names.push_back(size.name);
  return absl::StrJoin(names, ", ");
}

}  // namespace

ReductionPlan PlanOf(Tail tail, bool fast) {
  const std::string exponent = fast ? "__expf" : "expf";
  const std::string scale = "s = rsqrtf(s / cols + 1e-5f);";
  const Reduction maximum = {"m", true, "v", ""};
  const Reduction exponentials = {"s", false, exponent + "(v - m)", ""};
  switch (tail) {
    case Tail::kRowSum:
    case Tail::kColumnSum:
      return {{{"a", false, "v", ""}}, "", "a"};
    case Tail::kRowMean:
      return {{{"a", false, "v", ""}}, "", "a / cols"};
    case Tail::kColumnMean:
      return {{{"a", false, "v", ""}}, "", "a / rows"};
    case Tail::kRowMax:
    case Tail::kColumnMax:
      return {{{"a", true, "v", ""}}, "", "a"};
    case Tail::kRowMeanSquare:
      return {{{"a", false, "v * v", ""}}, "", "a / cols"};
    case Tail::kLogSumExp:
      return {{maximum, exponentials}, "", fast ? "m + __logf(s)" : "m + logf(s)"};
    case Tail::kSoftmax:
      return {{maximum, exponentials}, exponent + "(v - m) / s", ""};
    case Tail::kLayerNorm:
      return {{{"m", false, "v", "m /= cols;"}, {"s", false, "(v - m) * (v - m)", scale}}, "(v - m) * s", ""};
    case Tail::kRmsNorm:
      return {{{"a", false, "v * v", "a = rsqrtf(a / cols + 1e-5f);"}}, "v * a", ""};
    case Tail::kNone:
    case Tail::kTranspose:
    case Tail::kMatmul:
      return {};
  }
  HONE_CHECK(!"unknown tail");
}

KernelWriter::KernelWriter(const Program& program, const KernelChoices& choices)
    : program_(program), choices_(choices), plan_(PlanOf(program.tail, choices.fast)) {
  const Signature signature = ProgramSignature(program);
  arguments_ = Arguments(signature);
  parameters_ = Parameters(signature);
}

std::string KernelWriter::Write(absl::string_view function) {
  switch (program_.tail) {
    case Tail::kNone:
      Map();
      break;
    case Tail::kRowSum:
    case Tail::kRowMean:
    case Tail::kRowMax:
    case Tail::kRowMeanSquare:
    case Tail::kLogSumExp:
    case Tail::kSoftmax:
    case Tail::kLayerNorm:
    case Tail::kRmsNorm:
      Reduce();
      break;
    case Tail::kColumnSum:
    case Tail::kColumnMean:
    case Tail::kColumnMax:
      Column();
      break;
    case Tail::kTranspose:
      Transpose();
      break;
    case Tail::kMatmul:
      Matmul();
      break;
  }
  return absl::StrCat(function, "__global__ void k(", parameters_, ") {\n", body_, "}\n",
                      ProgramSignature(program_).Declaration(), " {\n", launch_, "}\n");
}

std::string KernelWriter::Call(absl::string_view index) const {
  std::vector<std::string> values;
  for (int i = 0; i < program_.inputs(); ++i) values.push_back(absl::StrCat(kInputNames[i], "[", index, "]"));
  return absl::StrCat("f(", absl::StrJoin(values, ", "), ")");
}

std::string KernelWriter::Combine(const Reduction& reduction, absl::string_view into, absl::string_view value) {
  return reduction.is_max ? absl::StrCat(into, " = fmaxf(", into, ", ", value, ");")
                          : absl::StrCat(into, " += ", value, ";");
}

/// v: computed, or read back from out where an earlier pass left it.
void KernelWriter::Value(int depth, bool staged, size_t pass) {
  Line(depth, "float v = ", staged && pass > 0 ? "out[i]" : Call("i"), ";");
  if (staged && pass == 0) Line(depth, "out[i] = v;");
}

void KernelWriter::After(const Reduction& reduction) {
  if (!reduction.after.empty()) Line(1, reduction.after);
}

void KernelWriter::RowOfThread() {
  Line(1, "int r = blockIdx.x * blockDim.x + threadIdx.x;");
  Line(1, "if (r >= rows) return;");
}

/// Leaves the block's total in the accumulator of every thread; p is free again.
void KernelWriter::TreeReduce(const Reduction& reduction) {
  Line(1, "p[j] = ", reduction.name, ";");
  Line(1, "__syncthreads();");
  Line(1, "for (int d = ", choices_.block / 2, "; d > 0; d /= 2) {");
  Line(2, "if (j < d) ", Combine(reduction, "p[j]", "p[j + d]"));
  Line(2, "__syncthreads();");
  Line(1, "}");
  Line(1, reduction.name, " = p[0];");
}

void KernelWriter::LaunchOver(absl::string_view count, int block) {
  absl::StrAppend(&launch_, "  k<<<(", count, " + ", block - 1, ") / ", block, ", ", block, ", 0, stream>>>(", arguments_,
                  ");\n");
}

// ---- Element-wise. ----

void KernelWriter::Map() {
  if (Is("stride")) return MapStride();
  if (Is("row")) return MapRow();
  if (Is("block_row")) return MapBlockRow();
  if (Is("chunk")) return MapChunk();
  if (Is("float4")) return MapFloat4();
  MapFlat();
}

void KernelWriter::MapFlat() {
  Line(1, "int i = blockIdx.x * blockDim.x + threadIdx.x;");
  Line(1, "if (i < rows * cols) out[i] = ", Call("i"), ";");
  LaunchOver("rows * cols", choices_.block);
}

void KernelWriter::MapStride() {
  Line(1, "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * cols; i += gridDim.x * blockDim.x)");
  Line(2, "out[i] = ", Call("i"), ";");
  absl::StrAppend(&launch_, "  k<<<64, ", choices_.block, ", 0, stream>>>(", arguments_, ");\n");
}

void KernelWriter::MapRow() {
  RowOfThread();
  Line(1, "for (int i = r * cols; i < (r + 1) * cols; ++i) out[i] = ", Call("i"), ";");
  LaunchOver("rows", choices_.block);
}

void KernelWriter::MapBlockRow() {
  Line(1, "int r = blockIdx.x;");
  Line(1, "for (int i = r * cols + threadIdx.x; i < (r + 1) * cols; i += ", choices_.block, ") out[i] = ", Call("i"), ";");
  absl::StrAppend(&launch_, "  k<<<rows, ", choices_.block, ", 0, stream>>>(", arguments_, ");\n");
}

void KernelWriter::MapChunk() {
  const int lanes = choices_.lanes;
  Line(1, "int b = ", lanes, " * (blockIdx.x * blockDim.x + threadIdx.x);");
  Line(1, "for (int i = b; i < b + ", lanes, " && i < rows * cols; ++i) out[i] = ", Call("i"), ";");
  absl::StrAppend(&launch_, "  int n = (rows * cols + ", lanes - 1, ") / ", lanes, ";\n");
  LaunchOver("n", choices_.block);
}

void KernelWriter::MapFloat4() {
  Line(1, "int j = blockIdx.x * blockDim.x + threadIdx.x;");
  Line(1, "if (4 * j + 3 < rows * cols) {");
  std::string calls;
  for (int i = 0; i < program_.inputs(); ++i) {
    Line(2, "float4 ", std::string(1, "abc"[i]), " = ((float4*)", kInputNames[i], ")[j];");
  }
  for (const char member : {'x', 'y', 'z', 'w'}) {
    std::vector<std::string> values;
    for (int i = 0; i < program_.inputs(); ++i) values.push_back({"abc"[i], '.', member});
    absl::StrAppend(&calls, member == 'x' ? "" : ", ", "f(", absl::StrJoin(values, ", "), ")");
  }
  Line(2, "((float4*)out)[j] = make_float4(", calls, ");");
  Line(1, "} else {");
  Line(2, "for (int i = 4 * j; i < rows * cols; ++i) out[i] = ", Call("i"), ";");
  Line(1, "}");
  absl::StrAppend(&launch_, "  int n = (rows * cols + 3) / 4;\n");
  LaunchOver("n", choices_.block);
}

// ---- Transpose. ----

void KernelWriter::Transpose() {
  if (Is("output")) return TransposeOutput();
  if (Is("tile")) return TransposeTile();
  if (Is("column")) return TransposeColumn();
  if (Is("patch")) return TransposePatch();
  TransposeFlat();
}

void KernelWriter::TransposeFlat() {
  Line(1, "int i = blockIdx.x * blockDim.x + threadIdx.x;");
  Line(1, "int r = i / cols, c = i % cols;");
  Line(1, "if (i < rows * cols) out[c * rows + r] = ", Call("i"), ";");
  LaunchOver("rows * cols", choices_.block);
}

void KernelWriter::TransposeOutput() {
  Line(1, "int j = blockIdx.x * blockDim.x + threadIdx.x;");
  Line(1, "if (j >= rows * cols) return;");
  Line(1, "int c = j / rows, r = j % rows;");
  Line(1, "int i = r * cols + c;");
  Line(1, "out[j] = ", Call("i"), ";");
  LaunchOver("rows * cols", choices_.block);
}

void KernelWriter::TransposeTile() {
  const int side = choices_.block >= 256 ? 16 : 8;
  Line(1, "__shared__ float p[", side, "][", side + 1, "];");
  Line(1, "int c = blockIdx.x * ", side, " + threadIdx.x, r = blockIdx.y * ", side, " + threadIdx.y;");
  Line(1, "int i = r * cols + c;");
  Line(1, "if (r < rows && c < cols) p[threadIdx.y][threadIdx.x] = ", Call("i"), ";");
  Line(1, "__syncthreads();");
  Line(1, "c = blockIdx.x * ", side, " + threadIdx.y, r = blockIdx.y * ", side, " + threadIdx.x;");
  Line(1, "if (r < rows && c < cols) out[c * rows + r] = p[threadIdx.x][threadIdx.y];");
  absl::StrAppend(&launch_, "  dim3 g((cols + ", side - 1, ") / ", side, ", (rows + ", side - 1, ") / ", side, "), b(", side,
                  ", ", side, ");\n  k<<<g, b, 0, stream>>>(", arguments_, ");\n");
}

void KernelWriter::TransposeColumn() {
  Line(1, "int c = blockIdx.x * blockDim.x + threadIdx.x;");
  Line(1, "if (c >= cols) return;");
  Line(1, "for (int r = 0; r < rows; ++r) {");
  Line(2, "int i = r * cols + c;");
  Line(2, "out[c * rows + r] = ", Call("i"), ";");
  Line(1, "}");
  LaunchOver("cols", choices_.block);
}

void KernelWriter::TransposePatch() {
  const int side = choices_.lanes;
  Line(1, "int c0 = ", side, " * (blockIdx.x * blockDim.x + threadIdx.x), r0 = ", side, " * blockIdx.y;");
  Line(1, "for (int c = c0; c < c0 + ", side, " && c < cols; ++c)");
  Line(2, "for (int r = r0; r < r0 + ", side, " && r < rows; ++r) {");
  Line(3, "int i = r * cols + c;");
  Line(3, "out[c * rows + r] = ", Call("i"), ";");
  Line(2, "}");
  absl::StrAppend(&launch_, "  dim3 g((cols + ", 32 * side - 1, ") / ", 32 * side, ", (rows + ", side - 1, ") / ", side,
                  ");\n  k<<<g, 32, 0, stream>>>(", arguments_, ");\n");
}

// ---- Matrix product. ----

void KernelWriter::Matmul() {
  if (Is("lanes")) return MatmulLanes();
  if (Is("row")) return MatmulRow();
  if (Is("shared_row")) return MatmulSharedRow();
  if (Is("tile")) return MatmulTile();
  MatmulDot();
}

void KernelWriter::MatmulDot() {
  Line(1, "int j = blockIdx.x * blockDim.x + threadIdx.x;");
  Line(1, "if (j >= rows * width) return;");
  Line(1, "int r = j / width, q = j % width;");
  Line(1, "float a = 0.0f;");
  Line(1, "for (int c = 0; c < cols; ++c) {");
  Line(2, "int i = r * cols + c;");
  Line(2, "a += ", Call("i"), " * w[c * width + q];");
  Line(1, "}");
  Line(1, "out[j] = a;");
  LaunchOver("rows * width", choices_.block);
}

void KernelWriter::MatmulLanes() {
  const int lanes = choices_.lanes;
  Line(1, "int r = blockIdx.x, b = ", lanes, " * threadIdx.x;");
  Line(1, "for (; b < width; b += ", lanes, " * blockDim.x) {");
  Line(2, "float p[", lanes, "] = {};");
  Line(2, "for (int c = 0; c < cols; ++c) {");
  Line(3, "int i = r * cols + c;");
  Line(3, "float v = ", Call("i"), ";");
  Line(3, "for (int j = 0; j < ", lanes, "; ++j)");
  Line(4, "if (b + j < width) p[j] += v * w[c * width + b + j];");
  Line(2, "}");
  Line(2, "for (int j = 0; j < ", lanes, "; ++j)");
  Line(3, "if (b + j < width) out[r * width + b + j] = p[j];");
  Line(1, "}");
  absl::StrAppend(&launch_, "  k<<<rows, 32, 0, stream>>>(", arguments_, ");\n");
}

void KernelWriter::MatmulRow() {
  RowOfThread();
  Line(1, "for (int q = 0; q < width; ++q) out[r * width + q] = 0.0f;");
  Line(1, "for (int c = 0; c < cols; ++c) {");
  Line(2, "int i = r * cols + c;");
  Line(2, "float v = ", Call("i"), ";");
  Line(2, "for (int q = 0; q < width; ++q) out[r * width + q] += v * w[c * width + q];");
  Line(1, "}");
  LaunchOver("rows", choices_.block);
}

void KernelWriter::MatmulSharedRow() {
  Line(1, "extern __shared__ float p[];");
  Line(1, "int r = blockIdx.x;");
  Line(1, "for (int c = threadIdx.x; c < cols; c += ", choices_.block, ") {");
  Line(2, "int i = r * cols + c;");
  Line(2, "p[c] = ", Call("i"), ";");
  Line(1, "}");
  Line(1, "__syncthreads();");
  Line(1, "for (int q = threadIdx.x; q < width; q += ", choices_.block, ") {");
  Line(2, "float a = 0.0f;");
  Line(2, "for (int c = 0; c < cols; ++c) a += p[c] * w[c * width + q];");
  Line(2, "out[r * width + q] = a;");
  Line(1, "}");
  absl::StrAppend(&launch_, "  k<<<rows, ", choices_.block, ", 4 * cols, stream>>>(", arguments_, ");\n");
}

void KernelWriter::MatmulTile() {
  const int side = choices_.block >= 256 ? 16 : 8;
  Line(1, "__shared__ float p[", side, "][", side, "], s[", side, "][", side, "];");
  Line(1, "int tx = threadIdx.x, ty = threadIdx.y;");
  Line(1, "int q = blockIdx.x * ", side, " + tx, r = blockIdx.y * ", side, " + ty;");
  Line(1, "float a = 0.0f;");
  Line(1, "for (int b = 0; b < cols; b += ", side, ") {");
  Line(2, "int i = r * cols + b + tx;");
  Line(2, "p[ty][tx] = r < rows && b + tx < cols ? ", Call("i"), " : 0.0f;");
  Line(2, "s[ty][tx] = b + ty < cols && q < width ? w[(b + ty) * width + q] : 0.0f;");
  Line(2, "__syncthreads();");
  Line(2, "for (int j = 0; j < ", side, "; ++j) a += p[ty][j] * s[j][tx];");
  Line(2, "__syncthreads();");
  Line(1, "}");
  Line(1, "if (r < rows && q < width) out[r * width + q] = a;");
  absl::StrAppend(&launch_, "  dim3 g((width + ", side - 1, ") / ", side, ", (rows + ", side - 1, ") / ", side, "), b(",
                  side, ", ", side, ");\n  k<<<g, b, 0, stream>>>(", arguments_, ");\n");
}

}  // namespace hone::rollout
