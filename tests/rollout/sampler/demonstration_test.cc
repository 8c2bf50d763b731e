// Demonstrations through the real build stage and emulator, against a plain evaluation of the program's text in double
// precision.

#include "rollout/sampler/demonstration.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/file.h"
#include "rollout/sampler/generator.h"
#include "verifier/build/cpu_builder.h"
#include "verifier/build/native_run.h"

namespace hone::rollout {
namespace {

// ---- The oracle: what each line of the language means. ----

using Values = std::map<char, double>;  // of x, y, z and t at one position

double Operand(char name, const Values& values) { return values.at(name); }

/// The value of a right-hand side such as "max(t, z)" or "1 / (x * x + 1)".
double Evaluate(const std::string& text, const Values& values) {
  const auto is_form = [&](const std::string& before, const std::string& after, char& a) {
    if (text.size() != before.size() + after.size() + 1) return false;
    a = text[before.size()];
    return text.substr(0, before.size()) == before && text.substr(before.size() + 1) == after;
  };
  const std::map<std::string, std::function<double(double)>> calls = {
      {"relu", [](double v) { return v > 0 ? v : 0; }},
      {"sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"tanh", [](double v) { return std::tanh(v); }},
      {"exp", [](double v) { return std::exp(v); }},
      {"abs", [](double v) { return std::fabs(v); }},
      {"silu", [](double v) { return v / (1 + std::exp(-v)); }},
      {"gelu", [](double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); }},
      {"softplus", [](double v) { return std::log1p(std::exp(v)); }},
      {"leaky", [](double v) { return v > 0 ? v : 0.1 * v; }},
  };
  char a = 0;
  for (const auto& [name, function] : calls) {
    if (is_form(name + "(", ")", a)) return function(Operand(a, values));
  }
  if (is_form("clamp(", ", -1, 1)", a)) return std::clamp(Operand(a, values), -1.0, 1.0);
  if (is_form("log(abs(", ") + 1)", a)) return std::log(std::fabs(Operand(a, values)) + 1);
  if (text.substr(0, 5) == "sqrt(") return std::sqrt(std::pow(Operand(text[5], values), 2) + 1);
  if (text.substr(0, 5) == "1 / (") return 1 / (std::pow(Operand(text[5], values), 2) + 1);
  if (text.substr(0, 4) == "max(") return std::max(Operand(text[4], values), Operand(text[7], values));
  if (text.substr(0, 4) == "min(") return std::min(Operand(text[4], values), Operand(text[7], values));
  if (text.size() == 1) return Operand(text[0], values);
  const double left = Operand(text[0], values);
  const std::string rest = text.substr(4);
  const double right = rest.size() == 1 && std::isalpha(rest[0]) ? Operand(rest[0], values) : std::stod(rest);
  switch (text[2]) {
    case '+':
      return left + right;
    case '-':
      return left - right;
    case '*':
      return left * right;
  }
  FAIL("the oracle does not know: " << text);
  return 0;
}

struct Shape {
  int64_t rows, cols, width;
};
using Matrix = std::vector<double>;

double MeanOf(const Matrix& row) { return std::accumulate(row.begin(), row.end(), 0.0) / row.size(); }
double MaxOf(const Matrix& row) { return *std::max_element(row.begin(), row.end()); }
double MeanSquareOf(const Matrix& row) { return std::inner_product(row.begin(), row.end(), row.begin(), 0.0) / row.size(); }

/// What "return ..." makes of t; `w` for the matrix product.
Matrix Finish(const std::string& tail, const Matrix& t, const Matrix& w, const Shape& shape) {
  const auto row = [&](int64_t r) { return Matrix(t.begin() + r * shape.cols, t.begin() + (r + 1) * shape.cols); };
  const auto column = [&](int64_t c) {
    Matrix values;
    for (int64_t r = 0; r < shape.rows; ++r) values.push_back(t[r * shape.cols + c]);
    return values;
  };
  Matrix out;
  const auto each_row = [&](const std::function<double(const Matrix&)>& f) {
    for (int64_t r = 0; r < shape.rows; ++r) out.push_back(f(row(r)));
  };
  const auto each_column = [&](const std::function<double(const Matrix&)>& f) {
    for (int64_t c = 0; c < shape.cols; ++c) out.push_back(f(column(c)));
  };
  const auto sum = [](const Matrix& v) { return std::accumulate(v.begin(), v.end(), 0.0); };
  const auto exponentials = [](const Matrix& v) {
    double total = 0;
    for (const double value : v) total += std::exp(value - MaxOf(v));
    return total;
  };
  if (tail == "t") return t;
  if (tail == "sum(t, 1)") each_row(sum);
  if (tail == "mean(t, 1)") each_row(MeanOf);
  if (tail == "max(t, 1)") each_row(MaxOf);
  if (tail == "mean(t * t, 1)") each_row(MeanSquareOf);
  if (tail == "sum(t, 0)") each_column(sum);
  if (tail == "mean(t, 0)") each_column(MeanOf);
  if (tail == "max(t, 0)") each_column(MaxOf);
  if (tail == "logsumexp(t, 1)") each_row([&](const Matrix& v) { return MaxOf(v) + std::log(exponentials(v)); });
  if (tail == "transpose(t)") {
    for (int64_t c = 0; c < shape.cols; ++c) {
      for (const double value : column(c)) out.push_back(value);
    }
  }
  if (tail == "softmax(t, 1)" || tail == "layernorm(t, 1)" || tail == "rmsnorm(t, 1)") {
    for (int64_t r = 0; r < shape.rows; ++r) {
      const Matrix v = row(r);
      const double mean = MeanOf(v), variance = std::max(0.0, MeanSquareOf(v) - mean * mean);
      for (const double value : v) {
        out.push_back(tail[0] == 's'   ? std::exp(value - MaxOf(v)) / exponentials(v)
                      : tail[0] == 'l' ? (value - mean) / std::sqrt(variance + 1e-5)
                                       : value / std::sqrt(MeanSquareOf(v) + 1e-5));
      }
    }
  }
  if (tail == "t @ w") {
    for (int64_t r = 0; r < shape.rows; ++r) {
      for (int64_t q = 0; q < shape.width; ++q) {
        double total = 0;
        for (int64_t c = 0; c < shape.cols; ++c) total += t[r * shape.cols + c] * w[c * shape.width + q];
        out.push_back(total);
      }
    }
  }
  REQUIRE(!out.empty());
  return out;
}

/// One call: inputs drawn from a normal distribution, and the expected output.
struct Case {
  test::Call call;
  Matrix expected;
};

std::vector<float> Normal(int64_t count, SplitMix& random) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(std::sqrt(-2 * std::log(1 - random.Uniform())) * std::cos(2 * M_PI * random.Uniform()));
  }
  return values;
}

