#pragma once

// The 171 recorded answers of a small coder model with the verdicts an H200 gave, and plain references of their tasks.

#include <cstdint>
#include <string>
#include <vector>

#include "base/signature.h"
#include "native_run.h"

namespace hone::test {

struct RecordedSample {
  std::string task;
  std::string declaration;                       // of launch
  std::vector<std::vector<int64_t>> check_sizes;
  std::string source;
  std::string verdict;                           // "ok", "wrong", "compile", "oob_write", "crash"
  int number = 0;                                // line in the file, from 1
};

/// Empty when the file is not there: the test skips.
std::vector<RecordedSample> ReadRecordedSamples();

/// The declaration's tensors, sizes and scalars. Scalars that stand before sizes come after them, as our glue passes them;
/// `adapted` is then the source behind an adapter with that order.
Signature SignatureOf(const RecordedSample& sample, std::string* adapted);

/// A call with seeded inputs, and what its outputs must be.
Call MakeCall(const RecordedSample& sample, const Signature& signature, const std::vector<int64_t>& sizes, uint64_t seed);
std::vector<double> Expected(const RecordedSample& sample, const Call& call);

}  // namespace hone::test
