#pragma once

// What a policy did on one task and what came of it. Groups of episodes are what the learner sees; the journal keeps them.

#include <cstdint>
#include <string>
#include <vector>

#include "base/verdict.h"

namespace hone {

/// Tokens that one policy version produced. Offsets are into Turn::response_ids.
struct VersionSpan {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t policy_version = 0;
  friend bool operator==(const VersionSpan&, const VersionSpan&) = default;
};

/// One prompt, one response, one verdict. Token ids are exact and never re-encoded.
struct Turn {
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> response_ids;
  std::vector<float> log_probs;        // [response tokens], of the distribution really sampled
  std::vector<VersionSpan> versions;
  std::string response;                // text of response_ids
  std::string source;                  // candidate extracted from the response; empty: none found
  Verdict verdict;
  bool truncated = false;              // ended by the length limit
  friend bool operator==(const Turn&, const Turn&) = default;
};

/// Turns on one task, in order. A retry episode starts from a failing candidate of an earlier group.
struct Episode {
  std::string id;
  std::string task_id;
  std::vector<Turn> turns;
  bool retry = false;
  friend bool operator==(const Episode&, const Episode&) = default;
};

/// G episodes of one prompt, sampled together.
struct Group {
  std::string id;
  std::string task_id;
  std::vector<Episode> episodes;
  friend bool operator==(const Group&, const Group&) = default;
};

}  // namespace hone