Case MakeCase(const Program& program, const Shape& shape, uint64_t seed) {
  SplitMix random(seed);
  std::vector<std::string> lines = absl::StrSplit(ProgramText(program), '\n', absl::SkipEmpty());
  const std::string tail = lines.back().substr(7);
  lines.pop_back();
  const int64_t elements = shape.rows * shape.cols;
  Case result;
  std::vector<std::vector<float>> inputs;
  for (int i = 0; i < program.inputs(); ++i) inputs.push_back(Normal(elements, random));
  Matrix t(elements);
  for (int64_t i = 0; i < elements; ++i) {
    Values values;
    for (int input = 0; input < program.inputs(); ++input) values["xyz"[input]] = inputs[input][i];
    for (const std::string& line : lines) values['t'] = Evaluate(line.substr(4), values);
    t[i] = values['t'];
  }
  for (const std::vector<float>& input : inputs) result.call.tensors.push_back(test::Bytes(input));
  Matrix w;
  result.call.sizes = {shape.rows, shape.cols};
  if (program.tail == Tail::kMatmul) {
    const std::vector<float> weights = Normal(shape.cols * shape.width, random);
    w.assign(weights.begin(), weights.end());
    result.call.tensors.push_back(test::Bytes(weights));
    result.call.sizes.push_back(shape.width);
  }
  result.expected = Finish(tail, t, w, shape);
  result.call.tensors.emplace_back(result.expected.size() * sizeof(float));
  return result;
}

// ---- The candidate's side. ----

constexpr Shape kShapes[] = {{1, 1, 1}, {7, 3, 5}, {37, 131, 23}, {64, 96, 80}};

class Verifier {
 public:
  Verifier() : folder_(TempFolder::Create("demonstrations").value()) {
    store_ = verifier::ArtefactStore::Create({folder_.path()}).value();
    auto builder = verifier::CreateCpuBuilder({}, store_.get());
    if (!builder.ok()) SKIP(builder.status().message());
    builder_ = *std::move(builder);
  }

