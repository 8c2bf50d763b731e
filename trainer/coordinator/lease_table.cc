#include "trainer/coordinator/lease_table.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hone::trainer {
namespace {

absl::Status CheckTurn(const Turn& turn, const std::string& where, int64_t oldest_version) {
  const auto bad = [&](auto&&... parts) { return absl::InvalidArgumentError(absl::StrCat(where, ": ", parts...)); };
  const int64_t tokens = static_cast<int64_t>(turn.response_ids.size());
  if (turn.prompt_ids.empty()) return bad("no prompt");
  if (tokens == 0) return bad("no response");
  if (static_cast<int64_t>(turn.log_probs.size()) != tokens)
    return bad(turn.log_probs.size(), " log-probs for ", tokens, " tokens");
  for (size_t t = 0; t < turn.log_probs.size(); ++t) {
    if (!std::isfinite(turn.log_probs[t]) || turn.log_probs[t] > 0)
      return bad("log-prob of token ", t, " is ", turn.log_probs[t], ", allowed: finite and <= 0");
  }
  int64_t end = 0;
  for (const VersionSpan& span : turn.versions) {
    if (span.begin != end || span.end <= span.begin) return bad("policy versions do not cover the response in order");
    if (span.policy_version < oldest_version)
      return bad("tokens of policy version ", span.policy_version, ", allowed >= ", oldest_version);
    end = span.end;
  }
  if (end != tokens) return bad("policy versions cover ", end, " of ", tokens, " tokens");
  return absl::OkStatus();
}

}  // namespace

int64_t OldestVersion(absl::Span<const Group> groups, int64_t otherwise) {
  int64_t oldest = INT64_MAX;
  for (const Group& group : groups) {
    for (const Episode& episode : group.episodes) {
      for (const Turn& turn : episode.turns) {
        for (const VersionSpan& span : turn.versions) oldest = std::min(oldest, span.policy_version);
      }
    }
  }
  return oldest == INT64_MAX ? otherwise : oldest;
}

absl::Status CheckGroup(const Group& group, const rollout::GroupRequest& request, int64_t oldest_version) {
  const std::string where = absl::StrCat("group ", request.id);
  if (group.id != request.id) return absl::InvalidArgumentError(absl::StrCat(where, ": delivered as ", group.id));
  if (group.task_id != request.task.id)
    return absl::InvalidArgumentError(absl::StrCat(where, ": of task ", group.task_id, ", not ", request.task.id));
  if (group.episodes.empty()) return absl::InvalidArgumentError(absl::StrCat(where, ": no episode"));
  for (size_t e = 0; e < group.episodes.size(); ++e) {
    const Episode& episode = group.episodes[e];
    if (episode.task_id != request.task.id)
      return absl::InvalidArgumentError(absl::StrCat(where, " episode ", e, ": of task ", episode.task_id));
    if (episode.turns.empty()) return absl::InvalidArgumentError(absl::StrCat(where, " episode ", e, ": no turn"));
    for (size_t t = 0; t < episode.turns.size(); ++t) {
      HONE_RETURN_IF_ERROR(
          CheckTurn(episode.turns[t], absl::StrCat(where, " episode ", e, " turn ", t), oldest_version));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LeaseTable>> LeaseTable::Create(const LeaseOptions& options,
                                                               std::function<SteadyTime()> now) {
  if (options.lease <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("coordinator: lease = ", absl::FormatDuration(options.lease), ", allowed > 0s"));
  }
  if (!(options.quorum > 0 && options.quorum <= 1))
    return absl::InvalidArgumentError(absl::StrCat("coordinator: quorum = ", options.quorum, ", allowed (0, 1]"));
  if (options.grace < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("coordinator: grace = ", absl::FormatDuration(options.grace), ", allowed >= 0s"));
  }
  if (options.max_attempts < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("coordinator: max_attempts = ", options.max_attempts, ", allowed >= 1"));
  }
  return std::unique_ptr<LeaseTable>(new LeaseTable(options, std::move(now)));
}

// Waits until `done`, which is asked again whenever something has changed, a lease has run out, or at `wake`.
template <class Done, class Wake>
bool LeaseTable::AwaitOr(SteadyTime deadline, const Done& done, const Wake& wake) {
  while (true) {
    Expire();
    if (!closed_.ok() || done()) return true;
    if (now_() >= deadline) return false;
    const int64_t seen = changes_;
    const auto changed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return changes_ != seen; };
    AwaitFor(mutex_, absl::Condition(&changed), std::min({deadline, NextExpiry(), wake()}) - now_());
  }
}

SteadyTime LeaseTable::NextExpiry() const {
  SteadyTime next = SteadyTime::InfiniteFuture();
  for (const auto& [place, item] : items_) {
    if (item.state == State::kLeased) next = std::min(next, item.expires);
  }
  return next;
}

