// The enumerations' names, the shipped protocols, tolerances and the native entry point.

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "base/candidate.h"
#include "base/protocol.h"
#include "base/signature.h"
#include "base/task.h"
#include "base/verdict.h"

namespace hone {
namespace {

template <class Enum, class Parse>
void CheckNamesRoundTrip(int count, const Parse& parse) {
  std::set<std::string> names;
  for (int i = 0; i < count; ++i) {
    const std::string name(Name(static_cast<Enum>(i)));
    CHECK(names.insert(name).second);
    CHECK(parse(name) == static_cast<Enum>(i));
  }
  CHECK_FALSE(parse("no such name").has_value());
  CHECK_FALSE(parse("").has_value());
}

TEST_CASE("Every enumerator has a name of its own that parses back", "[base][domain]") {
  CheckNamesRoundTrip<DType>(9, ParseDType);
  CheckNamesRoundTrip<Split>(2, ParseSplit);
  CheckNamesRoundTrip<ValueProfile>(7, ParseValueProfile);
  CheckNamesRoundTrip<Format>(3, ParseFormat);
  CheckNamesRoundTrip<Backend>(3, ParseBackend);
  CheckNamesRoundTrip<Baseline>(4, ParseBaseline);
  CheckNamesRoundTrip<VerdictStatus>(11, ParseVerdictStatus);
}

TEST_CASE("Statuses fall into the five classes of MooreEval", "[base][domain]") {
  CHECK(MooreClass(VerdictStatus::kOk) == "ok");
  CHECK(MooreClass(VerdictStatus::kParse) == "compile");
  CHECK(MooreClass(VerdictStatus::kCompile) == "compile");
  CHECK(MooreClass(VerdictStatus::kCompileTimeout) == "compile");
  CHECK(MooreClass(VerdictStatus::kRuntime) == "runtime");
  CHECK(MooreClass(VerdictStatus::kTimeout) == "runtime");
  CHECK(MooreClass(VerdictStatus::kOom) == "runtime");
  CHECK(MooreClass(VerdictStatus::kIncorrect) == "correctness");
  CHECK(MooreClass(VerdictStatus::kForbidden) == "cheating");
  CHECK(MooreClass(VerdictStatus::kCheat) == "cheating");
  CHECK(MooreClass(VerdictStatus::kInfra) == "infra");
}

TEST_CASE("The shipped protocols are found by id, and a wrong id names them", "[base][domain]") {
  CHECK(ProtocolById("hone-v1").value() == Protocol{});
  const Protocol kernelbench = ProtocolById("kernelbench-v0.1").value();
  CHECK(kernelbench.check_sets_per_shape == 5);
  CHECK(kernelbench.min_rounds == 100);
  CHECK(kernelbench.max_rounds == 100);
  CHECK(kernelbench.statistic == SpeedupStatistic::kRatioOfMeans);
  CHECK_FALSE(kernelbench.check_variants);
  CHECK_FALSE(kernelbench.check_profiles);
  const Protocol quick = ProtocolById("quick").value();
  CHECK(quick.baselines.front() == Baseline::kScalar);
  CHECK(quick.max_rounds < Protocol{}.max_rounds);
  CHECK(ProtocolById("fast").status().message() == "no protocol 'fast'; there are hone-v1, kernelbench-v0.1, quick");
}

TEST_CASE("Default tolerances are KernelBench's, and integers compare exactly", "[base][domain]") {
  CHECK(DefaultTolerance(DType::kFloat32) == Tolerance{1e-4, 1e-4});
  CHECK(DefaultTolerance(DType::kFloat16) == Tolerance{1e-2, 1e-2});
  CHECK(DefaultTolerance(DType::kBFloat16) == Tolerance{1e-2, 1e-2});
  CHECK(DefaultTolerance(DType::kInt64) == Tolerance{0, 0});
  CHECK(DefaultTolerance(DType::kBool) == Tolerance{0, 0});
}

TEST_CASE("A tensor's bytes follow its shape and type", "[base][domain]") {
  CHECK(TensorSpec{"x", DType::kFloat16, {3, 5}, {}}.Bytes() == 30);
  CHECK(TensorSpec{"scalar", DType::kFloat64, {}, {}}.Elements() == 1);
  CHECK(TensorSpec{"empty", DType::kInt8, {4, 0}, {}}.Elements() == 0);
}

TEST_CASE("The declaration of launch lists inputs, parameters, outputs, sizes, scalars and the stream",
          "[base][domain]") {
  using Role = TensorArgument::Role;
  Signature signature;
  signature.tensors = {{Role::kInput, {"x", DType::kFloat32, {7, 9}, {}}, {"rows", "cols"}},
                       {Role::kParameter, {"weight", DType::kBFloat16, {9}, {}}, {"cols"}},
                       {Role::kOutput, {"out", DType::kFloat32, {7, 9}, {}}, {"rows", "cols"}}};
  signature.sizes = {{"rows", 7, false}, {"n", int64_t{1} << 31, true}};
  signature.scalars = {{"eps", false, 1e-5}, {"axis", true, 1}};
  CHECK(signature.Declaration() ==
        "extern \"C\" void launch(const float* x, const __nv_bfloat16* weight, float* out, int rows, int64_t n, "
        "float eps, int64_t axis, cudaStream_t stream)");
  CHECK(Signature{}.Declaration() == "extern \"C\" void launch(cudaStream_t stream)");
}

}  // namespace
}  // namespace hone
