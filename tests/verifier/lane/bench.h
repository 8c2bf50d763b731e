#pragma once

// One lane for all cases of a test program: importing torch takes seconds. A case that kills parts of it shows that it
// recovers.

#include <memory>
#include <string>

#include "lane/artefacts.h"
#include "verifier/lane/lane.h"

namespace hone::verifier::test {

/// out[r, c] = x[r, c] * weight[c] at 160 x 260, three hidden shapes.
Task RowScale();

/// A right answer to RowScale.
extern const char kRowScale[];

/// "quick" against eager alone, with a short time limit.
Protocol QuickEager();

class Bench {
 public:
  static Bench& Get();

  Lane& lane() { return *lane_; }
  Artefacts& artefacts() { return artefacts_; }
  Signature Describe(const Task& task);

  /// Fails the test when the lane returns a Status.
  Verdict Judge(const Task& task, const BuildResult& build, const Protocol& protocol,
                const BuildResult& scalar_build = {});
  Verdict JudgeSource(const std::string& source) { return JudgeSource(RowScale(), source); }
  Verdict JudgeSource(const Task& task, const std::string& source);
  Verdict JudgeHostile(const std::string& body, const std::string& globals = "");

 private:
  Bench();

  std::unique_ptr<Lane> lane_;
  Artefacts artefacts_;
};

}  // namespace hone::verifier::test