void LeaseTable::Expire() {
  const SteadyTime now = now_();
  std::vector<Place> lost;
  for (const auto& [place, item] : items_) {
    if (item.state == State::kLeased && item.expires <= now) lost.push_back(place);
  }
  for (const Place& place : lost) {
    Item& item = items_.at(place);
    ++lost_leases_;
    Return(item, absl::StrCat("worker ", item.worker, " has not renewed its lease for ",
                              absl::FormatDuration(options_.lease)));
  }
}

// The item is due again, or given up.
void LeaseTable::Return(Item& item, const std::string& reason) {
  ++changes_;
  const Place place{item.batch, item.place};
  item.state = State::kDue;
  item.lease.clear();
  if (++item.attempts < options_.max_attempts) {
    due_.insert(place);
    return;
  }
  due_.erase(place);
  failed_.push_back(absl::StrCat("group ", item.request.id, ": ", reason));
  const int64_t number = item.batch;
  if (const auto batch = open_.find(number); batch != open_.end()) --batch->second.size;
  for (auto it = leases_.begin(); it != leases_.end();) it = it->second == place ? leases_.erase(it) : std::next(it);
  items_.erase(place);
  NoteQuorum(number);
}

LeaseTable::Item* LeaseTable::Find(const std::string& lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return nullptr;
  return &items_.at(found->second);
}

absl::Status LeaseTable::Open(std::vector<rollout::GroupRequest> groups, uint64_t seed, int64_t oldest_version) {
  absl::MutexLock lock(&mutex_);
  if (groups.empty()) return absl::InvalidArgumentError("coordinator: a batch without groups");
  std::set<std::string> fresh;
  for (const rollout::GroupRequest& group : groups) {
    if (ids_.count(group.id) > 0 || !fresh.insert(group.id).second)
      return absl::InvalidArgumentError(absl::StrCat("coordinator: group id ", group.id, " is taken"));
  }
  if (!open_.empty() && oldest_version < open_.rbegin()->second.oldest_version) {
    return absl::InvalidArgumentError(
        absl::StrCat("coordinator: policy version ", oldest_version, " after ", open_.rbegin()->second.oldest_version));
  }
  ids_.merge(fresh);
  const int64_t number = next_batch_++;
  open_[number] = {static_cast<int64_t>(groups.size()), oldest_version};
  for (size_t i = 0; i < groups.size(); ++i) {
    const Place place{number, static_cast<int64_t>(i)};
    Item& item = items_[place];
    item.request = std::move(groups[i]);
    item.seed = seed;
    item.batch = number;
    item.place = place.second;
    item.oldest_version = oldest_version;
    due_.insert(place);
  }
  ++changes_;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LeasedGroup>> LeaseTable::Lease(const std::string& worker, int64_t most,
                                                           SteadyTime deadline, int64_t workers) {
  absl::MutexLock lock(&mutex_);
  std::vector<LeasedGroup> leased;
  const auto some = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !due_.empty(); };
  if (!AwaitOr(deadline, some, [] { return SteadyTime::InfiniteFuture(); })) return leased;
  if (!closed_.ok()) return closed_;
  if (!open_.empty() && workers > 1) most = std::min(most, (open_.rbegin()->second.size + workers - 1) / workers);
  while (!due_.empty() && static_cast<int64_t>(leased.size()) < std::max<int64_t>(most, 1)) {
    Item& item = items_.at(*due_.begin());
    due_.erase(due_.begin());
    item.state = State::kLeased;
    item.worker = worker;
    item.lease = absl::StrCat(item.request.id, "#", options_.session, next_lease_++);
    item.expires = now_() + options_.lease;
    leases_[item.lease] = {item.batch, item.place};
    const int64_t wanted = open_.empty() ? item.oldest_version : open_.begin()->second.oldest_version;
    leased.push_back({item.lease, item.request, item.seed, std::max(item.oldest_version, wanted)});
  }
  ++changes_;
  return leased;
}

std::vector<std::string> LeaseTable::Renew(const std::string& worker, absl::Span<const std::string> leases) {
  absl::MutexLock lock(&mutex_);
  Expire();
  std::vector<std::string> lost;
  for (const std::string& lease : leases) {
    Item* item = Find(lease);
    if (item == nullptr || item->state != State::kLeased || item->lease != lease || item->worker != worker) {
      lost.push_back(lease);
    } else {
      item->expires = now_() + options_.lease;
    }
  }
  return lost;
}

