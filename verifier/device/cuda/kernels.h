#pragma once

// The judge's own kernels, compiled at its start. CUDA C++ without headers and without inline assembly, so that every
// dialect's compiler takes them. Structs are those of device.h, field by field.

namespace hone::verifier {

inline constexpr char kJudgeKernels[] = R"(
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct Comparison { const void* got; const void* want; u64 count; int dtype; double atol; double rtol; u16 poison; };
struct Copy { void* to; const void* from; u64 bytes; };
struct Span { const void* data; u64 bytes; };

__device__ float from_bits(u32 bits) { union { u32 u; float f; } v; v.u = bits; return v.f; }

__device__ float widen_half(u16 half) {
  const u32 sign = (u32)(half & 0x8000u) << 16;
  const u32 exponent = (half >> 10) & 0x1Fu;
  const u32 mantissa = half & 0x3FFu;
  if (exponent == 0) return from_bits(sign | 0x3f800000u) * ((float)mantissa * 5.9604644775390625e-8f);  // 2^-24
  if (exponent == 31) return from_bits(sign | 0x7f800000u | (mantissa << 13));
  return from_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}
__device__ float widen_bfloat(u16 half) { return from_bits((u32)half << 16); }

__device__ bool agrees(double got, double want, bool unwritten, double atol, double rtol) {
  const double difference = got > want ? got - want : want - got;
  const double size = want < 0 ? -want : want;
  const bool close = difference <= atol + rtol * size;
  const bool finite = size <= 1.7976931348623157e308;
  const bool both_nan = got != got && want != want && !unwritten;
  return (close && finite) || got == want || both_nan;
}

__device__ bool differs(const Comparison& c, u64 i) {
  switch (c.dtype) {
    case 0: {
      const u32 bits = ((const u32*)c.got)[i];
      return !agrees(from_bits(bits), ((const float*)c.want)[i], bits == 0x00010001u * (u32)c.poison, c.atol, c.rtol);
    }
    case 1: {
      const u16 bits = ((const u16*)c.got)[i];
      return !agrees(widen_half(bits), widen_half(((const u16*)c.want)[i]), bits == c.poison, c.atol, c.rtol);
    }
    case 2: {
      const u16 bits = ((const u16*)c.got)[i];
      return !agrees(widen_bfloat(bits), widen_bfloat(((const u16*)c.want)[i]), bits == c.poison, c.atol, c.rtol);
    }
    case 3: {
      const u64 bits = ((const u64*)c.got)[i];
      return !agrees(((const double*)c.got)[i], ((const double*)c.want)[i], bits == 0x0001000100010001ull * (u64)c.poison,
                     c.atol, c.rtol);
    }
    case 4: return ((const u32*)c.got)[i] != ((const u32*)c.want)[i];
    case 5: return ((const u64*)c.got)[i] != ((const u64*)c.want)[i];
    default: return ((const u8*)c.got)[i] != ((const u8*)c.want)[i];
  }
}

// Grid: x over the elements, y over the items.
extern "C" __global__ void hone_compare(const Comparison* items, u64* differing) {
  const Comparison c = items[blockIdx.y];
  const u64 step = (u64)gridDim.x * blockDim.x;
  u64 count = 0;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < c.count; i += step) count += differs(c, i) ? 1 : 0;
  if (count != 0) atomicAdd(&differing[blockIdx.y], count);
}

extern "C" __global__ void hone_count_changed(const Span* items, u16 pattern, u64* changed) {
  const Span s = items[blockIdx.y];
  const u64 step = (u64)gridDim.x * blockDim.x;
  u64 count = 0;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < s.bytes; i += step) {
    const u8* at = (const u8*)s.data + i;
    const u8 expected = (u64)at % 2 == 0 ? (u8)pattern : (u8)(pattern >> 8);
    count += *at != expected ? 1 : 0;
  }
  if (count != 0) atomicAdd(changed, count);
}

extern "C" __global__ void hone_copy(const Copy* items) {
  const Copy c = items[blockIdx.y];
  const u64 step = (u64)gridDim.x * blockDim.x;
  const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
  const u64 wide = ((u64)c.to | (u64)c.from) % 16 == 0 ? c.bytes / 16 : 0;
  for (u64 i = first; i < wide; i += step) ((uint4*)c.to)[i] = ((const uint4*)c.from)[i];
  for (u64 i = wide * 16 + first; i < c.bytes; i += step) ((u8*)c.to)[i] = ((const u8*)c.from)[i];
}
)";

}  // namespace hone::verifier
