#include "policy/model/checksum.h"

#include "policy/model/mix.h"
#include "tests/support/catch_torch.h"

namespace hone::policy {
namespace {

uint64_t SumOf(const std::vector<at::Tensor>& tensors) {
  Checksum checksum(at::kCPU);
  for (const at::Tensor& tensor : tensors) REQUIRE(checksum.Add(tensor).ok());
  return checksum.Value().value();
}

TEST_CASE("Words are mixed as SplitMix64 mixes its states", "[policy][checksum]") {
  // The generator's first outputs from seed 0, as published with it.
  CHECK(MixWord(0, 0) == 0xe220a8397b1dcdafull);
  CHECK(MixWord(0, 1) == 0x6e789e6aa1b965f4ull);
  CHECK(MixWord(0, 2) == 0x06c45d188009454full);
  CHECK(SumOf({at::zeros({2}, at::kLong), at::zeros({1}, at::kLong)}) ==
        0xe220a8397b1dcdafull + 0x6e789e6aa1b965f4ull + 0x06c45d188009454full);
}

TEST_CASE("A changed bit, an exchanged pair and a moved number each change the checksum", "[policy][checksum]") {
  const at::Tensor weights = at::randn({1001}).to(at::kBFloat16);  // its last word is not full
  const uint64_t sum = SumOf({weights});
  CHECK(SumOf({weights.clone()}) == sum);
  at::Tensor bit = weights.clone();
  static_cast<uint16_t*>(bit.mutable_data_ptr())[1000] ^= 1;
  CHECK(SumOf({bit}) != sum);
  at::Tensor exchanged = weights.clone();
  exchanged[0] = weights[900];
  exchanged[900] = weights[0];
  CHECK(SumOf({exchanged}) != sum);
  CHECK(SumOf({weights.roll(4)}) != sum);
  CHECK(SumOf({weights.narrow(0, 0, 500).clone(), weights.narrow(0, 500, 501).clone()}) == sum);
}

TEST_CASE("What is not contiguous is refused", "[policy][checksum]") {
  Checksum checksum(at::kCPU);
  CHECK(absl::IsInvalidArgument(checksum.Add(at::zeros({4, 4}).t())));
}

}  // namespace
}  // namespace hone::policy
