#include "rollout/prompt/layouts.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tests/rollout/groups.h"

namespace hone::rollout {
namespace {

using Catch::Matchers::ContainsSubstring;

Task SoftmaxTask() {
  Task task;
  task.id = "softmax";
  task.description = "softmax of each row";
  task.reference = "class Model: ...";
  return task;
}
const char* kSkeleton = "extern \"C\" void launch(const float* x, float* out) {}";

/// Whether the parts occur in this order.
void CheckOrder(const std::string& text, const std::vector<std::string>& parts) {
  size_t at = 0;
  for (const std::string& part : parts) {
    INFO(part << "\n-- in --\n" << text);
    const size_t found = text.find(part, at);
    REQUIRE(found != std::string::npos);
    at = found + part.size();
  }
}

TEST_CASE("The contrastive prompt has CUDA-L1's blocks in their order, with both speedups", "[prompt]") {
  const std::string prompt =
      ContrastivePrompt(SoftmaxTask(), kSkeleton, {{"slow code", 1.1}, {"fast code", 2.345}}, PromptOptions{});
  CheckOrder(prompt,
             {"You write fast", "class Model", "1.10x", "slow code", "2.35x", "fast code", "## Performance Analysis",
              "## Algorithm Design", "## Code Implementation", "launch(const float* x", "must match the reference"});
}

TEST_CASE("The repair prompt shows the failing code and what the verifier found", "[prompt]") {
  Verdict verdict = VerdictOf(VerdictStatus::kCompile);
  verdict.message = "line 3: 'foo' was not declared";
  verdict.compiler_output = "kernel.cu:3: error: 'foo' was not declared";
  const std::string prompt = RepairPrompt(SoftmaxTask(), kSkeleton, "failing code", verdict, PromptOptions{});
  CheckOrder(prompt, {"class Model", "failing code", "does not compile", "kernel.cu:3", "launch(const float* x"});
}

TEST_CASE("A module format asks for ModelNew instead of an entry point", "[prompt]") {
  PromptOptions options;
  options.format = Format::kTorch;
  const std::string prompt = TaskPrompt(SoftmaxTask(), "", options);
  CHECK_THAT(prompt, ContainsSubstring("`ModelNew`"));
  CHECK_THAT(prompt, !ContainsSubstring("entry point"));
}

TEST_CASE("Evidence of a wrong result names the element, both values and the error", "[prompt]") {
  Verdict verdict = VerdictOf(VerdictStatus::kIncorrect, 0.25);
  Mismatch mismatch;
  mismatch.output = "out";
  mismatch.index = {3, 5};
  mismatch.got = 1.5;
  mismatch.want = 2.25;
  mismatch.error_in_tolerances = 412;
  mismatch.shape = "rows=129 cols=257";
  mismatch.diagnosis = "The last column is zero.";
  verdict.mismatch = mismatch;
  const std::string text = Evidence(verdict, PromptOptions{});
  for (const char* part :
       {"25 %", "out[3, 5] is 1.5 and should be 2.25", "412 times the tolerance", "last column is zero"}) {
    CHECK_THAT(text, ContainsSubstring(part));
  }
  CHECK_THAT(text, !ContainsSubstring("rows=129"));  // hidden variants stay hidden
  PromptOptions open;
  open.show_shapes = true;
  CHECK_THAT(Evidence(verdict, open), ContainsSubstring("rows=129 cols=257"));
}

TEST_CASE("Evidence of a pass gives the speedup with its interval and says when it is emulated", "[prompt]") {
  Verdict verdict = PassedAt(1.5);
  verdict.timings[0].speedup = {1.5, 1.4, 1.6, 9};
  CHECK_THAT(Evidence(verdict, {}),
             ContainsSubstring("1.50 times the speed of the eager baseline (95 % interval 1.40 to 1.60)"));
  CHECK_THAT(Evidence(verdict, {}), !ContainsSubstring("emulated"));
  verdict.timings[0].emulated = true;
  CHECK_THAT(Evidence(verdict, {}), ContainsSubstring("emulated"));
  CHECK_THAT(FeedbackTurn(verdict, {}), ContainsSubstring("Make it faster"));
}

TEST_CASE("A broken rule is named with its evidence", "[prompt]") {
  Verdict verdict = VerdictOf(VerdictStatus::kCheat);
  verdict.rules = {{"flagged-only", false, "x"}, {"writes-input", true, "the input changed"}};
  CHECK_THAT(Evidence(verdict, {}), ContainsSubstring("'writes-input': the input changed"));
  CHECK_THAT(Evidence(verdict, {}), !ContainsSubstring("flagged-only"));
}

TEST_CASE("Every verdict has evidence, and long compiler output is bounded", "[prompt]") {
  for (const VerdictStatus status :
       {VerdictStatus::kOk, VerdictStatus::kParse, VerdictStatus::kForbidden, VerdictStatus::kCompile,
        VerdictStatus::kCompileTimeout, VerdictStatus::kRuntime, VerdictStatus::kTimeout, VerdictStatus::kOom,
        VerdictStatus::kIncorrect, VerdictStatus::kCheat, VerdictStatus::kInfra}) {
    CHECK(Evidence(VerdictOf(status), {}).size() > 10);
  }
  Verdict verdict = VerdictOf(VerdictStatus::kCompile);
  verdict.compiler_output = std::string(1 << 20, 'e');
  CHECK(FeedbackTurn(verdict, {}).size() < 2500);
}

TEST_CASE("Our own failure tells the policy nothing about why", "[prompt]") {
  Verdict verdict = VerdictOf(VerdictStatus::kInfra);
  verdict.message = "lane 3 on host db-7 died";
  CHECK_THAT(FeedbackTurn(verdict, {}), !ContainsSubstring("db-7"));
}

}  // namespace
}  // namespace hone::rollout
