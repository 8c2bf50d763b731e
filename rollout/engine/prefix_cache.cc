#include "rollout/engine/prefix_cache.h"

#include <algorithm>

namespace hone::rollout {

int64_t PrefixCache::Child(int64_t parent, absl::Span<const int32_t> tokens) const {
  Tokens key;
  std::copy(tokens.begin(), tokens.end(), key.begin());
  const auto found = children_.find({parent, key});
  return found == children_.end() ? -1 : found->second;
}

void PrefixCache::Touch(int64_t id) {
  Entry& entry = entries_.at(id);
  if (entry.children == 0) leaves_.erase({entry.used, id});
  entry.used = ++clock_;
  if (entry.children == 0) leaves_.insert({entry.used, id});
}

std::vector<int32_t> PrefixCache::Find(absl::Span<const int32_t> ids) {
  std::vector<int32_t> pages;
  const int64_t whole = (static_cast<int64_t>(ids.size()) - 1) / kPage;
  for (int64_t p = 0, at = -1; p < whole; ++p) {
    at = Child(at, ids.subspan(p * kPage, kPage));
    if (at < 0) break;
    Touch(at);
    pages.push_back(entries_.at(at).page);
  }
  return pages;
}

void PrefixCache::Insert(absl::Span<const int32_t> ids, absl::Span<const int32_t> table) {
  const int64_t whole = static_cast<int64_t>(ids.size()) / kPage;
  int64_t at = -1;
  for (int64_t p = 0; p < whole; ++p) {
    const absl::Span<const int32_t> tokens = ids.subspan(p * kPage, kPage);
    int64_t next = Child(at, tokens);
    if (next < 0) {
      next = next_++;
      Entry entry{at, {}, table[p]};
      std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
      pool_.Share(entry.page);
      children_[{at, entry.tokens}] = next;
      entries_.emplace(next, entry);
      leaves_.insert({0, next});
      if (at >= 0) {
        Entry& parent = entries_.at(at);
        if (parent.children++ == 0) leaves_.erase({parent.used, at});
      }
    }
    Touch(next);
    at = next;
  }
}

void PrefixCache::Drop(int64_t id) {
  const Entry entry = entries_.at(id);
  pool_.Release(entry.page);
  children_.erase({entry.parent, entry.tokens});
  leaves_.erase({entry.used, id});
  entries_.erase(id);
  if (entry.parent < 0) return;
  Entry& parent = entries_.at(entry.parent);
  if (--parent.children == 0) leaves_.insert({parent.used, entry.parent});
}

bool PrefixCache::MakeFree(int64_t pages) {
  auto leaf = leaves_.begin();
  while (pool_.free_pages() < pages && leaf != leaves_.end()) {
    const int64_t id = leaf->second;
    if (pool_.holders(entries_.at(id).page) > 1) {
      ++leaf;
      continue;
    }
    Drop(id);
    leaf = leaves_.begin();  // its parent may be the oldest leaf now
  }
  return pool_.free_pages() >= pages;
}

void PrefixCache::Clear() {
  for (const auto& [id, entry] : entries_) pool_.Release(entry.page);
  entries_.clear();
  children_.clear();
  leaves_.clear();
}

int64_t PrefixCache::reclaimable() const {
  int64_t count = 0;
  for (const auto& [id, entry] : entries_) count += pool_.holders(entry.page) == 1;
  return count;
}

}  // namespace hone::rollout
