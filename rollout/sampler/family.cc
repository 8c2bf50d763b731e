#include "rollout/sampler/family.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/task_file.h"

namespace hone::rollout {
namespace {

// An element-wise line; $ is the value before. A second spelling of the same for those who know the intrinsics.
struct Operation {
  absl::string_view torch, plain, fast;
};
constexpr std::array<Operation, 24> kOperations = {{
    {"torch.relu($)", "fmaxf($, 0.0f)", "fmaxf($, 0.0f)"},
    {"torch.sigmoid($)", "1.0f / (1.0f + expf(-$))", "1.0f / (1.0f + __expf(-$))"},
    {"torch.tanh($)", "tanhf($)", "tanhf($)"},
    {"F.silu($)", "$ / (1.0f + expf(-$))", "$ / (1.0f + __expf(-$))"},
    {"F.gelu($)", "0.5f * $ * (1.0f + erff($ * 0.70710678f))", "0.5f * $ * (1.0f + erff($ * 0.70710678f))"},
    {"F.gelu($, approximate='tanh')", "0.5f * $ * (1.0f + tanhf(0.79788456f * ($ + 0.044715f * $ * $ * $)))",
     "0.5f * $ * (1.0f + tanhf(0.79788456f * ($ + 0.044715f * $ * $ * $)))"},
    {"F.leaky_relu($, 0.05)", "$ > 0.0f ? $ : 0.05f * $", "fmaxf($, 0.05f * $)"},
    {"F.elu($)", "$ > 0.0f ? $ : expm1f($)", "$ > 0.0f ? $ : expm1f($)"},
    {"F.selu($)", "1.0507010f * ($ > 0.0f ? $ : 1.6732632f * expm1f($))",
     "1.0507010f * ($ > 0.0f ? $ : 1.6732632f * expm1f($))"},
    {"F.softplus($)", "$ > 20.0f ? $ : log1pf(expf($))", "$ > 20.0f ? $ : log1pf(__expf($))"},
    {"F.softsign($)", "$ / (1.0f + fabsf($))", "$ / (1.0f + fabsf($))"},
    {"F.hardtanh($)", "fminf(fmaxf($, -1.0f), 1.0f)", "fminf(fmaxf($, -1.0f), 1.0f)"},
    {"F.hardsigmoid($)", "fminf(fmaxf($ + 3.0f, 0.0f), 6.0f) / 6.0f", "__saturatef($ / 6.0f + 0.5f)"},
    {"F.hardswish($)", "$ * fminf(fmaxf($ + 3.0f, 0.0f), 6.0f) / 6.0f", "$ * fminf(fmaxf($ + 3.0f, 0.0f), 6.0f) / 6.0f"},
    {"F.mish($)", "$ * tanhf($ > 20.0f ? $ : log1pf(expf($)))", "$ * tanhf($ > 20.0f ? $ : log1pf(__expf($)))"},
    {"torch.clamp($, -0.5, 2.0)", "fminf(fmaxf($, -0.5f), 2.0f)", "fminf(fmaxf($, -0.5f), 2.0f)"},
    {"torch.abs($)", "fabsf($)", "fabsf($)"},
    {"torch.sqrt(torch.abs($) + 0.5)", "sqrtf(fabsf($) + 0.5f)", "sqrtf(fabsf($) + 0.5f)"},
    {"torch.exp(-torch.abs($))", "expf(-fabsf($))", "__expf(-fabsf($))"},
    {"torch.log1p(torch.abs($))", "log1pf(fabsf($))", "log1pf(fabsf($))"},
    {"torch.sin($)", "sinf($)", "sinf($)"},
    {"$ * 0.25", "$ * 0.25f", "$ * 0.25f"},
    {"$ + 1.5", "$ + 1.5f", "$ + 1.5f"},
    {"1.0 - $", "1.0f - $", "1.0f - $"},
}};

struct Choices {
  std::map<std::string, size_t> drawn;  // of each key's alternatives
  std::vector<size_t> lines;            // of kOperations
  bool fast = false;
};

std::string Lines(const Choices& choices) {
  std::string text;
  for (const size_t line : choices.lines) {
    absl::StrAppend(&text, "        t = ", absl::StrReplaceAll(kOperations[line].torch, {{"$", "t"}}), "\n");
  }
  return text;
}

std::string Function(const Choices& choices) {
  if (choices.lines.empty()) return "";
  std::string text = "__device__ float f(float t) {\n";
  for (size_t i = 0; i < choices.lines.size(); ++i) {
    const Operation& operation = kOperations[choices.lines[i]];
    absl::StrAppend(&text, i + 1 < choices.lines.size() ? "  t = " : "  return ",
                    absl::StrReplaceAll(choices.fast ? operation.fast : operation.plain, {{"$", "t"}}), ";\n");
  }
  return text + "}\n\n";
}

// The innermost braces of `text`, replaced by what `render` makes of their content, until there are none.
template <class Render>
absl::StatusOr<std::string> Expand(std::string text, const Render& render) {
  for (;;) {
    const size_t close = text.find("}}");
    if (close == std::string::npos) break;
    const size_t open = text.rfind("{{", close);
    if (open == std::string::npos) return absl::InvalidArgumentError("}} without {{ before it");
    HONE_ASSIGN_OR_RETURN(const std::string replacement, render(text.substr(open + 2, close - open - 2)));
    size_t end = close + 2;
    const bool whole_line = (open == 0 || text[open - 1] == '\n') && end < text.size() && text[end] == '\n';
    if (whole_line && (replacement.empty() || replacement.back() == '\n')) ++end;
    text = absl::StrCat(text.substr(0, open), replacement, text.substr(end));
  }
  if (text.find("{{") != std::string::npos) return absl::InvalidArgumentError("{{ without }} after it");
  return text;
}

// key and alternatives of "key:a~b"; anything else has no colon.
std::pair<std::string, std::vector<std::string>> Alternatives(const std::string& content) {
  const size_t colon = content.find(':');
  if (colon == std::string::npos) return {content, {}};
  return {content.substr(0, colon), absl::StrSplit(content.substr(colon + 1), '~')};
}

bool InWord(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Where `word` stands alone in `text` from `begin` on; npos: nowhere.
size_t FindWord(const std::string& text, const std::string& word, size_t begin) {
  for (size_t at = text.find(word, begin); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !InWord(text[at - 1])) && (end == text.size() || !InWord(text[end]))) return at;
  }
  return std::string::npos;
}

void Rename(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = FindWord(text, from, 0); at != std::string::npos; at = FindWord(text, from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// "batch: batch_size n"; none on an empty line.
absl::StatusOr<std::vector<std::string>> NamesOf(absl::string_view line) {
  std::vector<std::string> names = absl::StrSplit(line, absl::ByAnyChar(": "), absl::SkipEmpty());
  if (names.size() == 1) return absl::InvalidArgumentError(absl::StrCat("\"", line, "\" gives no other name"));
  return names;
}

absl::StatusOr<std::string> Render(const std::string& content, const Choices& choices) {
  if (content == "lines") return Lines(choices);
  if (content == "function") return Function(choices);
  if (absl::StartsWith(content, "f:")) {
    const std::string argument = content.substr(2);
    return choices.lines.empty() ? argument : absl::StrCat("f(", argument, ")");
  }
  const auto [key, alternatives] = Alternatives(content);
  const auto drawn = choices.drawn.find(key);
  if (drawn == choices.drawn.end() || drawn->second >= alternatives.size()) {
    return absl::InvalidArgumentError(absl::StrCat("{{", content, "}} is none of lines, function, f:..., key:a~b"));
  }
  return alternatives[drawn->second];
}

}  // namespace

absl::StatusOr<Family> Family::Parse(absl::string_view text, const std::string& name) {
  const auto wrong = [&](const std::string& what) { return absl::InvalidArgumentError(absl::StrCat(name, ": ", what)); };
  Family family;
  family.name_ = std::filesystem::path(name).stem().string();
  std::string* section = nullptr;
  std::string names;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, "=== ")) {
      if (section != nullptr) absl::StrAppend(section, line, "\n");
      continue;
    }
    const std::vector<std::string> words = absl::StrSplit(line.substr(4), ' ', absl::SkipEmpty());
    if (words == std::vector<std::string>{"task"} && family.task_.empty()) {
      section = &family.task_;
      continue;
    }
    if (words == std::vector<std::string>{"names"} && family.kernels_.empty()) {
      section = &names;
      continue;
    }
    Kernel kernel;
    if (words.size() != 3 || words[0] != "kernel" || !absl::SimpleAtod(words[2], &kernel.weight) || kernel.weight <= 0) {
      return wrong(absl::StrCat("\"", line, "\" is none of \"=== task\", \"=== names\" and \"=== kernel STYLE WEIGHT\""));
    }
    kernel.style = words[1];
    family.kernels_.push_back(std::move(kernel));
    section = &family.kernels_.back().source;
  }
  if (family.task_.empty() || family.kernels_.empty()) return wrong("no task, or no kernel");

  const auto note = [&](const std::string& content) -> absl::StatusOr<std::string> {
    if (content == "lines" || content == "function" || absl::StartsWith(content, "f:")) {
      family.has_lines_ = family.has_lines_ || content == "lines";
      return std::string("0");
    }
    const auto [key, alternatives] = Alternatives(content);
    const int count = static_cast<int>(alternatives.size());
    if (count == 0) return absl::InvalidArgumentError(absl::StrCat("{{", content, "}} has no alternatives"));
    const auto [known, added] = family.alternatives_.emplace(key, count);
    if (known->second == count) return std::string("0");
    return absl::InvalidArgumentError(absl::StrCat("{{", key, ":...}} has ", known->second, " alternatives in one place and ",
                                                   count, " in another"));
  };
  std::vector<const std::string*> sections = {&family.task_};
  for (const Kernel& kernel : family.kernels_) sections.push_back(&kernel.source);
  for (const std::string* part : sections) {
    const absl::StatusOr<std::string> expanded = Expand(*part, note);
    if (!expanded.ok()) return wrong(std::string(expanded.status().message()));
  }
  std::set<std::string> given;
  for (const absl::string_view line : absl::StrSplit(names, '\n', absl::SkipEmpty())) {
    const absl::StatusOr<std::vector<std::string>> one = NamesOf(line);
    if (!one.ok()) return wrong(std::string(one.status().message()));
    for (size_t i = 0; i < one->size(); ++i) {
      const auto taken = [&](const std::string* part) { return FindWord(*part, (*one)[i], 0) != std::string::npos; };
      if (!given.insert((*one)[i]).second || (i > 0 && std::any_of(sections.begin(), sections.end(), taken))) {
        return wrong(absl::StrCat("names: ", (*one)[i], " occurs already"));
      }
    }
    family.names_.push_back(*one);
  }
  return family;
}

