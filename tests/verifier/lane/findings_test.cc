// What outputs tell about how they were computed.

#include "verifier/lane/findings.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <cstring>
#include <vector>

namespace hone::verifier {
namespace {

using Catch::Matchers::WithinRel;

/// Errors of `got` against 1 + i / 4096, i = 0..4095.
double LargeErrorOf(const std::vector<float>& got) {
  std::vector<float> want(got.size());
  for (size_t i = 0; i < want.size(); ++i) want[i] = 1 + static_cast<float>(i) / 4096;
  TensorSpec spec;
  spec.dtype = DType::kFloat32;
  spec.shape = {static_cast<int64_t>(got.size())};
  return LargeError(spec, reinterpret_cast<const unsigned char*>(got.data()), reinterpret_cast<const unsigned char*>(want.data()),
                    spec.Elements());
}

std::vector<float> Right() {
  std::vector<float> values(4096);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1 + static_cast<float>(i) / 4096;
  return values;
}

TEST_CASE("Errors of one element in eight show, those of one in thirty-two do not", "[verifier][lane]") {
  // All lie below the root mean square of [1, 2), sqrt(7/3), or are a little larger: 0.001 of it at least at the lower end.
  std::vector<float> some = Right(), few = Right();
  for (size_t i = 0; i < some.size(); i += 8) some[i] += 0.001f;
  for (size_t i = 0; i < few.size(); i += 32) few[i] += 0.001f;
  CHECK_THAT(LargeErrorOf(some), WithinRel(0.001 / std::sqrt(7.0 / 3), 0.05));
  CHECK(LargeErrorOf(few) == 0);
}

TEST_CASE("Rounding to ten bits of one element in eight is above what float32's own format costs", "[verifier][lane]") {
  std::vector<float> values = Right();
  for (size_t i = 1; i < values.size(); i += 8) {
    float value = values[i] * 1.0002f;  // no multiple of a ten-bit step
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    bits &= 0xffffe000u;
    std::memcpy(&values[i], &bits, sizeof bits);
  }
  CHECK(LargeErrorOf(values) > ErrorOfNarrowerFormat(DType::kFloat32) / 2);
}

TEST_CASE("Infinities and NaN are no errors of a format", "[verifier][lane]") {
  std::vector<float> values = Right();
  for (size_t i = 0; i < values.size(); i += 2) values[i] = i % 4 == 0 ? NAN : INFINITY;
  CHECK(LargeErrorOf(values) == 0);
}

TEST_CASE("What a candidate says of itself is one line without escapes", "[verifier][lane]") {
  DeviceTable device = {};
  device.launch_error_name = [](int) { return "an error"; };
  RunnerReport raised;
  raised.kind = RunnerReport::Kind::kDone;
  raised.code = static_cast<int>(PythonError::kRaised);
  raised.text = "forward raised a\nb\x1b[31m";
  CHECK(ExplainPython(raised, device, absl::Seconds(1), "").message == "forward raised a b [31m");
  RunnerReport ended;
  ended.kind = RunnerReport::Kind::kEnded;
  ended.exited = true;
  const std::string message = ExplainReport(ended, device, {}, absl::Seconds(1), "first\nlast \x1b]0;title\x07").message;
  CHECK(message.find("last  ]0;title ") != std::string::npos);
  CHECK(message.find('\x1b') == std::string::npos);
}

}  // namespace
}  // namespace hone::verifier
