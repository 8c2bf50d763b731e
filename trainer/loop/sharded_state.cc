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
  int ranks = 0;  // 0: one process without ranks
};

// The newest step that every rank of its job has committed.
Found NewestWhole(const std::string& folder) {
  Found newest;
  const std::string alone = NewestCheckpoint(folder);
  if (!alone.empty() && !absl::SimpleAtoi(alone.substr(alone.rfind('_') + 1), &newest.step)) newest.step = -1;
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

struct Saved {
  std::map<std::string, Parts> kinds;
  std::map<std::string, int64_t> counters;
  std::map<std::string, std::string> blobs;  // the first rank's
};

// Leaves that are trained, wherever their numbers are.
std::vector<policy::Leaf> Trained(const policy::Decoder& decoder) {
  std::vector<policy::Leaf> trained;
  for (const policy::Leaf& leaf : decoder.TrainedLeaves()) {
    if (leaf.value.requires_grad()) trained.push_back(leaf);
  }
  return trained;
}

// What this process optimises, as parts of leaves.
std::vector<ShardPiece> PiecesOf(Learner& learner) {
  if (learner.sharded() != nullptr) return learner.sharded()->pieces();
  std::vector<ShardPiece> pieces;
  for (const policy::Leaf& leaf : Trained(learner.decoder()))
    pieces.push_back({leaf.name, 0, leaf.value.numel(), leaf.value.grad().storage_offset(), leaf.value.detach()});
  return pieces;
}

absl::Status RestoreFrom(Saved& saved, Learner& learner) {
  const std::vector<ShardPiece> pieces = PiecesOf(learner);
  std::vector<std::pair<std::string, at::Tensor>> state;
  at::NoGradGuard no_grad;
  for (const auto& [kind, own] : learner.optimizer().State()) {
    at::Tensor whole = at::zeros_like(own);
    for (const ShardPiece& piece : pieces)
      HONE_RETURN_IF_ERROR(Fill(saved.kinds[kind], kind, piece, whole.narrow(0, piece.offset, piece.count)));
    state.emplace_back(kind, whole);
  }
  for (const ShardPiece& piece : pieces)
    HONE_RETURN_IF_ERROR(Fill(saved.kinds[kWeight], kWeight, piece, piece.value.view({-1})));
  const auto steps = saved.counters.find("learner/optimizer_steps");
  if (steps == saved.counters.end())
    return absl::InvalidArgumentError("checkpoint counter learner/optimizer_steps is missing");
  HONE_RETURN_IF_ERROR(learner.optimizer().Restore(state, steps->second));
  return learner.RestoreCounters(saved.counters);
}

// A checkpoint of one process, in parts: its optimiser's rows hold one trained leaf after another, its weights lie under
// their names in files, of which several are rows of one leaf.
absl::StatusOr<Saved> LoadAlone(const std::string& path, Learner& learner) {
  HONE_ASSIGN_OR_RETURN(CheckpointData data, LoadCheckpoint(path));
  Saved saved;
  saved.counters = data.counters;
  saved.blobs = data.blobs;
  const std::vector<policy::Leaf> trained = Trained(learner.decoder());
  const policy::Lora* lora = learner.decoder().lora();
  std::map<std::string, policy::NamedTensor> named;
  for (const policy::NamedTensor& n : lora == nullptr ? learner.decoder().parameters().named() : lora->named())
    named.emplace(absl::StrCat(lora == nullptr ? "model/" : "lora/", n.name), n);
  for (const auto& [name, tensor] : data.tensors) {
    const at::Tensor flat = tensor.reshape({-1});
    if (absl::StartsWith(name, "optimizer/")) {
      int64_t offset = 0;
      for (const policy::Leaf& leaf : trained) {
        if (offset + leaf.value.numel() > flat.numel())
          return absl::InvalidArgumentError(absl::StrCat("checkpoint: ", name, " ends before ", leaf.name));
        saved.kinds[name.substr(10)][leaf.name].emplace(0, flat.narrow(0, offset, leaf.value.numel()));
        offset += AdamW::Padded(leaf.value.numel());
      }
    }
    const auto found = named.find(name);
    if (found == named.end()) continue;
    const at::Tensor& own = found->second.tensor;
    for (const policy::Leaf& leaf : trained) {
      const int64_t begin = own.storage_offset() - leaf.value.storage_offset();
      const bool inside = own.storage().unsafeGetStorageImpl() == leaf.value.storage().unsafeGetStorageImpl() &&
                          begin >= 0 && begin < leaf.value.numel();
      if (inside) saved.kinds[kWeight][leaf.name].emplace(begin, flat);
    }
  }
  return saved;
}

absl::StatusOr<Saved> LoadRanks(const std::string& folder, const Found& found) {
  Saved saved;
  for (int r = 0; r < found.ranks; ++r) {
    HONE_ASSIGN_OR_RETURN(CheckpointData data, LoadCheckpoint(absl::StrCat(RankFolder(folder, r, found.ranks), "/",
                                                                           StepFolder(found.step))));
    if (r == 0) {
      saved.counters = data.counters;
      saved.blobs = data.blobs;
    }
    for (auto& [name, tensor] : data.tensors) {
      const size_t slash = name.find('/'), at = name.rfind('@');
      int64_t begin = 0;
      if (slash == std::string::npos || at == std::string::npos || !absl::SimpleAtoi(name.substr(at + 1), &begin)) {
        return absl::InvalidArgumentError(absl::StrCat("checkpoint: tensor ", name, " is no part of a sharded one"));
      }
      saved.kinds[name.substr(0, slash)][name.substr(slash + 1, at - slash - 1)].emplace(begin, std::move(tensor));
    }
  }
  return saved;
}

absl::Status RestoreFound(const std::string& folder, const Found& found, Learner& learner, CheckpointData* more) {
  HONE_ASSIGN_OR_RETURN(Saved saved, found.ranks > 0 ? LoadRanks(folder, found)
                                                     : LoadAlone(absl::StrCat(folder, "/", StepFolder(found.step)), learner));
  if (more != nullptr) *more = {.step = found.step, .counters = saved.counters, .blobs = saved.blobs};
  return RestoreFrom(saved, learner);
}

}  // namespace

