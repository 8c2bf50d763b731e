#pragma once

// Recorded episodes for the lab's tests.

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/journal.h"
#include "base/status_macros.h"
#include "tests/rewards/outcomes.h"

namespace hone::rewards {

/// A turn as a run would record it, texts, ids and all.
inline Turn RecordedTurn(VerdictStatus status, double speedup = 0, int tokens = 20) {
  Turn turn;
  turn.prompt_ids = {1, 2, 3};
  for (int i = 0; i < tokens; ++i) {
    turn.response_ids.push_back(1000 + i);
    turn.log_probs.push_back(-0.25f * static_cast<float>(i % 5));
  }
  turn.versions = {{0, tokens, 3}};
  turn.response = "a \"quoted\" answer with \\ and \n and { [ brackets ] }";
  turn.source = "__global__ void k() {}\n";
  turn.verdict.status = status;
  turn.verdict.message = "status \"OK\", \"turns\": [";  // looks like the fields that the fast reader wants
  if (status == VerdictStatus::kIncorrect) turn.verdict.correct_rate = 0.5;
  turn.verdict.protocol = "hone-v1";
  turn.verdict.device = "cpu";
  if (status == VerdictStatus::kOk) {
    Timing timing;
    timing.baseline = Baseline::kScalar;
    timing.speedup = {speedup, 0.9 * speedup, 1.1 * speedup, 7};
    timing.emulated = true;
    turn.verdict.timings = {timing};
  }
  return turn;
}

/// One group; each inner list is an episode's turns.
inline Group RecordedGroup(const std::string& id, const std::vector<std::vector<Turn>>& episodes) {
  Group group;
  group.id = id;
  group.task_id = "softmax";
  for (size_t i = 0; i < episodes.size(); ++i) {
    group.episodes.push_back({id + "/" + std::to_string(i), "softmax", episodes[i], false});
  }
  return group;
}

/// Groups of random verdicts, samples kept in some of them.
inline std::vector<Group> RandomGroups(int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Group> groups;
  for (int g = 0; g < count; ++g) {
    std::vector<std::vector<Turn>> episodes(random() % 6);
    for (std::vector<Turn>& turns : episodes) {
      for (size_t k = random() % 4; k > 0; --k) {
        const VerdictStatus status = kAllStatuses[random() % std::size(kAllStatuses)];
        turns.push_back(
            RecordedTurn(status, 0.25 * static_cast<double>(1 + random() % 20), static_cast<int>(random() % 9)));
        if (status == VerdictStatus::kOk && random() % 2 == 0) turns.back().verdict.timings[0].samples = {1, 1.5, 2};
        if (status == VerdictStatus::kOk && random() % 2 == 0) {
          turns.back().verdict.coverage = 0.25 * static_cast<double>(random() % 5);
        }
        turns.back().truncated = random() % 5 == 0;
      }
    }
    groups.push_back(RecordedGroup("g" + std::to_string(g), episodes));
  }
  return groups;
}

inline void WriteJournal(const std::string& path, const std::vector<Group>& groups) {
  std::unique_ptr<JournalWriter> writer = *JournalWriter::Open(path);
  for (const Group& group : groups) HONE_CHECK(writer->Append(group).ok());
}

inline void WriteText(const std::string& path, const std::string& text) {
  HONE_CHECK(WriteFileAtomically(path, text).ok());
}

}  // namespace hone::rewards
