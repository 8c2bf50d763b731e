// Cooperative groups: what each thread of a block finds out about its groups, one column of `out` each.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

template <int kSize>
__device__ int tile_sum(cg::thread_block_tile<kSize> tile, int v) {
  return cg::reduce(tile, v, cg::plus<int>());
}

__global__ void groups(const int* __restrict__ x, int* __restrict__ out, int n) {
  __shared__ int from_other_warp[128];
  cg::thread_block block = cg::this_thread_block();
  const int t = block.thread_rank();
  from_other_warp[t] = x[t];
  block.sync();
  out[t] = from_other_warp[(t + 64) % 128];
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  auto eight = cg::tiled_partition<8>(warp);
  auto four = cg::tiled_partition<4>(block);
  out[n + t] = tile_sum<32>(warp, x[t]);
  out[2 * n + t] = cg::reduce(eight, x[t], cg::greater<int>());
  out[3 * n + t] = cg::reduce(four, x[t], cg::less<int>());
  out[4 * n + t] = eight.shfl(x[t], 3);
  out[5 * n + t] = eight.shfl_down(x[t], 2);
  out[6 * n + t] = eight.shfl_up(x[t], 2);
  out[7 * n + t] = four.shfl_xor(x[t], 1);
  out[8 * n + t] = eight.ballot(x[t] > 64);
  out[9 * n + t] = four.any(x[t] == 5) + 2 * four.all(x[t] > 5);
  out[10 * n + t] = eight.meta_group_rank() * 100 + eight.thread_rank();
  struct { double a; int b; } wide = {0.5 * x[t], x[t]};
  wide = eight.shfl(wide, 7);
  out[11 * n + t] = wide.b + (int)(2 * wide.a);
  cg::sync(eight);
  out[12 * n + t] = (int)cg::this_grid().thread_rank();
}

extern "C" void launch(const int* x, int* out, int n, cudaStream_t stream) { groups<<<1, 128, 0, stream>>>(x, out, n); }
