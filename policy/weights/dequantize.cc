// The block layouts of ggml, unpacked. Each function turns one block into its elements; the order of float32 operations is
// that of ggml's reference, so that the values agree to the bit.

#include <cstring>

#include "policy/weights/gguf.h"
#include "policy/weights/half.h"

namespace hone::policy {
namespace {

uint8_t Byte(const std::byte* at) { return static_cast<uint8_t>(*at); }

float Half(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return FloatFromHalf(bits);
}

void CopyF32(const std::byte* block, float* out) { std::memcpy(out, block, sizeof(float)); }
void UnpackF16(const std::byte* block, float* out) { *out = Half(block); }
void UnpackBF16(const std::byte* block, float* out) {
  uint16_t bits;
  std::memcpy(&bits, block, sizeof bits);
  *out = FloatFromBFloat16(bits);
}

// 32 elements: [scale] 16 bytes of nibbles, low nibbles first.
void UnpackQ4_0(const std::byte* block, float* out) {
  const float scale = Half(block);
  for (int i = 0; i < 16; ++i) {
    const int pair = Byte(block + 2 + i);
    out[i] = static_cast<float>((pair & 0xF) - 8) * scale;
    out[i + 16] = static_cast<float>((pair >> 4) - 8) * scale;
  }
}

// [scale, minimum] nibbles.
void UnpackQ4_1(const std::byte* block, float* out) {
  const float scale = Half(block), minimum = Half(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int pair = Byte(block + 4 + i);
    out[i] = static_cast<float>(pair & 0xF) * scale + minimum;
    out[i + 16] = static_cast<float>(pair >> 4) * scale + minimum;
  }
}

/// The five-bit numbers of Q5_0 and Q5_1: 32 high bits, then nibbles.
void UnpackFiveBits(const std::byte* high_bits, int* out) {
  uint32_t high;
  std::memcpy(&high, high_bits, sizeof high);
  for (int i = 0; i < 16; ++i) {
    const int pair = Byte(high_bits + 4 + i);
    out[i] = (pair & 0xF) | static_cast<int>(high >> i & 1) << 4;
    out[i + 16] = pair >> 4 | static_cast<int>(high >> (i + 16) & 1) << 4;
  }
}

void UnpackQ5_0(const std::byte* block, float* out) {
  const float scale = Half(block);
  int numbers[32];
  UnpackFiveBits(block + 2, numbers);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(numbers[i] - 16) * scale;
}

void UnpackQ5_1(const std::byte* block, float* out) {
  const float scale = Half(block), minimum = Half(block + 2);
  int numbers[32];
  UnpackFiveBits(block + 4, numbers);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(numbers[i]) * scale + minimum;
}

void UnpackQ8_0(const std::byte* block, float* out) {
  const float scale = Half(block);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(static_cast<int8_t>(Byte(block + 2 + i))) * scale;
}

// 16 groups of 16: a nibble of scale and one of minimum each; numbers of 2 bits. [groups, numbers, scale, minimum]
void UnpackQ2_K(const std::byte* block, float* out) {
  const std::byte* numbers = block + 16;
  const float scale = Half(block + 80), minimum = Half(block + 82);
  for (int group = 0; group < 16; ++group) {
    const int packed = Byte(block + group);
    const float d = scale * static_cast<float>(packed & 0xF), m = minimum * static_cast<float>(packed >> 4);
    const int half = group / 8, shift = group % 8 / 2 * 2, first = group % 2 * 16;
    for (int i = 0; i < 16; ++i) {
      const int number = Byte(numbers + half * 32 + first + i) >> shift & 3;
      out[group * 16 + i] = d * static_cast<float>(number) - m;
    }
  }
}

// 16 groups of 16 with scales of 6 bits; numbers of 2 bits and a third in a mask. [mask, numbers, scales, scale]
void UnpackQ3_K(const std::byte* block, float* out) {
  const std::byte* mask = block;
  const std::byte* numbers = block + 32;
  const std::byte* scales = block + 96;
  const float scale = Half(block + 108);
  for (int group = 0; group < 16; ++group) {
    const int low = group < 8 ? Byte(scales + group) & 0xF : Byte(scales + group - 8) >> 4;
    const int high = Byte(scales + 8 + group % 4) >> (group / 4 * 2) & 3;
    const float d = scale * static_cast<float>((low | high << 4) - 32);
    const int half = group / 8, shift = group % 8 / 2 * 2, first = group % 2 * 16, bit = half * 4 + group % 8 / 2;
    for (int i = 0; i < 16; ++i) {
      const int number = Byte(numbers + half * 32 + first + i) >> shift & 3;
      const int offset = Byte(mask + first + i) >> bit & 1 ? 0 : 4;
      out[group * 16 + i] = d * static_cast<float>(number - offset);
    }
  }
}

/// Scale and minimum of group `group` of 8, six bits each, as Q4_K and Q5_K pack them in 12 bytes.
void SixBitPair(const std::byte* packed, int group, int& scale, int& minimum) {
  if (group < 4) {
    scale = Byte(packed + group) & 63;
    minimum = Byte(packed + group + 4) & 63;
    return;
  }
  scale = (Byte(packed + group + 4) & 0xF) | (Byte(packed + group - 4) >> 6) << 4;
  minimum = Byte(packed + group + 4) >> 4 | (Byte(packed + group) >> 6) << 4;
}

// 8 groups of 32: [scale, minimum, 12 bytes of six-bit pairs, nibbles].
void UnpackQ4_K(const std::byte* block, float* out) {
  const float scale = Half(block), minimum = Half(block + 2);
  for (int group = 0; group < 8; ++group) {
    int group_scale, group_minimum;
    SixBitPair(block + 4, group, group_scale, group_minimum);
    const float d = scale * static_cast<float>(group_scale), m = minimum * static_cast<float>(group_minimum);
    const std::byte* numbers = block + 16 + group / 2 * 32;
    const int shift = group % 2 * 4;
    for (int i = 0; i < 32; ++i) out[group * 32 + i] = d * static_cast<float>(Byte(numbers + i) >> shift & 0xF) - m;
  }
}

// As Q4_K with a fifth bit for each number: [scale, minimum, pairs, 32 bytes of fifth bits, nibbles].
void UnpackQ5_K(const std::byte* block, float* out) {
  const float scale = Half(block), minimum = Half(block + 2);
  const std::byte* fifth = block + 16;
  for (int group = 0; group < 8; ++group) {
    int group_scale, group_minimum;
    SixBitPair(block + 4, group, group_scale, group_minimum);
    const float d = scale * static_cast<float>(group_scale), m = minimum * static_cast<float>(group_minimum);
    const std::byte* numbers = block + 48 + group / 2 * 32;
    const int shift = group % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      const int number = (Byte(numbers + i) >> shift & 0xF) | (Byte(fifth + i) >> group & 1) << 4;
      out[group * 32 + i] = d * static_cast<float>(number) - m;
    }
  }
}

// 16 groups of 16: [128 bytes of nibbles, 64 bytes of high bit pairs, 16 scales, scale].
void UnpackQ6_K(const std::byte* block, float* out) {
  const std::byte* high = block + 128;
  const std::byte* scales = block + 192;
  const float scale = Half(block + 208);
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 128; ++i) {
      const int quarter = i / 32, column = i % 32;
      const int nibble = Byte(block + half * 64 + quarter % 2 * 32 + column) >> (quarter / 2 * 4) & 0xF;
      const int pair = Byte(high + half * 32 + column) >> (quarter * 2) & 3;
      const float d = scale * static_cast<float>(static_cast<int8_t>(Byte(scales + half * 8 + i / 16)));
      out[half * 128 + i] = d * static_cast<float>((nibble | pair << 4) - 32);
    }
  }
}

