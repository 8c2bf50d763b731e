#include "base/hash.h"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>

namespace hone {
namespace {

TEST_CASE("SHA-256 gives the digests of FIPS 180-2", "[base][hash]") {
  CHECK(Sha256Hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(Sha256Hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(Sha256Hex(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("A content key depends on where its parts end", "[base][hash]") {
  CHECK(ContentKey({"ab", "c"}) == ContentKey({"ab", "c"}));
  CHECK(ContentKey({"ab", "c"}) != ContentKey({"a", "bc"}));
  CHECK(ContentKey({"abc"}) != ContentKey({"abc", ""}));
  CHECK(ContentKey({}).size() == 64);
}

TEST_CASE("CRC32C gives the values of RFC 3720, appendix B.4", "[base][hash]") {
  CHECK(Crc32c("") == 0);
  CHECK(Crc32c("123456789") == 0xE3069283u);
  CHECK(Crc32c(std::string(32, '\0')) == 0x8A9136AAu);
  CHECK(Crc32c(std::string(32, '\xff')) == 0x62A8AB43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  CHECK(Crc32c(rising) == 0x46DD794Eu);
}

uint32_t BitByBit(const std::string& bytes) {
  uint32_t crc = ~0u;
  for (unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1)));
  }
  return ~crc;
}

TEST_CASE("CRC32C by eight bytes a step equals CRC32C by bits at any length", "[base][hash]") {
  std::mt19937 random(3);
  std::string bytes;
  for (int length = 0; length < 100; ++length) {
    CHECK(Crc32c(bytes) == BitByBit(bytes));
    bytes += static_cast<char>(random());
  }
}

}  // namespace
}  // namespace hone