absl::StatusOr<bool> RestoreFromRanks(const std::string& folder, Learner& learner, CheckpointData* more) {
  const Found found = NewestWhole(folder);
  if (found.step < 0 || found.ranks == 0) return false;
  HONE_RETURN_IF_ERROR(RestoreFound(folder, found, learner, more));
  return true;
}

absl::StatusOr<std::unique_ptr<ShardedCheckpointer>> ShardedCheckpointer::Create(const std::string& folder,
                                                                                 Communicator& ranks, int64_t keep) {
  HONE_ASSIGN_OR_RETURN(auto own,
                        Checkpointer::Create({.folder = RankFolder(folder, ranks.rank(), ranks.size()), .keep = keep}));
  return std::unique_ptr<ShardedCheckpointer>(new ShardedCheckpointer(folder, ranks, std::move(own)));
}

ShardedCheckpointer::~ShardedCheckpointer() { Wait().IgnoreError(); }

absl::Status ShardedCheckpointer::Wait() { return writing_.valid() ? writing_.get() : absl::OkStatus(); }

absl::Status ShardedCheckpointer::Save(Learner& learner, int64_t step, const CheckpointData& more) {
  HONE_RETURN_IF_ERROR(Wait());
  if (learner.sharded() == nullptr)
    return absl::FailedPreconditionError("sharded checkpoint: the weights are not spread over ranks");
  auto data = std::make_shared<CheckpointData>();
  data->step = step;
  data->counters = more.counters;
  for (const auto& [name, value] : learner.Counters()) data->counters[name] = value;
  data->blobs = more.blobs;
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

absl::StatusOr<bool> ShardedCheckpointer::Restore(Learner& learner, CheckpointData* more) {
  HONE_RETURN_IF_ERROR(ranks_.Barrier());
  const Found found = NewestWhole(folder_);
  std::vector<double> seen{static_cast<double>(found.step), -static_cast<double>(found.step)};
  HONE_RETURN_IF_ERROR(ranks_.Max(seen));
  if (seen[0] != -seen[1]) {
    return absl::FailedPreconditionError(absl::StrCat(folder_, ": ranks see different checkpoints (", -seen[1], " to ",
                                                      seen[0], "); is it shared storage?"));
  }
  if (found.step < 0) return false;
  HONE_RETURN_IF_ERROR(RestoreFound(folder_, found, learner, more));
  HONE_RETURN_IF_ERROR(ranks_.Barrier());
  return true;
}

}  // namespace hone::trainer
