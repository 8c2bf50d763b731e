#pragma once

// The learner's part of a checkpoint: weights, optimiser, counters, torch's own generator.

#include "absl/status/status.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/learner.h"

namespace hone::trainer {

/// Adds to `data`; the caller adds its own blobs (sampler, buffers, generators) and sets nothing of the learner's.
/// Tensors are borrowed: save before the next step. data.step becomes the learner's. Of a model with an adapter on, the
/// adapter's weights are kept and not the frozen rest. Weights spread over ranks: see sharded_state.h.
void AddLearnerState(Learner& learner, CheckpointData& data);

/// The weights of a checkpoint alone. kInvalidArgument: of another model (names the tensor).
absl::Status LoadWeights(const CheckpointData& data, policy::Decoder& decoder);

/// The learner goes on bit for bit as the one that was saved. kInvalidArgument: the checkpoint is of another model (names
/// the tensor); the learner may then be partly changed and must not be used.
absl::Status RestoreLearnerState(const CheckpointData& data, Learner& learner);

}  // namespace hone::trainer