using Unpack = void (*)(const std::byte* block, float* out);

Unpack UnpackerOf(GgmlType type) {
  switch (type) {
    case GgmlType::kF32: return CopyF32;
    case GgmlType::kF16: return UnpackF16;
    case GgmlType::kBF16: return UnpackBF16;
    case GgmlType::kQ4_0: return UnpackQ4_0;
    case GgmlType::kQ4_1: return UnpackQ4_1;
    case GgmlType::kQ5_0: return UnpackQ5_0;
    case GgmlType::kQ5_1: return UnpackQ5_1;
    case GgmlType::kQ8_0: return UnpackQ8_0;
    case GgmlType::kQ2_K: return UnpackQ2_K;
    case GgmlType::kQ3_K: return UnpackQ3_K;
    case GgmlType::kQ4_K: return UnpackQ4_K;
    case GgmlType::kQ5_K: return UnpackQ5_K;
    case GgmlType::kQ6_K: return UnpackQ6_K;
  }
  return nullptr;
}

}  // namespace

void Dequantize(const GgufTensor& tensor, int64_t first, absl::Span<float> out) {
  const GgmlBlock block = BlockOf(tensor.type);
  const Unpack unpack = UnpackerOf(tensor.type);
  const std::byte* at = tensor.bytes.data() + first / block.elements * block.bytes;
  for (size_t done = 0; done < out.size(); done += block.elements, at += block.bytes) unpack(at, out.data() + done);
}

}  // namespace hone::policy
