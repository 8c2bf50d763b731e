// The `.mu` suite on the CPU, where MUSA candidates run through the compatibility toolchain: in every nightly run the whole of it.

#include "musa/suite.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "absl/strings/match.h"
#include "tests/support/test_programs.h"

namespace hone::musa {
namespace {

#ifdef HONE_WHOLE_SUITE
constexpr SuiteSize kSize = SuiteSize::kAll;
#else
constexpr SuiteSize kSize = SuiteSize::kOne;
#endif

TEST_CASE("Every musified kernel gets the verdict of its CUDA original, and names the toolchain it went through", "[musa]") {
  if (TestProgram("hone-verifier").empty()) SKIP("HONE_TEST_BIN names no folder with hone-verifier");
  const auto programs = MusaSuite(kSize, std::string(HONE_SOURCE_DIR) + "/examples");
  INFO(programs.status().ToString());
  REQUIRE(programs.ok());
  CHECK(programs->size() > 45);
  SuiteOptions options;
  options.program = TestProgram("hone-verifier");
  const auto pairs = JudgeSuite(*programs, options, [](size_t, bool, const Verdict&) {});
  INFO(pairs.status().ToString());
  REQUIRE(pairs.ok());
  int wrong = 0;
  for (size_t i = 0; i < pairs->size(); ++i) {
    const SuitePair& pair = (*pairs)[i];
    INFO((*programs)[i].name << "\ncuda: " << Name(pair.cuda.status) << " " << pair.cuda.message
                             << "\nmusa: " << Name(pair.musa.status) << " " << pair.musa.message << "\n"
                             << (*programs)[i].musa);
    CHECK(pair.agree());
    CHECK((pair.cuda.ok() || (*programs)[i].flawed));
    CHECK(absl::StartsWith(pair.musa.toolchain, "musa-compat/cpu g++"));
    CHECK_FALSE(absl::StrContains(pair.cuda.toolchain, "musa"));
    CHECK(absl::StrContains((*programs)[i].musa, "musaStream_t"));
    CHECK_FALSE(absl::StrContains((*programs)[i].musa, "cudaStream_t"));
    wrong += pair.cuda.ok() ? 0 : 1;
  }
  CHECK(wrong > 3);
}

}  // namespace
}  // namespace hone::musa
