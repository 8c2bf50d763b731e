#include "trainer/loop/sharded_state.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "policy/model/torch_status.h"

namespace hone::trainer {
namespace {

namespace fs = std::filesystem;

constexpr char kWeight[] = "weight";

std::string RankFolder(const std::string& folder, int rank, int ranks) {
  return absl::StrCat(folder, "/rank_", rank, "_of_", ranks);
}
std::string StepFolder(int64_t step) { return absl::StrFormat("step_%08d", step); }

struct Found {
  int64_t step = -1;
  int ranks = 0;
};

// The newest step that every rank of its job has committed.
Found NewestWhole(const std::string& folder) {
  Found newest;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    int ranks = 0;
    if (!absl::StartsWith(name, "rank_0_of_") || !absl::SimpleAtoi(name.substr(10), &ranks)) continue;
    for (fs::directory_iterator step_it(it->path(), error), step_end; !error && step_it != step_end;
         step_it.increment(error)) {
      int64_t step = 0;
      const std::string step_name = step_it->path().filename().string();
      if (!absl::StartsWith(step_name, "step_") || !absl::SimpleAtoi(step_name.substr(5), &step) || step <= newest.step)
        continue;
      bool whole = true;
      for (int r = 0; r < ranks && whole; ++r)
        whole = FileExists(absl::StrCat(RankFolder(folder, r, ranks), "/", step_name, "/COMMIT"));
      if (whole) newest = {step, ranks};
    }
  }
  return newest;
}

// Parts of one tensor of the optimiser, from all ranks of the old job: leaf -> begin -> numbers.
using Parts = std::map<std::string, std::map<int64_t, at::Tensor>>;

// [begin, begin + count) of `leaf` into `out`.
absl::Status Fill(const Parts& parts, const std::string& kind, const ShardPiece& piece, at::Tensor out) {
  const auto leaf = parts.find(piece.leaf);
  int64_t filled = 0;
  if (leaf != parts.end()) {
    for (const auto& [from, tensor] : leaf->second) {
      const int64_t begin = std::max(from, piece.begin),
                    end = std::min(from + tensor.numel(), piece.begin + piece.count);
      if (begin >= end) continue;
      out.narrow(0, begin - piece.begin, end - begin).copy_(tensor.narrow(0, begin - from, end - begin));
      filled += end - begin;
    }
  }
  if (filled == piece.count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("checkpoint: ", kind, " of ", piece.leaf, " has ", filled, " of ",
                                                 piece.count, " numbers from ", piece.begin));
}

absl::Status RestoreFrom(std::map<std::string, Parts>& kinds, const std::map<std::string, int64_t>& counters,
                         Learner& learner) {
  ShardedAdamW& sharded = *learner.sharded();
  std::vector<std::pair<std::string, at::Tensor>> state;
  at::NoGradGuard no_grad;
  for (const auto& [kind, own] : sharded.State()) {
    at::Tensor whole = at::zeros_like(own);
    for (const ShardPiece& piece : sharded.pieces())
      HONE_RETURN_IF_ERROR(Fill(kinds[kind], kind, piece, whole.narrow(0, piece.offset, piece.count)));
    state.emplace_back(kind, whole);
  }
  for (const ShardPiece& piece : sharded.pieces())
    HONE_RETURN_IF_ERROR(Fill(kinds[kWeight], kWeight, piece, piece.value.view({-1})));
  const auto steps = counters.find("learner/optimizer_steps");
  if (steps == counters.end())
    return absl::InvalidArgumentError("checkpoint counter learner/optimizer_steps is missing");
  HONE_RETURN_IF_ERROR(sharded.Restore(state, steps->second));
  return learner.RestoreCounters(counters);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardedCheckpointer>> ShardedCheckpointer::Create(const std::string& folder,
                                                                                 Communicator& ranks, int64_t keep) {
  HONE_ASSIGN_OR_RETURN(auto own,
                        Checkpointer::Create({.folder = RankFolder(folder, ranks.rank(), ranks.size()), .keep = keep}));
  return std::unique_ptr<ShardedCheckpointer>(new ShardedCheckpointer(folder, ranks, std::move(own)));
}

ShardedCheckpointer::~ShardedCheckpointer() { Wait().IgnoreError(); }

absl::Status ShardedCheckpointer::Wait() { return writing_.valid() ? writing_.get() : absl::OkStatus(); }

absl::Status ShardedCheckpointer::Save(Learner& learner) {
  HONE_RETURN_IF_ERROR(Wait());
  if (learner.sharded() == nullptr)
    return absl::FailedPreconditionError("sharded checkpoint: the weights are not spread over ranks");
  auto data = std::make_shared<CheckpointData>();
  data->step = learner.step();
  data->counters = learner.Counters();
  HONE_RETURN_IF_ERROR(policy::CatchTorch("checkpoint", [&] {
                         const auto add = [&](const std::string& kind, const ShardPiece& piece,
                                              const at::Tensor& numbers) {
                           data->tensors.emplace_back(
                               absl::StrCat(kind, "/", piece.leaf, "@", piece.begin),
                               numbers.detach().view({-1}).to(at::kCPU, numbers.scalar_type(), false, /*copy=*/true));
                         };
                         for (const ShardPiece& piece : learner.sharded()->pieces()) {
                           for (const auto& [kind, flat] : learner.sharded()->State())
                             add(kind, piece, flat.narrow(0, piece.offset, piece.count));
                           add(kWeight, piece, piece.value);
                         }
                         return true;
                       }).status());
  writing_ = std::async(std::launch::async, [this, data] { return own_->Save(*data); });
  return absl::OkStatus();
}

absl::StatusOr<bool> ShardedCheckpointer::Restore(Learner& learner) {
  HONE_RETURN_IF_ERROR(ranks_.Barrier());
  const Found found = NewestWhole(folder_);
  std::vector<double> seen{static_cast<double>(found.step), -static_cast<double>(found.step)};
  HONE_RETURN_IF_ERROR(ranks_.Max(seen));
  if (seen[0] != -seen[1]) {
    return absl::FailedPreconditionError(absl::StrCat(folder_, ": ranks see different checkpoints (", -seen[1], " to ",
                                                      seen[0], "); is it shared storage?"));
  }
  if (found.step < 0) return false;
  std::map<std::string, Parts> kinds;
  std::map<std::string, int64_t> counters;
  for (int r = 0; r < found.ranks; ++r) {
    HONE_ASSIGN_OR_RETURN(CheckpointData data, LoadCheckpoint(absl::StrCat(RankFolder(folder_, r, found.ranks), "/",
                                                                           StepFolder(found.step))));
    counters = data.counters;
    for (auto& [name, tensor] : data.tensors) {
      const size_t slash = name.find('/'), at = name.rfind('@');
      int64_t begin = 0;
      if (slash == std::string::npos || at == std::string::npos || !absl::SimpleAtoi(name.substr(at + 1), &begin)) {
        return absl::InvalidArgumentError(absl::StrCat("checkpoint: tensor ", name, " is no part of a sharded one"));
      }
      kinds[name.substr(0, slash)][name.substr(slash + 1, at - slash - 1)].emplace(begin, std::move(tensor));
    }
  }
  HONE_RETURN_IF_ERROR(RestoreFrom(kinds, counters, learner));
  HONE_RETURN_IF_ERROR(ranks_.Barrier());
  return true;
}

}  // namespace hone::trainer
