#include "trainer/data/implementation_clusters.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "rollout/sampler/random.h"

namespace hone::trainer {
namespace {

constexpr size_t kShingle = 5;

// Words that say what code does; all other names are alike.
const std::set<std::string>& MeaningfulWords() {
  static const std::set<std::string> words = {"__global__",
                                              "__device__",
                                              "__shared__",
                                              "__restrict__",
                                              "__syncthreads",
                                              "__shfl_down_sync",
                                              "__shfl_xor_sync",
                                              "__shfl_sync",
                                              "__ballot_sync",
                                              "atomicAdd",
                                              "atomicMax",
                                              "extern",
                                              "template",
                                              "threadIdx",
                                              "blockIdx",
                                              "blockDim",
                                              "gridDim",
                                              "dim3",
                                              "float",
                                              "double",
                                              "int",
                                              "int64_t",
                                              "half",
                                              "float4",
                                              "float2",
                                              "void",
                                              "const",
                                              "bool",
                                              "for",
                                              "while",
                                              "if",
                                              "else",
                                              "return",
                                              "expf",
                                              "__expf",
                                              "exp",
                                              "logf",
                                              "sqrtf",
                                              "rsqrtf",
                                              "tanhf",
                                              "fmaxf",
                                              "fminf",
                                              "fabsf",
                                              "max",
                                              "min",
                                              "fmaf",
                                              "reinterpret_cast"};
  return words;
}

std::vector<std::string> Tokens(absl::string_view source) {
  std::vector<std::string> tokens;
  const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (size_t i = 0; i < source.size();) {
    const unsigned char c = static_cast<unsigned char>(source[i]);
    if (source.substr(i, 2) == "//") {
      i = std::min(source.find('\n', i), source.size());
    } else if (source.substr(i, 2) == "/*") {
      const size_t close = source.find("*/", i + 2);
      i = close == absl::string_view::npos ? source.size() : close + 2;
    } else if (std::isspace(c) != 0) {
      ++i;
    } else if (word(source[i])) {
      size_t end = i;
      while (end < source.size() && (word(source[end]) || (std::isdigit(c) != 0 && source[end] == '.'))) ++end;
      const std::string text(source.substr(i, end - i));
      const bool member =
          !tokens.empty() && tokens.back() == ".";  // of threadIdx, float4, ..., where the letter matters
      const bool meaningful =
          MeaningfulWords().count(text) > 0 || (member && text.size() == 1 && text[0] >= 'w' && text[0] <= 'z');
      tokens.push_back(std::isdigit(c) != 0 ? "0" : meaningful ? text : "name");
      i = end;
    } else {
      const size_t length = source.substr(i, 3) == "<<<" || source.substr(i, 3) == ">>>" ? 3 : 1;
      tokens.emplace_back(source.substr(i, length));
      i += length;
    }
  }
  return tokens;
}

uint64_t Hash(const std::vector<std::string>& tokens, size_t begin, size_t end) {
  uint64_t hash = 1469598103934665603ull;  // FNV-1a: the same on every machine
  for (size_t t = begin; t < end; ++t) {
    for (char c : tokens[t] + " ") hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  }
  return hash;
}

}  // namespace

ImplementationFeatures FeaturesOf(absl::string_view source) {
  const std::vector<std::string> tokens = Tokens(source);
  ImplementationFeatures out;
  const size_t last = tokens.size() < kShingle ? std::min<size_t>(tokens.size(), 1) : tokens.size() - kShingle + 1;
  for (size_t t = 0; t < last; ++t) out.shingles.push_back(Hash(tokens, t, std::min(t + kShingle, tokens.size())));
  std::sort(out.shingles.begin(), out.shingles.end());
  out.shingles.erase(std::unique(out.shingles.begin(), out.shingles.end()), out.shingles.end());
  const auto count = [&](auto&&... names) {
    return std::count_if(tokens.begin(), tokens.end(),
                         [&](const std::string& token) { return ((token == names) || ...); });
  };
  bool plane = false;  // indices in two dimensions
  for (size_t t = 2; t < tokens.size(); ++t)
    plane = plane || (tokens[t] == "y" && (tokens[t - 2] == "threadIdx" || tokens[t - 2] == "blockIdx"));
  out.structure =
      absl::StrCat("kernels=", count("__global__"), " launches=", count("<<<"),
                   " shared=", count("__shared__") > 0 ? 1 : 0, " barriers=", count("__syncthreads") > 0 ? 1 : 0,
                   " warp=", count("__shfl_down_sync", "__shfl_xor_sync", "__shfl_sync") > 0 ? 1 : 0,
                   " vector=", count("float4", "float2") > 0 ? 1 : 0, " dimensions=", plane ? 2 : 1);
  return out;
}

double Similarity(const ImplementationFeatures& a, const ImplementationFeatures& b) {
  if (a.shingles.empty() && b.shingles.empty()) return 1;
  std::vector<uint64_t> both;
  std::set_intersection(a.shingles.begin(), a.shingles.end(), b.shingles.begin(), b.shingles.end(),
                        std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(a.shingles.size() + b.shingles.size() - both.size());
}

std::vector<int> ClusterImplementations(const std::vector<std::string>& sources, double threshold) {
  std::vector<ImplementationFeatures> leaders;
  std::vector<int> clusters;
  for (const std::string& source : sources) {
    ImplementationFeatures features = FeaturesOf(source);
    const auto found = std::find_if(leaders.begin(), leaders.end(), [&](const ImplementationFeatures& leader) {
      return leader.structure == features.structure && Similarity(leader, features) >= threshold;
    });
    clusters.push_back(static_cast<int>(found - leaders.begin()));
    if (found == leaders.end()) leaders.push_back(std::move(features));
  }
  return clusters;
}

std::vector<size_t> DrawFromClusters(const std::vector<int>& clusters, size_t count, uint64_t seed) {
  std::vector<std::vector<size_t>> members;
  for (size_t i = 0; i < clusters.size(); ++i) {
    if (static_cast<size_t>(clusters[i]) >= members.size()) members.resize(clusters[i] + 1);
    members[clusters[i]].push_back(i);
  }
  rollout::SplitMix random(seed);
  std::vector<size_t> drawn;
  for (bool any = true; any && drawn.size() < count;) {
    any = false;
    for (std::vector<size_t>& cluster : members) {
      if (cluster.empty() || drawn.size() >= count) continue;
      const size_t pick = static_cast<size_t>(random.Below(cluster.size()));
      drawn.push_back(cluster[pick]);
      cluster.erase(cluster.begin() + static_cast<int64_t>(pick));
      any = true;
    }
  }
  return drawn;
}

}  // namespace hone::trainer
