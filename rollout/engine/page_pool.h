#pragma once

// Which cache pages are in use, and by how many sequences.

#include <cstdint>
#include <vector>

namespace hone::rollout {

/// Not thread-safe. Pages are handed out lowest number first after a reset, then last freed first.
class PagePool {
 public:
  explicit PagePool(int64_t pages);

  int64_t pages() const { return static_cast<int64_t>(holders_.size()); }
  int64_t free_pages() const { return static_cast<int64_t>(free_.size()); }
  /// A page with one holder; there must be a free one.
  int32_t Take();
  int32_t holders(int32_t page) const { return holders_[page]; }
  void Share(int32_t page) { ++holders_[page]; }
  void Release(int32_t page);

 private:
  std::vector<int32_t> free_;
  std::vector<int32_t> holders_;
};

}  // namespace hone::rollout