absl::StatusOr<bool> LeaseTable::Deliver(const std::string& lease, Group group) {
  absl::MutexLock lock(&mutex_);
  if (absl::IsCancelled(closed_)) return false;  // the run is over
  if (!closed_.ok()) return closed_;
  Item* item = Find(lease);
  if (item == nullptr) {
    // Leases of groups that have gone into a batch are forgotten; one that names no known group never existed.
    if (ids_.count(lease.substr(0, lease.rfind('#'))) > 0) return false;
    return absl::NotFoundError(absl::StrCat("lease ", lease, " was never given"));
  }
  if (item->state == State::kDelivered) return false;
  if (absl::Status good = CheckGroup(group, item->request, item->oldest_version); !good.ok()) {
    if (item->lease == lease) {
      ++returned_leases_;
      Return(*item, std::string(good.message()));
    }
    return good;
  }
  due_.erase({item->batch, item->place});
  item->state = State::kDelivered;
  item->group = std::move(group);
  ++changes_;
  NoteQuorum(item->batch);
  return true;
}

absl::Status LeaseTable::GiveBack(const std::string& lease, const std::string& reason, bool leaving) {
  absl::MutexLock lock(&mutex_);
  Item* item = Find(lease);
  if (item == nullptr || item->state != State::kLeased || item->lease != lease) return absl::OkStatus();
  ++returned_leases_;
  if (leaving) --item->attempts;
  Return(*item, reason);
  return absl::OkStatus();
}

void LeaseTable::NoteQuorum(int64_t number) {
  const auto batch = open_.find(number);
  if (batch == open_.end() || batch->second.quorum_at != SteadyTime::InfiniteFuture()) return;
  int64_t there = 0;
  for (auto it = items_.lower_bound({number, 0}); it != items_.end() && it->first.first == number; ++it)
    there += it->second.state == State::kDelivered;
  if (static_cast<double>(there) >= options_.quorum * static_cast<double>(batch->second.size))
    batch->second.quorum_at = now_();
}

// When the oldest batch can be cut, as far as is known now.
SteadyTime LeaseTable::CutAt() const {
  if (open_.empty()) return SteadyTime::InfiniteFuture();
  const auto& [number, batch] = *open_.begin();
  if (batch.quorum_at == SteadyTime::InfiniteFuture()) return SteadyTime::InfiniteFuture();
  for (auto it = items_.lower_bound({number, 0}); it != items_.end() && it->first.first == number; ++it) {
    if (it->second.state != State::kDelivered) return batch.quorum_at + options_.grace;
  }
  return SteadyTime::InfinitePast();
}

std::string LeaseTable::Awaited() const {
  absl::MutexLock lock(&mutex_);
  return open_.empty() ? "" : AwaitedLocked();
}

std::string LeaseTable::AwaitedLocked() const {
  std::string text;
  for (auto it = items_.begin(); it != items_.end() && it->first.first <= open_.begin()->first; ++it) {
    const Item& item = it->second;
    if (item.state == State::kDelivered) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", item.request.id, " ",
                    item.state == State::kLeased ? absl::StrCat("at worker ", item.worker) : "with nobody");
  }
  return text;
}

absl::StatusOr<CutBatch> LeaseTable::Cut(SteadyTime deadline) {
  absl::MutexLock lock(&mutex_);
  if (closed_.ok() && open_.empty()) return absl::FailedPreconditionError("coordinator: no batch is open");
  const auto cuttable = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return CutAt() <= now_(); };
  const bool ready = AwaitOr(deadline, cuttable, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return CutAt(); });
  if (!closed_.ok()) return closed_;
  if (!ready) {
    return absl::DeadlineExceededError(
        absl::StrCat("batch ", open_.begin()->first, " waits for groups ", AwaitedLocked()));
  }
  return TakeFirst();
}

CutBatch LeaseTable::TakeFirst() {
  const int64_t number = open_.begin()->first;
  CutBatch cut;
  cut.failed = std::exchange(failed_, {});
  cut.lost_leases = std::exchange(lost_leases_, 0);
  cut.returned_leases = std::exchange(returned_leases_, 0);
  const int64_t oldest = open_.begin()->second.oldest_version;
  open_.erase(open_.begin());
  std::vector<Group> carried;
  std::set<Place> gone;
  for (auto it = items_.begin(); it != items_.end() && it->first.first <= number;) {
    Item& item = it->second;
    if (item.state != State::kDelivered) {
      ++cut.carried_over;
      ++it;
      continue;
    }
    if (item.batch == number) {
      cut.groups.push_back(std::move(item.group));
    } else if (OldestVersion({&item.group, 1}, oldest) < oldest) {
      ++cut.stale;
    } else {
      carried.push_back(std::move(item.group));
    }
    gone.insert(it->first);
    it = items_.erase(it);
  }
  for (auto it = leases_.begin(); it != leases_.end();)
    it = gone.count(it->second) > 0 ? leases_.erase(it) : std::next(it);
  cut.carried_in = static_cast<int64_t>(carried.size());
  cut.groups.insert(cut.groups.end(), std::make_move_iterator(carried.begin()), std::make_move_iterator(carried.end()));
  return cut;
}

void LeaseTable::Close(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  ++changes_;
  if (closed_.ok()) closed_ = std::move(why);
}

}  // namespace hone::trainer