absl::StatusOr<FamilyExample> Family::Draw(SplitMix& random) const {
  constexpr double kLineWeights[] = {0.2, 0.4, 0.4};
  Choices choices;
  for (const auto& [key, count] : alternatives_) choices.drawn[key] = static_cast<size_t>(random.Below(count));
  for (int lines = has_lines_ ? random.Pick(kLineWeights) : 0; lines > 0; --lines) {
    choices.lines.push_back(static_cast<size_t>(random.Below(kOperations.size())));
  }
  choices.fast = random.Chance(0.5);
  std::vector<double> weights;
  for (const Kernel& kernel : kernels_) weights.push_back(kernel.weight);
  const Kernel& kernel = kernels_[static_cast<size_t>(random.Pick(weights))];

  const auto render = [&](const std::string& content) { return Render(content, choices); };
  HONE_ASSIGN_OR_RETURN(std::string task, Expand(task_, render));
  HONE_ASSIGN_OR_RETURN(std::string source, Expand(kernel.source, render));
  for (const std::vector<std::string>& names : names_) {
    const std::string& name = names[static_cast<size_t>(random.Below(static_cast<int64_t>(names.size())))];
    Rename(task, names[0], name);
    Rename(source, names[0], name);
  }
  if (absl::StrContains(task, "F.") && !absl::StrContains(task, "functional as F")) {
    task = absl::StrReplaceAll(task, {{"import torch.nn as nn\n", "import torch.nn as nn\nimport torch.nn.functional as F\n"}});
  }
  FamilyExample example;
  example.source = std::move(source);
  HONE_ASSIGN_OR_RETURN(example.task, ParseTaskFile(task, name_ + ".py"));
  example.task.id = absl::StrCat(name_, "-", Sha256Hex(task).substr(0, 8));
  example.family = name_;
  example.style = kernel.style;
  return example;
}

absl::StatusOr<std::vector<Family>> LoadFamilies(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
  }
  if (paths.empty()) return absl::NotFoundError(absl::StrCat(folder, " holds no family (*.txt)"));
  std::sort(paths.begin(), paths.end());
  std::vector<Family> families;
  for (const std::string& path : paths) {
    HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    HONE_ASSIGN_OR_RETURN(Family family, Family::Parse(text, path));
    families.push_back(std::move(family));
  }
  return families;
}

}  // namespace hone::rollout
