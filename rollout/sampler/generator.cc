#include "rollout/sampler/generator.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace hone::rollout {
namespace {

// The lists. A program is its text without "t = ", lines separated by ";". They are part of every published figure of the
// quickstart: neither is ever edited.

constexpr std::array<const char*, 16> kHeldOut = {
    "x - y; silu(t); return t",
    "abs(x); t * y; sigmoid(t); return t",
    "x + y; relu(t); t * z; return t",
    "softplus(x); tanh(t); return t",
    "exp(x); t * y; return sum(t, 1)",
    "gelu(x); return mean(t, 1)",
    "x * y; t + z; return max(t, 1)",
    "x - y; clamp(t, -1, 1); return mean(t * t, 1)",
    "x * 0.5; t + y; return softmax(t, 1)",
    "tanh(x); t * 3; return logsumexp(t, 1)",
    "x + y; leaky(t); return layernorm(t, 1)",
    "sigmoid(x); t * y; return rmsnorm(t, 1)",
    "x * x; t + 1; return transpose(t)",
    "relu(x); t - y; return sum(t, 0)",
    "log(abs(x) + 1); return max(t, 0)",
    "max(x, y); t * 0.5; return t @ w",
};

constexpr std::array<const char*, 24> kTrain = {
    "x * y; return t",
    "x + y; tanh(t); return t",
    "gelu(x); t * y; return t",
    "x - 2; relu(t); t * t; return t",
    "1 / (x * x + 1); t * y; return t",
    "x * y; sigmoid(t); t + z; return t",
    "x; return sum(t, 1)",
    "x * y; return sum(t, 1)",
    "exp(x); return sum(t, 1)",
    "silu(x); return mean(t, 1)",
    "x - y; abs(t); return mean(t, 1)",
    "x; return max(t, 1)",
    "x + y; abs(t); return max(t, 1)",
    "x - y; return mean(t * t, 1)",
    "x * 3; return logsumexp(t, 1)",
    "x; return softmax(t, 1)",
    "x + y; t * 3; return softmax(t, 1)",
    "x + y; return layernorm(t, 1)",
    "x; return rmsnorm(t, 1)",
    "gelu(x); return rmsnorm(t, 1)",
    "x * y; return sum(t, 0)",
    "sqrt(x * x + 1); return mean(t, 0)",
    "x; return transpose(t)",
    "relu(x); return t @ w",
};

Program FromList(absl::string_view entry) {
  std::string text;
  for (absl::string_view rest = entry; !rest.empty();) {
    const size_t end = std::min(rest.find("; "), rest.size());
    const absl::string_view line = rest.substr(0, end);
    absl::StrAppend(&text, line.substr(0, 7) == "return " ? "" : "t = ", line, "\n");
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  std::optional<Program> program = ParseProgram(text);
  HONE_CHECK(program.has_value());
  return *std::move(program);
}

template <size_t kCount>
std::vector<Program> FromLists(const std::array<const char*, kCount>& entries) {
  std::vector<Program> programs;
  for (const char* entry : entries) programs.push_back(FromList(entry));
  return programs;
}

}  // namespace

std::string Prompt(const Program& program) {
  return absl::StrCat(ProgramSignature(program).Declaration(), "\n", ProgramText(program));
}

std::optional<Program> ParsePrompt(absl::string_view prompt) {
  const size_t end = prompt.find('\n');
  if (end == absl::string_view::npos) return std::nullopt;
  std::optional<Program> program = ParseProgram(prompt.substr(end + 1));
  if (program && Prompt(*program) != prompt) return std::nullopt;
  return program;
}

GeneratedTask MakeTask(const Program& program, Split split) {
  Task task;
  task.id = Key(program);
  task.family = absl::StrCat("quickstart_", Name(program.tail));
  task.description = absl::StrReplaceAll(absl::StripSuffix(ProgramText(program), "\n"), {{"\n", "; "}});
  task.split = split;
  // A row's softmax lies near 1 / cols: at the usual tolerance a uniform answer would be nearly right.
  if (program.tail == Tail::kSoftmax) task.tolerance.atol = 1e-5;
  task.variants = ProgramVariants(program);
  task.reference = ReferenceText(program);
  task.scalar_baseline = ScalarBaseline(program);
  return {program, std::move(task), Prompt(program)};
}

std::vector<GeneratedTask> NamedTasks(Split split) {
  std::vector<GeneratedTask> tasks;
  for (const Program& program : split == Split::kHeldOut ? FromLists(kHeldOut) : FromLists(kTrain)) {
    tasks.push_back(MakeTask(program, split));
  }
  return tasks;
}

bool IsHeldOut(const Program& program) {
  static const auto* const programs = new std::vector<Program>(FromLists(kHeldOut));
  return std::find(programs->begin(), programs->end(), program) != programs->end();
}

Generator::Generator(uint64_t seed, GeneratorOptions options)
    : random_(seed), options_(options), named_(FromLists(kTrain)) {}

Program Generator::NextProgram() {
  for (;;) {
    Program program = DrawProgram(random_);
    if (!IsHeldOut(program)) return program;
  }
}

GeneratedTask Generator::NextTask() {
  if (random_.Chance(options_.named_share)) return MakeTask(named_[random_.Below(static_cast<int64_t>(named_.size()))]);
  return MakeTask(NextProgram());
}

Example Generator::NextExample() {
  const Program program = NextProgram();
  return {Prompt(program), DrawDemonstration(program, options_.demonstrations, random_)};
}

std::vector<std::string> Corpus(int count, uint64_t seed) {
  Generator generator(seed);
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    const Example example = generator.NextExample();
    texts.push_back(absl::StrCat(example.prompt, example.demonstration.source));
  }
  return texts;
}

}  // namespace hone::rollout