  /// Empty when `source` is right on every shape, else what went wrong.
  std::string Fault(const Program& program, const std::string& source) {
    verifier::BuildRequest request;
    request.candidate.source = source;
    request.signature = ProgramSignature(program);
    const auto build = builder_->Build(request);
    REQUIRE(build.status().message() == "");
    if (build->status != VerdictStatus::kOk) return "does not build: " + build->message;
    for (const Shape& shape : kShapes) {
      const Case the_case = MakeCase(program, shape, 1000 + shape.rows);
      const test::Outcome outcome =
          test::RunArtefact(build->checked_artefact, request.signature, the_case.call, {HONE_CPU_SHUFFLED, 3, 1});
      if (!outcome.ok()) return "does not run: " + outcome.fault;
      const std::vector<float> got = test::Floats(outcome.tensors.back());
      for (size_t i = 0; i < got.size(); ++i) {
        const double want = the_case.expected[i];
        if (!(std::fabs(got[i] - want) <= 1e-4 + 1e-4 * std::fabs(want))) {
          return "wrong at " + std::to_string(i) + " with " + std::to_string(shape.rows) + " rows: " +
                 std::to_string(got[i]) + " for " + std::to_string(want);
        }
      }
    }
    return "";
  }

 private:
  TempFolder folder_;
  std::unique_ptr<verifier::ArtefactStore> store_;
  std::unique_ptr<verifier::Builder> builder_;
};

/// A program with this tail and two or three lines, the same at each call.
Program ProgramWith(Tail tail, SplitMix& random) {
  for (;;) {
    Program program = DrawProgram(random);
    if (program.tail == tail && program.lines.size() >= 2) return program;
  }
}

}  // namespace

TEST_CASE("Every style of every tail is right on every checked shape, in plain and in fast arithmetic",
          "[rollout][generator]") {
  Verifier verifier;
  SplitMix random(21);
  for (int tail = 0; tail < kTailCount; ++tail) {
    bool fast = false;
    for (const std::string& style : StylesOf(static_cast<Tail>(tail))) {
      const Program program = ProgramWith(static_cast<Tail>(tail), random);
      KernelChoices choices;
      choices.style = style;
      choices.block = fast ? 256 : 64;
      choices.lanes = fast ? 16 : 8;
      choices.fast = fast;
      choices.spellings.assign(program.lines.size(), fast ? Spelling::kFast : Spelling::kPlain);
      const std::string source = KernelSource(program, choices);
      INFO(ProgramText(program) << source);
      CHECK(verifier.Fault(program, source) == "");
      fast = !fast;
    }
  }
}

TEST_CASE("Every operation is right in every spelling", "[rollout][generator]") {
  Verifier verifier;
  SplitMix random(22);
  std::map<int, Program> program_of;  // operation -> a program that uses it
  for (int i = 0; i < 5'000; ++i) {
    Program program = DrawProgram(random);
    for (const Line& line : program.lines) program_of.emplace(line.op, program);
  }
  CHECK(program_of.size() == 23);
  for (auto& [op, program] : program_of) {
    program.tail = Tail::kNone;
    for (const Spelling spelling : {Spelling::kPlain, Spelling::kFast, Spelling::kDouble}) {
      KernelChoices choices;
      choices.style = "flat";
      choices.spellings.assign(program.lines.size(), spelling);
      INFO(ProgramText(program) << KernelSource(program, choices));
      CHECK(verifier.Fault(program, KernelSource(program, choices)) == "");
    }
  }
}

TEST_CASE("The scalar baseline of every named task is right", "[rollout][generator]") {
  Verifier verifier;
  for (const Split split : {Split::kTrain, Split::kHeldOut}) {
    for (const GeneratedTask& task : NamedTasks(split)) {
      INFO(task.task.scalar_baseline);
      CHECK(verifier.Fault(task.program, task.task.scalar_baseline) == "");
    }
  }
}

TEST_CASE("Nearly every flawed demonstration is found wrong, and none fails to build", "[rollout][generator]") {
  Verifier verifier;
  GeneratorOptions options;
  options.demonstrations.flawed_share = 1;
  Generator generator(23, options);
  int found = 0;
  std::string missed;
  constexpr int kCount = 60;
  for (int i = 0; i < kCount; ++i) {
    const Example example = generator.NextExample();
    const std::string fault = verifier.Fault(*ParsePrompt(example.prompt), example.demonstration.source);
    CHECK(fault.find("does not build") == std::string::npos);
    found += !fault.empty();
    if (fault.empty()) missed += example.demonstration.flaw + ": " + example.prompt + example.demonstration.source;
  }
  INFO(missed);
  CHECK(found >= kCount * 9 / 10);
}

}  // namespace hone::rollout
