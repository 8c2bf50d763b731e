#include "policy/weights/gguf.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>

#include "base/file.h"
#include "policy/weights/half.h"
#include "policy/weights/safetensors.h"

namespace hone::policy {
namespace {

const std::string kData = HONE_TEST_DATA;

std::string ErrorOf(const std::string& path) {
  const auto opened = Gguf::Open(path);
  REQUIRE_FALSE(opened.ok());
  const std::string message(opened.status().message());
  CHECK(message.find('\n') == std::string::npos);
  CHECK(message.find(path) == 0);
  return message.substr(path.size());
}

TEST_CASE("Every element type unpacks to the bits that ggml's reference gives", "[policy][weights]") {
  const auto gguf = Gguf::Open(kData + "/blocks.gguf");
  const auto expected = Safetensors::Open(kData + "/blocks.safetensors");
  REQUIRE(gguf.ok());
  REQUIRE(expected.ok());
  REQUIRE((*gguf)->tensors().size() == (*expected)->tensors().size());
  for (const GgufTensor& tensor : (*gguf)->tensors()) {
    INFO(tensor.name);
    const TensorView* want = (*expected)->Find(tensor.name);
    REQUIRE(want != nullptr);
    CHECK(tensor.shape == want->shape);
    std::vector<float> got(tensor.Elements());
    Dequantize(tensor, 0, absl::MakeSpan(got));
    CHECK(std::memcmp(got.data(), want->bytes.data(), want->bytes.size()) == 0);
    std::vector<float> tail(256);
    Dequantize(tensor, tensor.Elements() - 256, absl::MakeSpan(tail));
    CHECK(std::memcmp(tail.data(), got.data() + got.size() - 256, 256 * sizeof(float)) == 0);
  }
}

TEST_CASE("Metadata is read by key and kind", "[policy][weights]") {
  const auto gguf = Gguf::Open(kData + "/blocks.gguf");
  REQUIRE(gguf.ok());
  CHECK((*gguf)->Text("general.architecture") == "test");
  CHECK((*gguf)->Integer("test.number") == 7);
  CHECK((*gguf)->Number("test.number") == 7.0);
  CHECK_FALSE((*gguf)->Text("test.number"));
  CHECK_FALSE((*gguf)->Integer("test.missing"));
  REQUIRE((*gguf)->Array("test.words") != nullptr);
  CHECK((*gguf)->Array("test.words")->strings == std::vector<absl::string_view>{"a", "", "\u00e9"});
}

TEST_CASE("Every cut of a GGUF file is refused in one line", "[policy][weights]") {
  const auto folder = TempFolder::Create("hone_gguf");
  REQUIRE(folder.ok());
  const std::string whole = *ReadFile(kData + "/blocks.gguf");
  const std::string path = folder->path() + "/cut.gguf";
  for (size_t size = 0; size < whole.size() - 32; size += size < 1500 ? 1 : 997) {  // the end may be padding
    REQUIRE(WriteFileAtomically(path, whole.substr(0, size)).ok());
    ErrorOf(path);
  }
}

TEST_CASE("A GGUF file with flipped bytes is refused or read, never trusted", "[policy][weights]") {
  const auto folder = TempFolder::Create("hone_gguf");
  REQUIRE(folder.ok());
  const std::string whole = *ReadFile(kData + "/blocks.gguf");
  const std::string path = folder->path() + "/flipped.gguf";
  for (size_t at = 0; at < 1400; ++at) {
    for (const char mask : {'\x01', '\x80', '\xff'}) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ mask);
      REQUIRE(WriteFileAtomically(path, flipped).ok());
      const auto gguf = Gguf::Open(path);
      if (!gguf.ok()) continue;
      for (const GgufTensor& tensor : (*gguf)->tensors()) {  // under the address sanitizer this proves the bounds
        std::vector<float> values(tensor.Elements());
        Dequantize(tensor, 0, absl::MakeSpan(values));
      }
    }
  }
}

TEST_CASE("Halves round to nearest even and come back exactly", "[policy][weights]") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    if (const float value = FloatFromHalf(half); !std::isnan(value)) REQUIRE(HalfFromFloat(value) == half);
    if (const float value = FloatFromBFloat16(half); !std::isnan(value)) REQUIRE(BFloat16FromFloat(value) == half);
  }
  CHECK(HalfFromFloat(65519.0f) == 0x7BFF);
  CHECK(HalfFromFloat(65520.0f) == 0x7C00);
  CHECK(HalfFromFloat(1.0f + 0x1p-11f) == 0x3C00);         // a tie goes to the even neighbour
  CHECK(HalfFromFloat(1.0f + 3 * 0x1p-11f) == 0x3C02);
  CHECK(HalfFromFloat(0x1p-25f) == 0);                     // half of the smallest subnormal: a tie, too
  CHECK(HalfFromFloat(std::nextafter(0x1p-25f, 1.0f)) == 1);
  CHECK(BFloat16FromFloat(1.0f + 0x1p-8f) == 0x3F80);
  CHECK(BFloat16FromFloat(1.0f + 3 * 0x1p-8f) == 0x3F82);
  CHECK(std::isnan(FloatFromBFloat16(BFloat16FromFloat(FloatFromBits(0x7F800001)))));
  CHECK(std::isnan(FloatFromHalf(HalfFromFloat(FloatFromBits(0x7F800001)))));
}

}  // namespace
}  // namespace hone::policy
