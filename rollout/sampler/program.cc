#include "rollout/sampler/program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/names.h"
#include "base/status_macros.h"

namespace hone::rollout {
namespace {

constexpr std::array<absl::string_view, 3> kInputNames = {"x", "y", "z"};
constexpr int kMaxLines = 3;
constexpr double kInputBound = 4.5;   // of a normal input, for the analysis below
constexpr double kValueBound = 100;
constexpr double kLeastWidth = 0.2;

constexpr NameTable<Tail, kTailCount> kTailNames = {{
    {Tail::kNone, "map"},
    {Tail::kRowSum, "row_sum"},
    {Tail::kRowMean, "row_mean"},
    {Tail::kRowMax, "row_max"},
    {Tail::kRowMeanSquare, "row_meansq"},
    {Tail::kLogSumExp, "logsumexp"},
    {Tail::kSoftmax, "softmax"},
    {Tail::kLayerNorm, "layernorm"},
    {Tail::kRmsNorm, "rmsnorm"},
    {Tail::kColumnSum, "col_sum"},
    {Tail::kColumnMean, "col_mean"},
    {Tail::kColumnMax, "col_max"},
    {Tail::kTranspose, "transpose"},
    {Tail::kMatmul, "matmul"},
}};

struct TailForm {
  const char* text;   // after "return "
  const char* torch;  // after "return "
};

TailForm FormOf(Tail tail) {
  switch (tail) {
    case Tail::kNone:
      return {"t", "t"};
    case Tail::kRowSum:
      return {"sum(t, 1)", "t.sum(dim=1)"};
    case Tail::kRowMean:
      return {"mean(t, 1)", "t.mean(dim=1)"};
    case Tail::kRowMax:
      return {"max(t, 1)", "t.amax(dim=1)"};
    case Tail::kRowMeanSquare:
      return {"mean(t * t, 1)", "(t * t).mean(dim=1)"};
    case Tail::kLogSumExp:
      return {"logsumexp(t, 1)", "torch.logsumexp(t, dim=1)"};
    case Tail::kSoftmax:
      return {"softmax(t, 1)", "torch.softmax(t, dim=1)"};
    case Tail::kLayerNorm:
      return {"layernorm(t, 1)", "F.layer_norm(t, (t.shape[1],), eps=1e-5)"};
    case Tail::kRmsNorm:
      return {"rmsnorm(t, 1)", "t * torch.rsqrt((t * t).mean(dim=1, keepdim=True) + 1e-5)"};
    case Tail::kColumnSum:
      return {"sum(t, 0)", "t.sum(dim=0)"};
    case Tail::kColumnMean:
      return {"mean(t, 0)", "t.mean(dim=0)"};
    case Tail::kColumnMax:
      return {"max(t, 0)", "t.amax(dim=0)"};
    case Tail::kTranspose:
      return {"transpose(t)", "t.t().contiguous()"};
    case Tail::kMatmul:
      return {"t @ w", "t @ w"};
  }
  HONE_CHECK(!"unknown tail");
}

bool IsMax(Tail tail) { return tail == Tail::kRowMax || tail == Tail::kColumnMax; }

/// Values that t can take.
struct Interval {
  double low = -kInputBound;
  double high = kInputBound;
};

Interval Unordered(std::initializer_list<double> ends) { return {std::min(ends), std::max(ends)}; }
Interval Increasing(double (*f)(double), Interval t) { return {f(t.low), f(t.high)}; }

struct Operation {
  absl::string_view key;
  absl::string_view text;    // $ is the first operand, # the second
  absl::string_view torch;
  absl::string_view plain;   // CUDA C++
  absl::string_view fast;
  absl::string_view slow;    // Spelling::kDouble
  bool binary;
  bool saturates;            // values pile up at an end of its range
  Interval (*range)(Interval);
};

constexpr Interval kWild = {-1e9, 1e9};
constexpr Interval kSecond = {-kInputBound, kInputBound};

/// The language's operations; a Line refers to them by position, so that new ones go to the end.
const std::vector<Operation>& Operations() {
  static const auto* const operations = new std::vector<Operation>{
      {"relu", "relu($)", "torch.relu($)", "fmaxf($, 0.0f)", "fmaxf($, 0.0f)", "$ > 0.0 ? $ : 0.0", false, false,
       [](Interval t) { return Interval{std::max(t.low, 0.0), std::max(t.high, 0.0)}; }},
      {"sigmoid", "sigmoid($)", "torch.sigmoid($)", "1.0f / (1.0f + expf(-$))", "1.0f / (1.0f + __expf(-$))",
       "1.0 / (1.0 + exp(-(double)$))", false, true,
       [](Interval t) { return Increasing([](double v) { return 1 / (1 + std::exp(-v)); }, t); }},
      {"tanh", "tanh($)", "torch.tanh($)", "tanhf($)", "1.0f - 2.0f / (__expf(2.0f * $) + 1.0f)", "tanh((double)$)", false,
       true, [](Interval t) { return Increasing([](double v) { return std::tanh(v); }, t); }},
      {"exp", "exp($)", "torch.exp($)", "expf($)", "__expf($)", "exp((double)$)", false, false,
       [](Interval t) { return Increasing([](double v) { return std::exp(v); }, t); }},
      {"abs", "abs($)", "torch.abs($)", "fabsf($)", "fabsf($)", "$ < 0.0 ? -$ : $", false, false,
       [](Interval t) { return Interval{std::max({t.low, -t.high, 0.0}), std::max(-t.low, t.high)}; }},
      {"square", "$ * $", "$ * $", "$ * $", "$ * $", "powf($, 2.0f)", false, false,
       [](Interval t) {
         const double least = std::max({t.low, -t.high, 0.0});
         const double most = std::max(-t.low, t.high);
         return Interval{least * least, most * most};
       }},
      {"silu", "silu($)", "F.silu($)", "$ / (1.0f + expf(-$))", "$ / (1.0f + __expf(-$))", "$ / (1.0 + exp(-(double)$))",
       false, false,
       [](Interval t) { return Interval{std::max(-0.28, std::min(t.low, 0.0)), std::max(t.high, 0.0)}; }},
      {"gelu", "gelu($)", "F.gelu($, approximate=\"tanh\")",
       "0.5f * $ * (1.0f + tanhf(0.7978846f * ($ + 0.044715f * $ * $ * $)))",
       "$ / (1.0f + __expf(-1.5957691f * ($ + 0.044715f * $ * $ * $)))",
       "0.5f * $ * (1.0f + tanhf(0.7978846f * ($ + 0.044715f * powf($, 3.0f))))", false, false,
       [](Interval t) { return Interval{std::max(-0.17, std::min(t.low, 0.0)), std::max(t.high, 0.0)}; }},
      {"softplus", "softplus($)", "F.softplus($)", "log1pf(expf($))", "__logf(1.0f + __expf($))", "log1p(exp((double)$))",
       false, false, [](Interval t) {  // exp overflows in single precision where PyTorch switches to the identity
         return t.high > 60 ? kWild : Increasing([](double v) { return std::log1p(std::exp(v)); }, t);
       }},
      {"leaky", "leaky($)", "F.leaky_relu($, 0.1)", "$ > 0.0f ? $ : 0.1f * $", "fmaxf($, 0.1f * $)", "$ > 0.0 ? $ : 0.1 * $",
       false, false, [](Interval t) { return Increasing([](double v) { return v > 0 ? v : 0.1 * v; }, t); }},
      {"clamp", "clamp($, -1, 1)", "torch.clamp($, -1.0, 1.0)", "fminf(fmaxf($, -1.0f), 1.0f)",
       "fminf(fmaxf($, -1.0f), 1.0f)", "$ < -1.0 ? -1.0 : $ > 1.0 ? 1.0 : $", false, true,
       [](Interval t) { return Interval{std::clamp(t.low, -1.0, 1.0), std::clamp(t.high, -1.0, 1.0)}; }},
      {"root", "sqrt($ * $ + 1)", "torch.sqrt($ * $ + 1.0)", "sqrtf($ * $ + 1.0f)", "sqrtf($ * $ + 1.0f)",
       "sqrt((double)$ * $ + 1.0)", false, false,
       [](Interval t) {
         const double most = std::max(-t.low, t.high), least = std::max({t.low, -t.high, 0.0});
         return Interval{std::sqrt(least * least + 1), std::sqrt(most * most + 1)};
       }},
      {"recip", "1 / ($ * $ + 1)", "1.0 / ($ * $ + 1.0)", "1.0f / ($ * $ + 1.0f)", "__fdividef(1.0f, $ * $ + 1.0f)",
       "1.0 / (powf($, 2.0f) + 1.0)", false, true,
       [](Interval t) {
         const double most = std::max(-t.low, t.high), least = std::max({t.low, -t.high, 0.0});
         return Interval{1 / (most * most + 1), 1 / (least * least + 1)};
       }},
      {"logabs", "log(abs($) + 1)", "torch.log(torch.abs($) + 1.0)", "log1pf(fabsf($))", "__logf(fabsf($) + 1.0f)",
       "log(fabs((double)$) + 1.0)", false, false,
       [](Interval t) {
         const double most = std::max(-t.low, t.high), least = std::max({t.low, -t.high, 0.0});
         return Interval{std::log1p(least), std::log1p(most)};
       }},
      {"half", "$ * 0.5", "$ * 0.5", "$ * 0.5f", "$ * 0.5f", "$ / 2.0", false, false,
       [](Interval t) { return Interval{t.low * 0.5, t.high * 0.5}; }},
      {"triple", "$ * 3", "$ * 3.0", "$ * 3.0f", "$ * 3.0f", "$ * 3.0", false, false,
       [](Interval t) { return Interval{t.low * 3, t.high * 3}; }},
      {"inc", "$ + 1", "$ + 1.0", "$ + 1.0f", "$ + 1.0f", "$ + 1.0", false, false,
       [](Interval t) { return Interval{t.low + 1, t.high + 1}; }},
      {"dec", "$ - 2", "$ - 2.0", "$ - 2.0f", "$ - 2.0f", "$ - 2.0", false, false,
       [](Interval t) { return Interval{t.low - 2, t.high - 2}; }},
      {"add", "$ + #", "$ + #", "$ + #", "$ + #", "(double)$ + #", true, false,
       [](Interval t) { return Interval{t.low + kSecond.low, t.high + kSecond.high}; }},
      {"sub", "$ - #", "$ - #", "$ - #", "$ - #", "(double)$ - #", true, false,
       [](Interval t) { return Interval{t.low + kSecond.low, t.high + kSecond.high}; }},
      {"mul", "$ * #", "$ * #", "$ * #", "$ * #", "(double)$ * #", true, false,
       [](Interval t) { return Unordered({t.low * kSecond.low, t.low * kSecond.high, t.high * kSecond.low, t.high * kSecond.high}); }},
      {"max", "max($, #)", "torch.maximum($, #)", "fmaxf($, #)", "fmaxf($, #)", "$ > # ? $ : #", true, false,
       [](Interval t) { return Interval{std::max(t.low, kSecond.low), std::max(t.high, kSecond.high)}; }},
      {"min", "min($, #)", "torch.minimum($, #)", "fminf($, #)", "fminf($, #)", "$ < # ? $ : #", true, false,
       [](Interval t) { return Interval{std::min(t.low, kSecond.low), std::min(t.high, kSecond.high)}; }},
  };
  return *operations;
}

std::string Fill(absl::string_view form, absl::string_view first, absl::string_view second) {
  return absl::StrReplaceAll(form, {{"$", first}, {"#", second}});
}

absl::string_view FirstOperand(size_t line) { return line == 0 ? "x" : "t"; }
absl::string_view SecondOperand(const Line& line) { return line.input < 0 ? "" : kInputNames[line.input]; }

std::string Render(absl::string_view form, const Program& program, size_t index) {
  return Fill(form, FirstOperand(index), SecondOperand(program.lines[index]));
}

absl::string_view Spelled(const Operation& operation, Spelling spelling) {
  switch (spelling) {
    case Spelling::kPlain:
      return operation.plain;
    case Spelling::kFast:
      return operation.fast;
    case Spelling::kDouble:
      return operation.slow;
  }
  HONE_CHECK(!"unknown spelling");
}

bool Same(Interval a, Interval b) { return a.low == b.low && a.high == b.high; }

/// Whether `line` may follow on values in `t`; then `t` becomes what it leaves.
bool Accept(const Line& line, Tail tail, bool& saturated, Interval& t) {
  const Operation& operation = Operations()[line.op];
  if (operation.saturates && (saturated || IsMax(tail))) return false;
  const Interval next = operation.range(t);
  const bool idle = !operation.binary && Same(next, t);  // relu of what is positive already
  const bool wild = std::max(-next.low, next.high) > kValueBound;
  if (idle || wild || next.high - next.low < kLeastWidth) return false;
  saturated = saturated || operation.saturates;
  t = next;
  return true;
}

Line DrawLine(SplitMix& random, bool first, int inputs_so_far) {
  Line line;
  line.op = static_cast<int>(random.Below(static_cast<int64_t>(Operations().size())));
  if (Operations()[line.op].binary) {
    // The next unused input, or, where t is no longer plain x, one that was used before.
    const int fresh = std::min<int>(inputs_so_far, kInputNames.size() - 1);
    line.input = first || random.Chance(0.7) ? fresh : static_cast<int>(random.Below(fresh + 1));
  }
  return line;
}

std::optional<Program> TryDraw(SplitMix& random) {
  constexpr double kTailWeights[kTailCount] = {5, 2, 1.5, 1.5, 1.5, 1, 2, 1.5, 1.5, 1, 1, 1, 1.5, 1.5};
  constexpr double kLengthWeights[kMaxLines + 1] = {0.3, 3, 4, 3};
  Program program;
  program.tail = static_cast<Tail>(random.Pick(kTailWeights));
  const int length = random.Pick(kLengthWeights);
  if (length == 0 && program.tail == Tail::kNone) return std::nullopt;  // a copy
  bool saturated = false;
  Interval values;
  for (int i = 0; i < length; ++i) {
    const Line line = DrawLine(random, i == 0, program.inputs());
    if (!Accept(line, program.tail, saturated, values)) return std::nullopt;
    program.lines.push_back(line);
  }
  return program;
}

bool UsesFunctional(const Program& program) {
  if (program.tail == Tail::kLayerNorm) return true;
  return std::any_of(program.lines.begin(), program.lines.end(),
                     [](const Line& line) { return absl::StrContains(Operations()[line.op].torch, "F."); });
}

std::string DeviceParameters(const Program& program) {
  std::vector<std::string> parameters;
  for (int i = 0; i < program.inputs(); ++i) parameters.push_back(absl::StrCat("float ", kInputNames[i]));
  return absl::StrJoin(parameters, ", ");
}

std::vector<std::string> InputNames(const Program& program) {
  std::vector<std::string> names;
  for (int i = 0; i < program.inputs(); ++i) names.emplace_back(kInputNames[i]);
  if (program.tail == Tail::kMatmul) names.emplace_back("w");
  return names;
}

struct Extents {
  int64_t rows;
  int64_t cols;
  int64_t width;  // kMatmul only
};

/// Small enough that a verdict costs milliseconds under emulation, large enough that launching is not what is timed.
Extents TimedExtents(Tail tail) { return tail == Tail::kMatmul ? Extents{64, 96, 80} : Extents{160, 260, 0}; }

std::vector<std::string> OutputDimensions(Tail tail) {
  switch (tail) {
    case Tail::kNone:
    case Tail::kSoftmax:
    case Tail::kLayerNorm:
    case Tail::kRmsNorm:
      return {"rows", "cols"};
    case Tail::kRowSum:
    case Tail::kRowMean:
    case Tail::kRowMax:
    case Tail::kRowMeanSquare:
    case Tail::kLogSumExp:
      return {"rows"};
    case Tail::kColumnSum:
    case Tail::kColumnMean:
    case Tail::kColumnMax:
      return {"cols"};
    case Tail::kTranspose:
      return {"cols", "rows"};
    case Tail::kMatmul:
      return {"rows", "width"};
  }
  HONE_CHECK(!"unknown tail");
}

}  // namespace

int Program::inputs() const {
  int last = 0;
  for (const Line& line : lines) last = std::max(last, line.input);
  return last + 1;
}

absl::string_view Name(Tail tail) { return NameIn(kTailNames, tail); }

Program DrawProgram(SplitMix& random) {
  for (;;) {
    if (std::optional<Program> program = TryDraw(random)) return *std::move(program);
  }
}

std::string Key(const Program& program) {
  std::vector<std::string> parts;
  if (program.lines.empty()) parts.emplace_back("x");
  for (const Line& line : program.lines) {
    const Operation& operation = Operations()[line.op];
    parts.push_back(operation.binary ? absl::StrCat(operation.key, "_", SecondOperand(line)) : std::string(operation.key));
  }
  parts.emplace_back(Name(program.tail));
  return absl::StrJoin(parts, "-");
}

namespace {

std::optional<Line> LineOfKey(absl::string_view part) {
  for (size_t op = 0; op < Operations().size(); ++op) {
    const Operation& operation = Operations()[op];
    if (!operation.binary && part == operation.key) return Line{static_cast<int>(op), -1};
    for (size_t input = 0; operation.binary && input < kInputNames.size(); ++input) {
      if (part == absl::StrCat(operation.key, "_", kInputNames[input])) return Line{static_cast<int>(op), static_cast<int>(input)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Program> ParseKey(absl::string_view key) {
  std::vector<std::string> parts = absl::StrSplit(key, '-');
  if (parts.size() < 2) return std::nullopt;
  const std::optional<Tail> tail = ParseIn(kTailNames, parts.back());
  if (!tail) return std::nullopt;
  Program program;
  program.tail = *tail;
  parts.pop_back();
  if (parts == std::vector<std::string>{"x"}) return program;
  for (const std::string& part : parts) {
    const std::optional<Line> line = LineOfKey(part);
    if (!line) return std::nullopt;
    program.lines.push_back(*line);
  }
  return Key(program) == key ? std::optional<Program>(program) : std::nullopt;
}

std::string ProgramText(const Program& program) {
  std::string text;
  if (program.lines.empty()) text = "t = x\n";
  for (size_t i = 0; i < program.lines.size(); ++i) {
    absl::StrAppend(&text, "t = ", Render(Operations()[program.lines[i].op].text, program, i), "\n");
  }
  return absl::StrCat(text, "return ", FormOf(program.tail).text, "\n");
}

std::optional<Program> ParseProgram(absl::string_view text) {
  Program program;
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.size() < 3 || lines.size() > kMaxLines + 2 || !lines.back().empty()) return std::nullopt;
  const size_t chain = lines.size() - 2;
  bool tail_found = false;
  for (const auto& [tail, name] : kTailNames) {
    if (lines[chain] != absl::StrCat("return ", FormOf(tail).text)) continue;
    program.tail = tail;
    tail_found = true;
  }
  if (!tail_found) return std::nullopt;
  if (chain == 1 && lines[0] == "t = x") return program;
  for (size_t i = 0; i < chain; ++i) {
    bool found = false;
    for (int op = 0; op < static_cast<int>(Operations().size()) && !found; ++op) {
      const bool binary = Operations()[op].binary;
      for (int input = binary ? 0 : -1; input < (binary ? 3 : 0) && !found; ++input) {
        program.lines.push_back({op, input});
        found = lines[i] == absl::StrCat("t = ", Render(Operations()[op].text, program, i));
        if (!found) program.lines.pop_back();
      }
    }
    if (!found) return std::nullopt;
  }
  return program;
}

Signature ProgramSignature(const Program& program) {
  const Extents extents = TimedExtents(program.tail);
  const auto extent = [&](const std::string& name) {
    return name == "rows" ? extents.rows : name == "cols" ? extents.cols : extents.width;
  };
  Signature signature;
  const auto add = [&](TensorArgument::Role role, const std::string& name, std::vector<std::string> dimensions) {
    TensorArgument argument;
    argument.role = role;
    argument.spec.name = name;
    for (const std::string& dimension : dimensions) argument.spec.shape.push_back(extent(dimension));
    argument.dimensions = std::move(dimensions);
    signature.tensors.push_back(std::move(argument));
  };
  for (const std::string& name : InputNames(program)) {
    add(TensorArgument::Role::kInput, name,
        name == "w" ? std::vector<std::string>{"cols", "width"} : std::vector<std::string>{"rows", "cols"});
  }
  add(TensorArgument::Role::kOutput, "out", OutputDimensions(program.tail));
  signature.sizes = {{"rows", extents.rows}, {"cols", extents.cols}};
  if (program.tail == Tail::kMatmul) signature.sizes.push_back({"width", extents.width});
  return signature;
}

std::string ReferenceText(const Program& program) {
  const Extents extents = TimedExtents(program.tail);
  const std::vector<std::string> names = InputNames(program);
  std::string text = "import torch\nimport torch.nn as nn\n";
  if (UsesFunctional(program)) absl::StrAppend(&text, "import torch.nn.functional as F\n");
  absl::StrAppend(&text, "\nrows = ", extents.rows, "\ncols = ", extents.cols, "\n");
  if (program.tail == Tail::kMatmul) absl::StrAppend(&text, "width = ", extents.width, "\n");
  absl::StrAppend(&text, "\n\nclass Model(nn.Module):\n    def forward(self, ", absl::StrJoin(names, ", "), "):\n");
  if (program.lines.empty()) absl::StrAppend(&text, "        t = x\n");
  for (size_t i = 0; i < program.lines.size(); ++i) {
    absl::StrAppend(&text, "        t = ", Render(Operations()[program.lines[i].op].torch, program, i), "\n");
  }
  absl::StrAppend(&text, "        return ", FormOf(program.tail).torch, "\n\n\ndef get_inputs():\n    return [");
  absl::StrAppend(&text, absl::StrJoin(names, ", ", [](std::string* out, const std::string& name) {
                    absl::StrAppend(out, name == "w" ? "torch.randn(cols, width)" : "torch.randn(rows, cols)");
                  }));
  return absl::StrCat(text, "]\n\n\ndef get_init_inputs():\n    return []\n");
}

std::vector<Sizes> ProgramVariants(const Program& program) {
  if (program.tail == Tail::kMatmul) {
    return {{{"rows", 1}, {"cols", 1}, {"width", 1}},
            {{"rows", 7}, {"cols", 3}, {"width", 5}},
            {{"rows", 17}, {"cols", 37}, {"width", 23}}};
  }
  return {{{"rows", 1}, {"cols", 1}}, {{"rows", 7}, {"cols", 3}}, {{"rows", 37}, {"cols", 131}}};
}

std::string DeviceFunction(const Program& program, const std::vector<Spelling>& spellings) {
  std::string text = absl::StrCat("__device__ float f(", DeviceParameters(program), ") {\n");
  if (program.lines.empty()) absl::StrAppend(&text, "  float t = x;\n");
  for (size_t i = 0; i < program.lines.size(); ++i) {
    const absl::string_view form = Spelled(Operations()[program.lines[i].op], spellings[i]);
    absl::StrAppend(&text, i == 0 ? "  float t = " : "  t = ", Render(form, program, i), ";\n");
  }
  return absl::StrCat(text, "  return t;\n}\n");
}

std::string OpByOpFunction(const Program& program) {
  std::string functions;
  std::string body;
  for (size_t i = 0; i < program.lines.size(); ++i) {
    const Line& line = program.lines[i];
    const Operation& operation = Operations()[line.op];
    const std::string name = absl::StrCat("op", i + 1);
    absl::StrAppend(&functions, "__device__ __noinline__ float ", name, operation.binary ? "(float a, float b)" : "(float a)",
                    " { return ", Fill(operation.plain, "a", "b"), "; }\n");
    const std::string second = operation.binary ? absl::StrCat(", ", SecondOperand(line)) : "";
    absl::StrAppend(&body, i == 0 ? "  float t = " : "  t = ", name, "(", FirstOperand(i), second, ");\n");
  }
  if (program.lines.empty()) body = "  float t = x;\n";
  return absl::StrCat(functions, "__device__ __noinline__ float f(", DeviceParameters(program), ") {\n", body,
                      "  return t;\n}\n");
}

}  // namespace hone::rollout
