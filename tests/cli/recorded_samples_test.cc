// What `hone eval samples` reads, adapts and counts; the verifier itself is not run.

#include "cli/samples/recorded_samples.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace hone::cli {
namespace {

constexpr char kSaxpy[] =
    R"json({"task": "saxpy", "signature": "extern \"C\" void launch(const float* x, const float* y, float* out, float a, )json"
    R"json(int n, cudaStream_t stream)", "check_sizes": [[1], [255]], "source": "the answer", "verdict_h200": "wrong"})json";

std::string Replaced(const std::string& from, const std::string& to) {
  std::string text = kSaxpy;
  return text.replace(text.find(from), from.size(), to);
}

TensorArgument Tensor(TensorArgument::Role role, const std::string& name, DType dtype = DType::kFloat32) {
  TensorArgument tensor;
  tensor.role = role;
  tensor.spec.name = name;
  tensor.spec.dtype = dtype;
  return tensor;
}

Signature SaxpySignature() {
  using Role = TensorArgument::Role;
  Signature signature;
  signature.tensors = {Tensor(Role::kInput, "x"), Tensor(Role::kInput, "y"), Tensor(Role::kOutput, "out")};
  signature.sizes = {{"n", 1000, false}};
  signature.scalars = {{"a", false, 1.7}};
  return signature;
}

RecordedSample Saxpy() { return ParseRecordedSamples(kSaxpy, "f").value().front(); }

TEST_CASE("A recorded sample is read with its arguments and its sizes by name", "[cli]") {
  const auto samples = ParseRecordedSamples(std::string("\n") + kSaxpy + "\n\n", "f");
  REQUIRE(samples.ok());
  REQUIRE(samples->size() == 1);
  const RecordedSample& sample = samples->front();
  CHECK(sample.line == 2);
  CHECK(sample.task == "saxpy");
  CHECK(sample.source == "the answer");
  CHECK(sample.verdict == "wrong");
  CHECK(sample.arguments ==
        std::vector<RecordedArgument>{
            {"constfloat*", "x"}, {"constfloat*", "y"}, {"float*", "out"}, {"float", "a"}, {"int", "n"}});
  CHECK(sample.check_sizes == std::vector<Sizes>{{{"n", 1}}, {{"n", 255}}});
  CHECK(sample.candidate_ms == 0);
}

TEST_CASE("What a recorded answer and PyTorch took is read, and null is a time that nobody took", "[cli]") {
  const std::string times = R"("candidate_ms": 0.25, "torch_eager_ms": null, "source")";
  const RecordedSample sample = ParseRecordedSamples(Replaced("\"source\"", times), "f").value().front();
  CHECK(sample.candidate_ms == 0.25);
  CHECK(sample.eager_ms == 0);
}

TEST_CASE("An unusable sample is an error with file and line", "[cli]") {
  const auto error = [](const std::string& text) {
    const auto samples = ParseRecordedSamples(text, "some.jsonl");
    REQUIRE(samples.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(samples.status().message());
  };
  CHECK(absl::StrContains(error("\n\n"), "some.jsonl: no sample"));
  CHECK(error(std::string(kSaxpy) + "\n{\"task\"") == "some.jsonl:2: not JSON, or cut");
  CHECK(error("[1]") == "some.jsonl:1: not a JSON object but of type array");
  CHECK(error(Replaced("\"source\"", "\"text\"")) == "some.jsonl:1: \"source\" is missing");
  CHECK(error(Replaced("\"saxpy\"", "7")) == "some.jsonl:1: \"task\" must be a text, but is 7");
  CHECK(error(Replaced("[255]", "[2.5]")) ==
        "some.jsonl:1: \"check_sizes\" must be a list, each item a list, each item a whole number, but is of type array");
  CHECK(absl::StrContains(error(Replaced("[255]", "[255, 7]")), "2 numbers; launch takes 1 (n)"));
  CHECK(absl::StrContains(error(Replaced("[255]", "[-1]")), "n=-1"));
  CHECK(absl::StrContains(error(Replaced("[[1], [255]]", "[]")), "check_sizes is empty"));
  CHECK(absl::StrContains(error(Replaced("\"wrong\"", "\"bad\"")), "ok, wrong, compile, oob_write, crash"));
  CHECK(absl::StrContains(error(Replaced("void launch(", "void start(")), "not a declaration of launch"));
  CHECK(absl::StrContains(error(Replaced(", cudaStream_t stream", "")), "cudaStream_t"));
}

TEST_CASE("An answer whose arguments are the derived ones stays as it is", "[cli]") {
  RecordedSample sample = Saxpy();
  std::swap(sample.arguments[3], sample.arguments[4]);
  sample.arguments[2].name = "result";  // tensors are told by their place
  CHECK(AdaptSource(sample, SaxpySignature()).value() == "the answer");
}

TEST_CASE("An answer with another order of arguments is called in its own", "[cli]") {
  const std::string adapted = AdaptSource(Saxpy(), SaxpySignature()).value();
  CHECK(absl::StrContains(adapted, ";\nthe answer\n"));
  CHECK(absl::StrContains(adapted, "recorded_launch(x, y, out, static_cast<float>(a), static_cast<int>(n), stream);"));
}

TEST_CASE("An argument that the reference lacks is an error that names it", "[cli]") {
  Signature other_size = SaxpySignature();
  other_size.sizes[0].name = "count";
  Signature other_type = SaxpySignature();
  other_type.tensors[2].spec.dtype = DType::kInt32;
  CHECK(AdaptSource(Saxpy(), other_size).status().message() == "the reference of saxpy has no int n");
  CHECK(AdaptSource(Saxpy(), other_type).status().message() == "the reference of saxpy has no float* out");
}

TEST_CASE("A task without a reference is an error, whatever its name holds", "[cli]") {
  RecordedSample sample = Saxpy();
  for (const char* name : {"no_such", "", "../saxpy"}) {
    sample.task = name;
    CHECK(TaskOfSample(sample, "/").status().code() == absl::StatusCode::kNotFound);
  }
}

TEST_CASE("Agreement counts each pair of verdicts, and failures of the verifier apart", "[cli]") {
  const std::vector<std::pair<const char*, VerdictStatus>> pairs = {
      {"ok", VerdictStatus::kOk},           {"ok", VerdictStatus::kOk},    {"ok", VerdictStatus::kIncorrect},
      {"wrong", VerdictStatus::kIncorrect}, {"wrong", VerdictStatus::kOk}, {"crash", VerdictStatus::kRuntime},
      {"compile", VerdictStatus::kCompile}, {"ok", VerdictStatus::kInfra}};
  std::vector<RecordedSample> samples;
  std::vector<Verdict> verdicts;
  for (const auto& [recorded, status] : pairs) {
    samples.emplace_back().verdict = recorded;
    verdicts.emplace_back().status = status;
  }
  const Agreement agreement = Compare(samples, verdicts);
  CHECK(agreement.n == 8);
  CHECK(agreement.both_ok == 2);
  CHECK(agreement.both_rejected == 3);
  CHECK(agreement.wrongly_accepted == 1);
  CHECK(agreement.wrongly_rejected == 1);
  CHECK(agreement.unjudged == 1);
  CHECK(agreement.classes.size() == 7);
  CHECK(agreement.classes.at({"ok", "OK"}) == 2);
  CHECK(agreement.classes.at({"crash", "RUNTIME"}) == 1);
}

}  // namespace
}  // namespace hone::cli
