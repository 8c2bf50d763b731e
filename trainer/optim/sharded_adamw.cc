#include "trainer/optim/sharded_adamw.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/model/torch_status.h"

namespace hone::trainer {
namespace {

using at::Tensor;

// In hooks, which sit inside autograd, a failure travels as torch's exception.
void ThrowIfError(const absl::Status& status) { TORCH_CHECK(status.ok(), std::string(status.message())); }

template <class T>
T ValueOrThrow(absl::StatusOr<T> value) {
  ThrowIfError(value.status());
  return *std::move(value);
}

Tensor LowestRowPadded(const Tensor& flat, int64_t padded) {
  if (flat.size(0) == padded) return flat;
  return at::cat({flat, at::zeros({padded - flat.size(0)}, flat.options())});
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardedAdamW>> ShardedAdamW::Create(const AdamWOptions& options,
                                                                   const ShardOptions& shards, policy::Decoder& decoder,
                                                                   Communicator& ranks) {
  std::unique_ptr<ShardedAdamW> sharded(new ShardedAdamW(shards, decoder, ranks));
  const policy::Parameters& parameters = decoder.parameters();
  if (parameters.units().empty() || parameters.flat().defined()) {
    return absl::FailedPreconditionError(
        "sharded adamw: the decoder's layers share one buffer; separate_layers is needed");
  }
  at::NoGradGuard no_grad;
  std::vector<policy::Leaf> parts;
  std::vector<std::pair<size_t, int64_t>> origins;  // unit, begin in its shard
  HONE_RETURN_IF_ERROR(
      policy::CatchTorch("sharded adamw", [&] {
        for (const policy::ParameterUnit& unit : parameters.units()) sharded->AddUnit(unit.leaves, unit.flat);
        sharded->AddUnit(decoder.lora() == nullptr ? std::vector<policy::Leaf>{} : decoder.lora()->leaves(), Tensor());
        for (size_t u = 0; u < sharded->units_.size(); ++u) {
          Unit& unit = sharded->units_[u];
          if (unit.padded > 0) sharded->CutShard(unit, parts, origins);
          sharded->Drop(unit);
        }
        return true;
      }).status());
  HONE_ASSIGN_OR_RETURN(sharded->adamw_, AdamW::Create(options, parts));
  for (size_t i = 0; i < parts.size(); ++i) {
    sharded->pieces_[i].offset = parts[i].value.grad().storage_offset();
    Unit& unit = sharded->units_[origins[i].first];
    unit.pieces.push_back({parts[i].value.grad(), origins[i].second});
  }
  decoder.UseHooks(sharded.get());
  return sharded;
}

ShardedAdamW::~ShardedAdamW() { decoder_.UseHooks(nullptr); }

void ShardedAdamW::AddUnit(std::vector<policy::Leaf> leaves, Tensor flat) {
  Unit unit;
  int64_t size = 0;
  for (const policy::Leaf& leaf : leaves) {
    // Leaves of the model lie where they lie in the row; an adapter's are put one after another.
    unit.offsets.push_back(flat.defined() ? leaf.value.storage_offset() - flat.storage_offset() : size);
    size += leaf.value.numel();
    unit.trained = unit.trained || leaf.value.requires_grad();
  }
  if (flat.defined()) size = flat.size(0);
  const bool stays = options_.replicate_frozen && !unit.trained;
  if (!stays) {
    unit.padded = (size + ranks_.size() - 1) / ranks_.size() * ranks_.size();
    unit.flat = std::move(flat);
  }
  unit.leaves = std::move(leaves);
  units_.push_back(std::move(unit));
}

// This rank's part of the row, as leaves for AdamW: one for each leaf of the model that the part cuts.
void ShardedAdamW::CutShard(Unit& unit, std::vector<policy::Leaf>& parts,
                            std::vector<std::pair<size_t, int64_t>>& origins) {
  const int64_t count = unit.padded / ranks_.size(), from = count * ranks_.rank();
  Tensor row = unit.flat;
  if (!row.defined()) {
    std::vector<Tensor> flats;
    for (const policy::Leaf& leaf : unit.leaves) flats.push_back(leaf.value.detach().view({-1}));
    row = at::cat(flats);
  }
  unit.shard = LowestRowPadded(row, unit.padded).narrow(0, from, count).clone();
  if (!unit.trained) return;
  for (size_t l = 0; l < unit.leaves.size(); ++l) {
    const policy::Leaf& leaf = unit.leaves[l];
    const int64_t begin = std::max(unit.offsets[l], from),
                  end = std::min(unit.offsets[l] + leaf.value.numel(), from + count);
    if (begin >= end || !leaf.value.requires_grad()) continue;
    parts.push_back({absl::StrCat(leaf.name, "@", begin - unit.offsets[l]),
                     unit.shard.narrow(0, begin - from, end - begin).detach().requires_grad_(), leaf.decay});
    origins.emplace_back(static_cast<size_t>(&unit - units_.data()), begin - from);
    pieces_.push_back({leaf.name, begin - unit.offsets[l], end - begin, 0, parts.back().value.detach()});
  }
}

void ShardedAdamW::StartGather(Unit& unit) {
  if (unit.present || unit.gather != nullptr || !unit.flat.defined()) return;
  unit.incoming = at::empty({unit.padded}, unit.shard.options());
  unit.gather = ValueOrThrow(ranks_.AllGather(unit.incoming, unit.shard));
}

void ShardedAdamW::EnsurePresent(Unit& unit) {
  if (unit.present || !unit.flat.defined()) return;
  StartGather(unit);
  ThrowIfError(unit.gather->Wait());
  unit.gather.reset();
  // The gathered memory becomes the leaves' own: they all share the row's storage.
  c10::StorageImpl* storage = unit.flat.storage().unsafeGetStorageImpl();
  c10::StorageImpl* incoming = unit.incoming.storage().unsafeGetStorageImpl();
  const size_t bytes = incoming->nbytes();
  storage->set_data_ptr_noswap(incoming->set_data_ptr(at::DataPtr(nullptr, unit.flat.device())));
  storage->set_nbytes(bytes);
  unit.incoming = Tensor();
  unit.present = true;
  if (!unit.changed) return;
  unit.changed = false;
  for (const policy::Leaf& leaf : unit.leaves)
    leaf.value.unsafeGetTensorImpl()->bump_version();  // packed copies are keyed by it
}

void ShardedAdamW::Drop(Unit& unit) {
  if (!unit.flat.defined()) return;
  c10::StorageImpl* storage = unit.flat.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, unit.flat.device()));
  storage->set_nbytes(0);
  unit.present = false;
}

void ShardedAdamW::GiveGradients(Unit& unit) {
  if (!unit.trained || unit.gradients.defined()) return;
  unit.gradients = at::zeros({unit.padded}, unit.shard.options().dtype(at::kFloat));
  for (size_t l = 0; l < unit.leaves.size(); ++l) {
    Tensor value = unit.leaves[l].value;
    if (value.requires_grad())
      value.mutable_grad() = unit.gradients.narrow(0, unit.offsets[l], value.numel()).view(value.sizes());
  }
}

void ShardedAdamW::StartScatter(Unit& unit) {
  FinishScatter();
  if (!unit.gradients.defined()) return;
  scatter_ = {&unit, unit.gradients, at::empty({unit.padded / ranks_.size()}, unit.gradients.options()), nullptr};
  scatter_.transfer = ValueOrThrow(ranks_.ReduceScatter(scatter_.out, scatter_.in));
  unit.gradients = Tensor();
  for (const policy::Leaf& leaf : unit.leaves) {
    Tensor value = leaf.value;
    value.mutable_grad() = Tensor();
  }
  if (!options_.overlap) FinishScatter();
}

void ShardedAdamW::FinishScatter() {
  if (scatter_.unit == nullptr) return;
  ThrowIfError(scatter_.transfer->Wait());
  at::NoGradGuard no_grad;
  for (Piece& piece : scatter_.unit->pieces) {
    piece.gradient.view({-1}).add_(scatter_.out.narrow(0, piece.begin, piece.gradient.numel()));
  }
  scatter_ = {};
}

void ShardedAdamW::FinishGradients() {
  StartScatter(Root());
  StartScatter(Adapter());
  FinishScatter();
}

void ShardedAdamW::BeforePass(bool with_gradients) {
  EnsurePresent(Root());
  if (with_gradients) {
    GiveGradients(Root());
    GiveGradients(Adapter());
  }
  if (layers() > 0 && options_.overlap) StartGather(Layer(0));
}

void ShardedAdamW::BeforeLayer(int64_t layer, bool backward) {
  EnsurePresent(Layer(layer));
  const int64_t next = backward ? layer - 1 : layer + 1;
  if (next >= 0 && next < layers() && options_.overlap) StartGather(Layer(next));
  if (backward) GiveGradients(Layer(layer));
}

void ShardedAdamW::AfterLayer(int64_t layer, bool backward) {
  if (backward) StartScatter(Layer(layer));
  // The last layer is the first one that the backward pass needs.
  if (backward || layer + 1 < layers()) Drop(Layer(layer));
}

void ShardedAdamW::ZeroGradients() {
  scatter_ = {};
  for (Unit& unit : units_) {
    if (!unit.gradients.defined()) continue;
    unit.gradients = Tensor();
    for (const policy::Leaf& leaf : unit.leaves) {
      Tensor value = leaf.value;
      value.mutable_grad() = Tensor();
    }
  }
  adamw_->ZeroGradients();
}

absl::StatusOr<double> ShardedAdamW::GradientNorm() {
  HONE_RETURN_IF_ERROR(policy::CatchTorch("gradients", [&] {
                         FinishGradients();
                         return true;
                       }).status());
  HONE_ASSIGN_OR_RETURN(const double own, adamw_->GradientNorm());
  std::vector<double> squares{own * own};
  HONE_RETURN_IF_ERROR(ranks_.Sum(squares));
  return std::sqrt(squares[0]);
}

absl::Status ShardedAdamW::Step(double learning_rate, double gradient_scale) {
  HONE_RETURN_IF_ERROR(adamw_->Step(learning_rate, gradient_scale));
  at::NoGradGuard no_grad;
  return policy::CatchTorch("sharded adamw",
                            [&] {
                              for (Unit& unit : units_) {
                                if (!unit.trained) continue;
                                unit.changed = true;
                                if (unit.flat.defined()) {
                                  if (unit.gather != nullptr) ThrowIfError(unit.gather->Wait());
                                  unit.gather.reset();
                                  unit.incoming = Tensor();
                                  Drop(unit);
                                } else if (unit.padded > 0) {  // the adapter is whole everywhere
                                  const Tensor row = at::empty({unit.padded}, unit.shard.options());
                                  ThrowIfError(ValueOrThrow(ranks_.AllGather(row, unit.shard))->Wait());
                                  for (size_t l = 0; l < unit.leaves.size(); ++l) {
                                    Tensor value = unit.leaves[l].value.detach();
                                    value.copy_(row.narrow(0, unit.offsets[l], value.numel()).view(value.sizes()));
                                  }
                                }
                              }
                              return true;
                            })
      .status();
}

absl::Status ShardedAdamW::Restore(const std::vector<std::pair<std::string, Tensor>>& state, int64_t steps) {
  HONE_RETURN_IF_ERROR(adamw_->Restore(state, steps));
  for (Unit& unit : units_) {
    unit.changed = true;
    Drop(unit);
  }
  return absl::OkStatus();
}

absl::Status ShardedAdamW::WithWholeWeights(const std::function<absl::Status()>& body) {
  const auto each = [&](auto&& act) {
    return policy::CatchTorch("weights",
                              [&] {
                                for (Unit& unit : units_) {
                                  if (unit.flat.defined()) act(unit);
                                }
                                return true;
                              })
        .status();
  };
  HONE_RETURN_IF_ERROR(each([&](Unit& unit) { EnsurePresent(unit); }));
  const absl::Status status = body();
  HONE_RETURN_IF_ERROR(each([&](Unit& unit) { Drop(unit); }));
  return status;
}

absl::Status ShardedAdamW::VisitWeights(const std::function<absl::Status(const policy::Leaf&)>& visit) {
  std::map<std::string, Unit*> unit_of;
  for (Unit& unit : units_) {
    for (const policy::Leaf& leaf : unit.leaves) unit_of[leaf.name] = &unit;
  }
  absl::Status visited;
  const absl::StatusOr<bool> gathered = policy::CatchTorch("weights", [&] {
    Unit* layer = nullptr;
    EnsurePresent(Root());
    for (const policy::Leaf& leaf : decoder_.parameters().leaves()) {
      Unit* unit = unit_of.at(leaf.name);
      if (unit != &Root() && unit != layer) {
        if (layer != nullptr) Drop(*layer);
        layer = unit;
        EnsurePresent(*layer);
      }
      if (visited.ok()) visited = visit(leaf);
    }
    if (layer != nullptr) Drop(*layer);
    Drop(Root());
    return true;
  });
  HONE_RETURN_IF_ERROR(gathered.status());
  return visited;
}

}  // namespace hone::trainer
