#include "rollout/sampler/demonstration.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "rollout/sampler/kernel_writer.h"

namespace hone::rollout {
namespace {

constexpr double kFastShare = 0.5;      // of kernels whose author knows the intrinsics
constexpr double kConsistent = 0.85;    // of that author's lines

// ---- Flaws: each edits a right source, or returns it unchanged where it does not apply. ----

std::string ReplaceFirst(const std::string& text, absl::string_view from, absl::string_view to) {
  const size_t at = text.find(std::string(from));
  if (at == std::string::npos) return text;
  return absl::StrCat(text.substr(0, at), to, text.substr(at + from.size()));
}

/// The first of several replacements that finds its place.
std::string ReplaceOne(const std::string& text, std::initializer_list<std::pair<const char*, const char*>> edits) {
  for (const auto& [from, to] : edits) {
    std::string edited = ReplaceFirst(text, from, to);
    if (edited != text) return edited;
  }
  return text;
}

std::string NoBoundsCheck(const std::string& text, SplitMix&) {
  return ReplaceOne(text, {{"if (i < rows * cols) ", ""},
                           {"  if (r >= rows) return;\n", ""},
                           {"  if (c >= cols) return;\n", ""},
                           {"  if (i >= rows * cols) return;\n", ""},
                           {"  if (j >= rows * cols) return;\n", ""},
                           {"  if (j >= rows * width) return;\n", ""},
                           {"if (r < rows && c < cols) out", "out"},
                           {"if (r < rows && q < width) ", ""},
                           {"if (b + j < width) p", "p"},
                           {" && i < rows * cols", ""},
                           {"4 * j + 3 < rows * cols", "4 * j < rows * cols"}});
}

/// (n + 255) / 256 becomes n / 256.
std::string ShortGrid(const std::string& text, SplitMix&) {
  const size_t open = text.find("k<<<(");
  if (open == std::string::npos) return text;
  const size_t plus = text.find(" + ", open), close = text.find(") / ", open), comma = text.find(", ", open);
  if (plus == std::string::npos || close == std::string::npos || comma < close) return text;
  return absl::StrCat(text.substr(0, open), "k<<<", text.substr(open + 5, plus - open - 5), text.substr(close + 1));
}

/// A maximum that no value exceeds.
std::string WrongStart(const std::string& text, SplitMix&) { return ReplaceFirst(text, "-1e30f", "1e30f"); }

std::string WrongIndex(const std::string& text, SplitMix&) {
  return ReplaceOne(text, {{"c * rows + r", "c * cols + r"},
                           {"c * width + q", "c * cols + q"},
                           {"c * width + b", "c * cols + b"},
                           {"(b + ty) * width", "(b + ty) * cols"},
                           {"int i = r * cols", "int i = r * rows"},
                           {"int c = j / rows, r = j % rows", "int c = j / cols, r = j % cols"},
                           {"i += cols", "i += rows"},
                           {"out[i / cols]", "out[i / rows]"},
                           {"out[i % cols]", "out[i % rows]"}});
}

std::string OffByOne(const std::string& text, SplitMix&) {
  return ReplaceOne(text, {{"i < (r + 1) * cols;", "i < (r + 1) * cols - 1;"},
                           {"c < cols;", "c < cols - 1;"},
                           {"r < rows;", "r < rows - 1;"},
                           {"e = b + cols;", "e = b + cols - 1;"},
                           {"i < rows * cols;", "i < rows * cols - 1;"},
                           {"i < rows * cols)", "i < rows * cols - 1)"}});
}

std::string WrongDivisor(const std::string& text, SplitMix&) {
  return ReplaceOne(text, {{"= a / cols;", "= a / rows;"},
                           {"= a / rows;", "= a / cols;"},
                           {"m /= cols;", "m /= rows;"},
                           {"(s / cols + 1e-5f)", "(s / rows + 1e-5f)"},
                           {"v / cols)", "v / rows)"},
                           {"v / rows)", "v / cols)"},
                           {"p[j] / rows;", "p[j] / cols;"}});
}

std::string WrongExponent(const std::string& text, SplitMix&) {
  return ReplaceOne(text, {{"xpf(-t)", "xpf(t)"}, {"xpf(-x)", "xpf(x)"}, {"xpf(v - m)", "xpf(v)"}});
}

std::string NoClearing(const std::string& text, SplitMix&) {
  const size_t begin = text.find("  cudaMemsetAsync(");
  if (begin == std::string::npos) return text;
  return text.substr(0, begin) + text.substr(text.find('\n', begin) + 1);
}

/// Leaves out one line of f; the first one, which declares t, only when it is replaced by the plain input.
std::string LostLine(const std::string& text, SplitMix& random) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  std::vector<size_t> chain;
  for (size_t i = 1; i < lines.size() && lines[i] != "  return t;"; ++i) chain.push_back(i);
  if (chain.size() < 2) return text;
  const size_t lost = chain[random.Below(static_cast<int64_t>(chain.size()))];
  if (lost == chain.front()) {
    lines[lost] = "  float t = x;";
  } else {
    lines.erase(lines.begin() + lost);
  }
  return absl::StrJoin(lines, "\n");
}

/// Another input, or another constant, in one line of f.
std::string WrongOperand(const std::string& text, SplitMix&) {
  const size_t end = text.find("  return t;");
  const std::string function = text.substr(0, end);
  const std::string edited = ReplaceOne(function, {{" - y;", " + y;"},
                                                   {" + y;", " - y;"},
                                                   {" * y;", " + y;"},
                                                   {", z);", ", y);"},
                                                   {" * z;", " * y;"},
                                                   {" + z;", " + y;"},
                                                   {"0.5f;", "2.0f;"},
                                                   {"3.0f;", "0.3f;"},
                                                   {" + 1.0f;", " - 1.0f;"},
                                                   {" - 2.0f;", " + 2.0f;"},
                                                   {"fmaxf(", "fminf("},
                                                   {"0.044715f", "0.44715f"},
                                                   {"0.1f", "0.01f"}});
  return edited == function ? text : edited + text.substr(end);
}

struct Flaw {
  const char* name;
  std::string (*edit)(const std::string&, SplitMix&);
};

constexpr Flaw kFlaws[] = {
    {"no_bounds_check", NoBoundsCheck}, {"short_grid", ShortGrid},         {"wrong_start", WrongStart},
    {"wrong_index", WrongIndex},        {"off_by_one", OffByOne},          {"wrong_divisor", WrongDivisor},
    {"wrong_exponent", WrongExponent},  {"output_not_cleared", NoClearing}, {"lost_line", LostLine},
    {"wrong_operand", WrongOperand},
};

/// Breaks `demonstration` in one way that applies; every source has one.
void Break(Demonstration& demonstration, SplitMix& random) {
  const int first = static_cast<int>(random.Below(std::size(kFlaws)));
  for (size_t i = 0; i < std::size(kFlaws); ++i) {
    const Flaw& flaw = kFlaws[(first + i) % std::size(kFlaws)];
    std::string edited = flaw.edit(demonstration.source, random);
    if (edited == demonstration.source) continue;
    demonstration.source = std::move(edited);
    demonstration.flaw = flaw.name;
    return;
  }
}

Spelling DrawSpelling(bool fast, double double_share, SplitMix& random) {
  if (random.Chance(double_share)) return Spelling::kDouble;
  return fast == random.Chance(kConsistent) ? Spelling::kFast : Spelling::kPlain;
}

}  // namespace

