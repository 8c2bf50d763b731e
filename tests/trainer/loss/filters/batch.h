#pragma once

// Batches for the filter tests, described by their log-ratios.

#include <vector>

#include "trainer/loss/filters/chain.h"

namespace hone::trainer {

/// Sequences given by delta_t; the sampler's log-probability is -1 everywhere unless given.
struct TestBatch {
  std::vector<float> train, rollout, mask, advantages;
  std::vector<int64_t> offsets = {0};

  void Add(const std::vector<float>& deltas, float advantage = 1, float rollout_log_prob = -1) {
    for (const float delta : deltas) {
      train.push_back(rollout_log_prob + delta);
      rollout.push_back(rollout_log_prob);
      mask.push_back(1);
    }
    offsets.push_back(static_cast<int64_t>(train.size()));
    advantages.push_back(advantage);
  }
  FilterBatch View() const { return {train, rollout, mask, offsets, advantages}; }
};

template <class FilterType>
FilterDecision Apply(const FilterType& filter, const TestBatch& batch) {
  FilterDecision decision = FilterDecision::KeepAll(static_cast<int64_t>(batch.train.size()));
  filter.Narrow(batch.View(), decision);
  return decision;
}

/// Weight of every token, after a filter on one sequence of these log-ratios.
template <class FilterType>
std::vector<float> Weights(const FilterType& filter, const std::vector<float>& deltas, float advantage = 1) {
  TestBatch batch;
  batch.Add(deltas, advantage);
  return Apply(filter, batch).weight;
}

}  // namespace hone::trainer
