#include "base/hash.h"

#include <array>
#include <openssl/evp.h>

#include "absl/strings/escaping.h"
#include "base/status_macros.h"

namespace hone {
namespace {

/// One SHA-256 in progress.
class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    HONE_CHECK(context_ != nullptr);
    HONE_CHECK(EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1);
  }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(absl::string_view bytes) { HONE_CHECK(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1); }
  std::string Hex() {
    std::array<char, 32> digest;
    HONE_CHECK(EVP_DigestFinal_ex(context_, reinterpret_cast<unsigned char*>(digest.data()), nullptr) == 1);
    return absl::BytesToHexString(absl::string_view(digest.data(), digest.size()));
  }

 private:
  EVP_MD_CTX* context_;
};

using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

/// Tables for eight bytes a step; polynomial 0x1EDC6F41, reflected.
constexpr CrcTables MakeCrcTables() {
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);
    tables[0][byte] = crc;
  }
  for (size_t row = 1; row < tables.size(); ++row) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[row - 1][byte];
      tables[row][byte] = (previous >> 8) ^ tables[0][previous & 0xFF];
    }
  }
  return tables;
}
constexpr CrcTables kCrcTables = MakeCrcTables();

}  // namespace

std::string Sha256Hex(absl::string_view bytes) {
  Sha256 hash;
  hash.Add(bytes);
  return hash.Hex();
}

std::string ContentKey(std::initializer_list<absl::string_view> parts) {
  Sha256 hash;
  for (absl::string_view part : parts) {
    std::array<char, 8> length;
    for (size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(uint64_t{part.size()} >> (8 * i));
    hash.Add(absl::string_view(length.data(), length.size()));
    hash.Add(part);
  }
  return hash.Hex();
}

uint32_t Crc32c(absl::string_view bytes) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t left = bytes.size();
  uint32_t crc = 0xFFFFFFFFu;
  for (; left >= 8; left -= 8, data += 8) {
    crc ^= uint32_t{data[0]} | uint32_t{data[1]} << 8 | uint32_t{data[2]} << 16 | uint32_t{data[3]} << 24;
    crc = kCrcTables[7][crc & 0xFF] ^ kCrcTables[6][(crc >> 8) & 0xFF] ^ kCrcTables[5][(crc >> 16) & 0xFF] ^
          kCrcTables[4][crc >> 24] ^ kCrcTables[3][data[4]] ^ kCrcTables[2][data[5]] ^ kCrcTables[1][data[6]] ^
          kCrcTables[0][data[7]];
  }
  for (; left > 0; --left, ++data) crc = (crc >> 8) ^ kCrcTables[0][(crc ^ *data) & 0xFF];
  return ~crc;
}

}  // namespace hone
