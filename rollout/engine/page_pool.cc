#include "rollout/engine/page_pool.h"

#include "base/status_macros.h"

namespace hone::rollout {

PagePool::PagePool(int64_t pages) : holders_(pages, 0) {
  free_.reserve(pages);
  for (int64_t page = pages - 1; page >= 0; --page) free_.push_back(static_cast<int32_t>(page));
}

int32_t PagePool::Take() {
  HONE_CHECK(!free_.empty());
  const int32_t page = free_.back();
  free_.pop_back();
  holders_[page] = 1;
  return page;
}

void PagePool::Release(int32_t page) {
  HONE_CHECK(holders_[page] > 0);
  if (--holders_[page] == 0) free_.push_back(page);
}

}  // namespace hone::rollout
