// `hone eval samples` as a user meets it, with a verifier of its own.

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "tests/support/shared_data.h"
#include "tests/support/test_programs.h"

namespace hone {
namespace {

RunResult EvalFile(const std::string& file, const std::vector<std::string>& more = {}) {
  const std::string program = TestProgram("hone");
  if (program.empty() || TestPython().empty()) SKIP("needs the build's programs and its Python");
  SpawnOptions options;
  options.argv = {program, "eval", "samples", file, "--json"};
  options.argv.insert(options.argv.end(), more.begin(), more.end());
  absl::StatusOr<RunResult> result = Run(options, absl::Minutes(2));
  REQUIRE(result.status().message() == "");
  UNSCOPED_INFO(result->output);
  return *std::move(result);
}

RunResult EvalSamples(const std::string& lines) {
  const TempFolder folder = TempFolder::Create("eval_command").value();
  const std::string file = folder.path() + "/samples.jsonl";
  REQUIRE(WriteFileAtomically(file, lines).ok());
  return EvalFile(file);
}

// The scalar comes before the size, other than in the derived `launch`.
std::string Saxpy(const std::string& expression, const std::string& verdict) {
  return absl::StrCat(
      R"json({"task": "saxpy", "signature": "extern \"C\" void launch(const float* x, const float* y, float* out, float a, )json",
      R"json(int n, cudaStream_t stream)", "check_sizes": [[1], [255], [1000]], "source": ")json",
      R"json(__global__ void k(const float* x, const float* y, float* out, float a, int n) {\n)json",
      R"json(  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) out[i] = )json", expression,
      R"json(;\n}\nextern \"C\" void launch(const float* x, const float* y, float* out, float a, int n, cudaStream_t stream) {\n)json",
      R"json(  k<<<(n + 255) / 256, 256, 0, stream>>>(x, y, out, a, n);\n}\n", "verdict_h200": ")json", verdict,
      "\"}\n");
}

TEST_CASE("Answers judged as they were recorded agree", "[cli]") {
  const RunResult result = EvalSamples(Saxpy("a * x[i] + y[i]", "ok") + Saxpy("x[i] + y[i]", "wrong"));
  CHECK(result.exit_code == 0);
  CHECK(absl::StrContains(result.output, "\"both_ok\": 1"));
  CHECK(absl::StrContains(result.output, "\"both_rejected\": 1"));
}

TEST_CASE("An answer judged otherwise than recorded is counted and gives exit code 3", "[cli]") {
  const RunResult result = EvalSamples(Saxpy("a * x[i] + y[i]", "crash") + Saxpy("x[i] + y[i]", "ok"));
  CHECK(result.exit_code == 3);
  CHECK(absl::StrContains(result.output, "\"wrongly_accepted\": 1"));
  CHECK(absl::StrContains(result.output, "\"wrongly_rejected\": 1"));
}

TEST_CASE("Of 171 recorded answers of a coder model those 46 are accepted that an H200 accepted, and no others", "[cli]") {
  const std::string file = SharedData("qwen_coder_native_samples.jsonl");
  if (file.empty()) SKIP("no recorded answers: set HONE_SHARED to the folder that holds data/");
  const RunResult result = EvalFile(file);
  CHECK(result.exit_code == 0);
  for (const char* figure : {"\"n\": 171", "\"both_ok\": 46", "\"both_rejected\": 125", "\"wrongly_accepted\": 0",
                             "\"wrongly_rejected\": 0", "\"unjudged\": 0"}) {
    INFO(figure);
    CHECK(absl::StrContains(result.output, figure));
  }
}

TEST_CASE("Times that a GPU took are compared on a GPU only", "[cli]") {
  const RunResult result = EvalFile("samples.jsonl", {"--timed"});
  CHECK(result.exit_code == 2);
  CHECK(absl::StrContains(result.output, "--timed: the recorded times are a GPU's"));
}

TEST_CASE("An unusable file gives exit code 2 and its line", "[cli]") {
  const RunResult result = EvalSamples("{\n");
  CHECK(result.exit_code == 2);
  CHECK(absl::StrContains(result.output, "samples.jsonl:1: "));
}

}  // namespace
}  // namespace hone
