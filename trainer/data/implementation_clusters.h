#pragma once

// Which right answers to a task are the same implementation, so that fine-tuning on them can keep their variety
// (MusaCoder's diversity-preserving rejection fine-tuning; its features are not published, these are ours).

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone::trainer {

/// What is compared: hashes of every five neighbouring tokens of the code, with names of variables, numbers' values and
/// comments taken out, and the structure of its launches (kernels, launches, dimensions of their indices, shared
/// memory, barriers, exchange inside warps, vector types).
struct ImplementationFeatures {
  std::vector<uint64_t> shingles;  // ascending, each once
  std::string structure;           // "kernels=1 launches=1 shared=1 barriers=1 warp=0 vector=1 dimensions=1"
};
ImplementationFeatures FeaturesOf(absl::string_view source);

/// Jaccard similarity of the shingles, in [0, 1]; 1 for two empty ones.
double Similarity(const ImplementationFeatures& a, const ImplementationFeatures& b);

/// The cluster of each source, numbered from 0 in order of first appearance. A source joins the first cluster whose
/// first member has the same structure and a similarity of at least `threshold`; else it starts one. Deterministic.
std::vector<int> ClusterImplementations(const std::vector<std::string>& sources, double threshold = 0.6);

/// Draws up to `count` members, cluster by cluster in turn, a random member of each cluster at a time, without
/// replacement; `seed` decides. Indices into `clusters`.
std::vector<size_t> DrawFromClusters(const std::vector<int>& clusters, size_t count, uint64_t seed);

}  // namespace hone::trainer