std::vector<std::string> StylesOf(Tail tail) {
  switch (tail) {
    case Tail::kNone:
      return {"flat", "stride", "row", "block_row", "chunk", "float4"};
    case Tail::kRowSum:
    case Tail::kRowMean:
    case Tail::kRowMeanSquare:
      return {"serial", "lanes", "block", "warp", "atomic"};
    case Tail::kRowMax:
      return {"serial", "lanes", "block", "warp"};
    case Tail::kLogSumExp:
      return {"serial", "lanes", "block", "warp", "online"};
    case Tail::kSoftmax:
      return {"serial", "staged", "lanes", "block", "warp", "online"};
    case Tail::kLayerNorm:
    case Tail::kRmsNorm:
      return {"serial", "staged", "lanes", "block", "warp"};
    case Tail::kColumnSum:
    case Tail::kColumnMean:
      return {"serial", "lanes", "block", "atomic"};
    case Tail::kColumnMax:
      return {"serial", "lanes", "block"};
    case Tail::kTranspose:
      return {"flat", "output", "tile", "column", "patch"};
    case Tail::kMatmul:
      return {"dot", "lanes", "row", "shared_row", "tile"};
  }
  HONE_CHECK(!"unknown tail");
}

std::string KernelSource(const Program& program, const KernelChoices& choices) {
  return KernelWriter(program, choices).Write(DeviceFunction(program, choices.spellings));
}

Demonstration DrawDemonstration(const Program& program, const DemonstrationOptions& options, SplitMix& random) {
  const std::vector<std::string> styles = StylesOf(program.tail);
  KernelChoices choices;
  choices.style = styles[random.Below(static_cast<int64_t>(styles.size()))];
  choices.block = random.Chance(0.5) ? 64 : 256;
  choices.fast = random.Chance(kFastShare);
  for (size_t i = 0; i < program.lines.size(); ++i) {
    choices.spellings.push_back(DrawSpelling(choices.fast, options.double_share, random));
  }
  Demonstration demonstration{KernelSource(program, choices), choices.style, ""};
  if (random.Chance(options.flawed_share)) Break(demonstration, random);
  return demonstration;
}

std::string ScalarBaseline(const Program& program) {
  const std::vector<std::string> styles = StylesOf(program.tail);
  KernelChoices choices;
  choices.style = styles.front();
  // The chain's value is computed once, as a program that runs one operation after another would.
  if (program.tail == Tail::kMatmul) choices.style = "shared_row";
  if (!PlanOf(program.tail, false).element.empty()) choices.style = "staged";
  choices.block = 64;
  return KernelWriter(program, choices).Write(OpByOpFunction(program));
}

}  // namespace hone::rollout
