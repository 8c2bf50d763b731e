// Cooperative groups: the block, tiles of at most a warp, the grid's numbers. Groups of the threads that happen to have
// taken one branch (coalesced_threads) are missing: a thread cannot know here which those are. So is the grid's barrier,
// for which every block would have to run at once.
#ifndef HONE_COOPERATIVE_GROUPS_H_
#define HONE_COOPERATIVE_GROUPS_H_
#define _CG_HAS_CUDA_REDUCE 1
namespace cooperative_groups {

class thread_block {
 public:
  HONE_INLINE void sync() { __syncthreads(); }
  HONE_INLINE unsigned thread_rank() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  }
  HONE_INLINE unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  HONE_INLINE unsigned num_threads() { return size(); }
  HONE_INLINE dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  HONE_INLINE dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  HONE_INLINE dim3 group_dim() { return blockDim; }
  HONE_INLINE dim3 dim_threads() { return blockDim; }
};
HONE_INLINE thread_block this_thread_block() { return {}; }

class grid_group {
 public:
  HONE_INLINE unsigned long long size() { return num_blocks() * thread_block::size(); }
  HONE_INLINE unsigned long long num_threads() { return size(); }
  HONE_INLINE unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  HONE_INLINE unsigned long long block_rank() {
    return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  HONE_INLINE unsigned long long thread_rank() { return block_rank() * thread_block::size() + thread_block::thread_rank(); }
  HONE_INLINE dim3 block_index() { return thread_block::group_index(); }
  HONE_INLINE dim3 dim_blocks() { return gridDim; }
};
HONE_INLINE grid_group this_grid() { return {}; }

template <unsigned kSize, class Parent = void>
class thread_block_tile {
  static_assert(kSize >= 1 && kSize <= 32 && (kSize & (kSize - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");
  HONE_INLINE unsigned first() { return hone_lane() & ~(kSize - 1); }
  HONE_INLINE unsigned mask() { return (kSize == 32 ? ~0u : (1u << (kSize & 31)) - 1) << first(); }
  // Values of any size, eight bytes at a time.
  template <class T> HONE_INLINE T exchange(const T& value, unsigned source) {
    T result;
    for (size_t done = 0; done < sizeof(T); done += 8) {
      const size_t bytes = sizeof(T) - done < 8 ? sizeof(T) - done : 8;
      unsigned long long part = 0;
      __builtin_memcpy(&part, (const char*)&value + done, bytes);
      part = hone_exchange(mask(), part, source);
      __builtin_memcpy((char*)&result + done, &part, bytes);
    }
    return result;
  }

 public:
  thread_block_tile() = default;
  template <class Other> __attribute__((always_inline)) thread_block_tile(const thread_block_tile<kSize, Other>&) {}
  HONE_INLINE void sync() { __syncwarp(mask()); }
  HONE_INLINE unsigned thread_rank() { return hone_lane() & (kSize - 1); }
  HONE_INLINE constexpr unsigned size() { return kSize; }
  HONE_INLINE constexpr unsigned num_threads() { return kSize; }
  HONE_INLINE unsigned meta_group_rank() { return thread_block::thread_rank() / kSize; }
  HONE_INLINE unsigned meta_group_size() { return (thread_block::size() + kSize - 1) / kSize; }
  template <class T> HONE_INLINE T shfl(const T& value, int source) {
    return exchange(value, first() + ((unsigned)source & (kSize - 1)));
  }
  template <class T> HONE_INLINE T shfl_up(const T& value, unsigned delta) {
    return exchange(value, thread_rank() < delta ? hone_lane() : hone_lane() - delta);
  }
  template <class T> HONE_INLINE T shfl_down(const T& value, unsigned delta) {
    return exchange(value, thread_rank() + delta >= kSize ? hone_lane() : hone_lane() + delta);
  }
  template <class T> HONE_INLINE T shfl_xor(const T& value, unsigned lane_mask) {
    return exchange(value, first() + ((thread_rank() ^ lane_mask) & (kSize - 1)));
  }
  HONE_INLINE unsigned ballot(int predicate) { return __ballot_sync(mask(), predicate) >> first(); }
  HONE_INLINE int any(int predicate) { return __any_sync(mask(), predicate); }
  HONE_INLINE int all(int predicate) { return __all_sync(mask(), predicate); }
  template <class T> HONE_INLINE unsigned match_any(T value) { return __match_any_sync(mask(), value) >> first(); }
  template <class T> HONE_INLINE unsigned match_all(T value, int& all) {
    return __match_all_sync(mask(), value, &all) >> first();
  }
};
template <unsigned kSize, class Parent>
HONE_INLINE thread_block_tile<kSize, Parent> tiled_partition(const Parent&) { return {}; }

template <class Group> HONE_INLINE void sync(const Group&) { Group::sync(); }
template <class Group> HONE_INLINE auto thread_rank(const Group&) { return Group::thread_rank(); }
template <class Group> HONE_INLINE auto group_size(const Group&) { return Group::size(); }

#define HONE_OPERATION(name, expression)                                             \
  template <class T> struct name {                                                   \
    __attribute__((always_inline)) T operator()(const T& a, const T& b) const { return expression; } \
  };
HONE_OPERATION(plus, a + b) HONE_OPERATION(less, b < a ? b : a) HONE_OPERATION(greater, a < b ? b : a)
HONE_OPERATION(bit_and, a & b) HONE_OPERATION(bit_or, a | b) HONE_OPERATION(bit_xor, a ^ b)
#undef HONE_OPERATION
// The result in every thread of the tile.
template <unsigned kSize, class Parent, class T, class Operation>
HONE_INLINE T reduce(const thread_block_tile<kSize, Parent>&, T value, Operation operation) {
  for (unsigned distance = kSize / 2; distance > 0; distance /= 2) {
    value = operation(value, thread_block_tile<kSize, Parent>::shfl_xor(value, distance));
  }
  return value;
}
}  // namespace cooperative_groups
#endif  // HONE_COOPERATIVE_GROUPS_H_
