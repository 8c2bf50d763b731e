#pragma once

// Cache pages that outlive their sequences, for later sequences that begin with the same tokens: turns of one
// conversation, a prompt that comes again, a sample that was put off. Keys and values belong to the weights that computed
// them: everything is dropped when the policy version changes.

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/types/span.h"
#include "rollout/engine/page_pool.h"
#include "rollout/engine/runner.h"

namespace hone::rollout {

/// A tree of whole pages, each under the page before it. Holds each of its pages once. Not thread-safe.
class PrefixCache {
 public:
  explicit PrefixCache(PagePool& pool) : pool_(pool) {}

  /// Pages of the longest known beginning of `ids`, all its tokens but at least the last one left out. The caller shares
  /// what it keeps.
  std::vector<int32_t> Find(absl::Span<const int32_t> ids);
  /// Remembers the pages that hold the whole pages of `ids`. Pages of a beginning that is known already are not taken.
  void Insert(absl::Span<const int32_t> ids, absl::Span<const int32_t> table);
  /// Gives pages back, those that went unused for longest first, until `pages` are free in the pool or none is left that
  /// only the cache holds. True when there are.
  bool MakeFree(int64_t pages);
  void Clear();

  /// Pages that only the cache holds.
  int64_t reclaimable() const;

 private:
  static constexpr int64_t kPage = Runner::kPagePositions;
  using Tokens = std::array<int32_t, kPage>;
  struct Entry {
    int64_t parent;  // -1: the first page
    Tokens tokens;
    int32_t page;
    int64_t children = 0;
    int64_t used = 0;
  };
  int64_t Child(int64_t parent, absl::Span<const int32_t> tokens) const;  // -1: none
  void Touch(int64_t id);
  void Drop(int64_t id);

  PagePool& pool_;
  std::map<int64_t, Entry> entries_;
  std::map<std::pair<int64_t, Tokens>, int64_t> children_;  // (parent, tokens) -> entry
  std::set<std::pair<int64_t, int64_t>> leaves_;            // (used, entry)
  int64_t next_ = 0, clock_ = 0;
};

}  // namespace hone::rollout
