#pragma once

// AdamW over weights that are spread over the ranks (full sharding: parameters, gradients and optimiser state; ZeRO
// stage 3, arXiv:1910.02054).
//
// Each layer's weights are one flat row, of which a rank keeps its part. The row is gathered before the layer runs, in
// the forward and again in the backward pass, while the layer before it is still computing; it is dropped when the
// layer has run. A layer's gradients live while its backward pass runs, then their sum over the ranks is scattered. The
// weights outside of layers are gathered from their first use in a step until the step's end. Frozen weights are spread
// and gathered like the others, or stay whole on every rank; an adapter's are not spread: each rank has them whole, their
// gradients and moments are.

#include <map>
#include <memory>
#include <vector>

#include "policy/model/decoder.h"
#include "policy/model/layer_hooks.h"
#include "trainer/comm/communicator.h"
#include "trainer/optim/adamw.h"
#include "trainer/optim/optimizer.h"

namespace hone::trainer {

/// Part of a leaf that this rank optimises.
struct ShardPiece {
  std::string leaf;
  int64_t begin = 0;  // first number of the leaf, flat
  int64_t count = 0;
  int64_t offset = 0;  // in the rows of State()
  at::Tensor value;    // the weights themselves
};

struct ShardOptions {
  /// Layers without a trained weight stay whole on every rank: nothing of them is gathered, for their memory.
  bool replicate_frozen = false;
  /// Gathers and scatters run beside the layers' computation. False makes each wait its turn: what the overlap saves.
  bool overlap = true;
};

class ShardedAdamW : public Optimizer, public policy::LayerHooks {
 public:
  /// Takes over the decoder's weights: they are filled already and alike on all ranks, and made with
  /// DecoderOptions::separate_layers. Both are borrowed for the optimiser's life, after which the weights are gone.
  static absl::StatusOr<std::unique_ptr<ShardedAdamW>> Create(const AdamWOptions& options, const ShardOptions& shards,
                                                              policy::Decoder& decoder, Communicator& ranks);
  ~ShardedAdamW() override;

  void ZeroGradients() override;
  absl::StatusOr<double> GradientNorm() override;
  absl::Status Step(double learning_rate, double gradient_scale) override;
  int64_t steps() const override { return adamw_->steps(); }
  const at::Tensor& gradients() const override { return adamw_->gradients(); }
  std::vector<std::pair<std::string, at::Tensor>> State() const override { return adamw_->State(); }
  absl::Status Restore(const std::vector<std::pair<std::string, at::Tensor>>& state, int64_t steps) override;

  /// What State()'s rows are made of, in order.
  const std::vector<ShardPiece>& pieces() const { return pieces_; }

  /// Runs `body` while all weights are whole on every rank: export, generation. A collective operation.
  absl::Status WithWholeWeights(const std::function<absl::Status()>& body);
  /// Calls `visit` for each of the model's leaves, in the order of parameters().leaves(), while it is whole on this
  /// rank; besides it only its layer and what is outside of layers is. A collective operation that every rank sees to
  /// its end: a failed visit is the last one, and its error comes back. Gathers and what `visit` queues on the device
  /// never run at the same time, so that `visit` may use another communicator.
  absl::Status VisitWeights(const std::function<absl::Status(const policy::Leaf&)>& visit);

  void BeforePass(bool with_gradients) override;
  void BeforeLayer(int64_t layer, bool backward) override;
  void AfterLayer(int64_t layer, bool backward) override;

 private:
  struct Piece {
    at::Tensor gradient;  // a view of AdamW's
    int64_t begin = 0;    // in the unit's shard
  };
  struct Unit {
    std::vector<policy::Leaf> leaves;
    std::vector<int64_t> offsets;  // of the leaves in the flat row
    at::Tensor flat;               // [size]: its storage comes and goes; undefined where leaves are always whole
    int64_t padded = 0;            // a multiple of the ranks
    at::Tensor shard;              // [padded / ranks] the weights' dtype
    bool trained = false, present = false, changed = true;
    at::Tensor incoming, gradients;  // [padded] being gathered; [padded] fp32
    std::unique_ptr<Transfer> gather;
    std::vector<Piece> pieces;
  };
  struct Scatter {
    Unit* unit = nullptr;
    at::Tensor in, out;
    std::unique_ptr<Transfer> transfer;
  };

  ShardedAdamW(const ShardOptions& options, policy::Decoder& decoder, Communicator& ranks)
      : options_(options), decoder_(decoder), ranks_(ranks) {}
  void AddUnit(std::vector<policy::Leaf> leaves, at::Tensor flat);
  void CutShard(Unit& unit, std::vector<policy::Leaf>& parts, std::vector<std::pair<size_t, int64_t>>& origins);
  void StartGather(Unit& unit);
  void EnsurePresent(Unit& unit);
  void Drop(Unit& unit);
  void GiveGradients(Unit& unit);
  void StartScatter(Unit& unit);
  void FinishScatter();
  void FinishGradients();
  int64_t layers() const { return static_cast<int64_t>(units_.size()) - 2; }
  Unit& Layer(int64_t i) { return units_[i]; }
  Unit& Root() { return units_[units_.size() - 2]; }
  Unit& Adapter() { return units_.back(); }

  const ShardOptions options_;
  policy::Decoder& decoder_;
  Communicator& ranks_;
  std::vector<Unit> units_;  // the layers, what is outside of them, the adapter
  std::vector<ShardPiece> pieces_;
  std::unique_ptr<AdamW> adamw_;
  Scatter scatter_;
};

}  // namespace hone::trainer
