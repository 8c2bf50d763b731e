#pragma once

// How much a step computes, by the usual count of a transformer's multiplications and additions: 2 N + 4 L d s a token
// and pass, with N the weights that are multiplied with (a table that is only looked up is left out), L layers, d the
// width of all query heads and s the length of the token's sequence. A backward pass is two more passes, or one where
// the weights are frozen. What is computed again (checkpointed activations) does not count.

#include <cstdint>
#include <vector>

#include "policy/model/decoder.h"
#include "trainer/data/packing.h"

namespace hone::trainer {

/// Passes of the kind above that a training step makes over a token: 3, with an adapter on 2.
int64_t TrainPasses(const policy::Decoder& decoder);

/// FLOP of `passes` passes over sequences of these lengths.
double PassFlops(const policy::Decoder& decoder, const std::vector<int64_t>& lengths, int64_t passes);
/// The same where prefixes are computed once: a token costs by the length of its sequence.
double RunFlops(const policy::Decoder& decoder, const std::vector<TokenRun>& runs, int64_t passes);

}  // namespace hone::trainer
