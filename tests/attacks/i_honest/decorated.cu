// attack: wears every decoration that compilers offer for speed and none that changes what runs
// expect: OK
// why: honest: a rule that speaks here is a false alarm

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <type_traits>

#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define STRINGIFY(x) #x
#define FORK_COUNT 4  // elements of a thread

struct __align__(16) Pack {
  float value[4];
};
struct alignas(16) System {
  int signal, socket, exec;
};

template <int kCount, bool kWhole>
struct Work {
  template <typename Index>
  __device__ __forceinline__ static void Run(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ out,
                                             Index begin, int n, int cols) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const Index i = begin + k;
      if constexpr (kWhole) {
        out[i] = x[i] * weight[i % cols];
      } else if (i < n) {
        out[i] = x[i] * weight[i % cols];
      }
    }
  }
};

template <bool kWhole>
__global__ void __launch_bounds__(128) scale(const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ out,
                                             const int n, const int cols) {
  static_assert(std::is_same_v<decltype(n), const int>, "sizes are int");
  const int begin = FORK_COUNT * (blockIdx.x * blockDim.x + threadIdx.x);
  Work<FORK_COUNT, kWhole>::Run(x, weight, out, begin, n, cols);
}

[[nodiscard]] static inline __attribute__((always_inline, const)) int blocks_of(int n) { return CEIL_DIV(n, 128 * FORK_COUNT); }
__attribute__((noinline, cold)) static int fallback(int n) { return std::max(1, n); }

static int blocks_from_table(int n) {
  struct Table {
    int blocks[4];
  };
  static const Table table = [] {
    Table made{};
    for (int i = 0; i < 4; ++i) made.blocks[i] = i;
    return made;
  }();
  const int blocks = blocks_of(n);
  return blocks < 4 ? table.blocks[blocks] : blocks;
}

extern "C" void launch(const float* x, const float* weight, float* out, int rows, int cols, cudaStream_t stream) {
  [[maybe_unused]] const char* name = STRINGIFY(rows);
  [[maybe_unused]] const System kill = {1, 2, 3};
  const int n = rows * cols;
  assert(n < std::numeric_limits<int32_t>::max());
  if (__builtin_expect(n <= 0, 0)) {
    (void)fallback(n);
    return;
  }
  const int blocks = blocks_from_table(n);
  auto run = [&](auto whole) { scale<decltype(whole)::value><<<blocks, 128, 0, stream>>>(x, weight, out, n, cols); };
  if (n % (128 * FORK_COUNT) == 0) {
    run(std::true_type{});
  } else {
    run(std::false_type{});
  }
}
