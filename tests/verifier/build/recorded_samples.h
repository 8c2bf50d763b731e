#pragma once

// The 171 recorded answers of a small coder model with the verdicts an H200 gave, and plain references of their tasks.

#include <cstdint>
#include <string>
#include <vector>

#include "base/signature.h"
#include "cli/samples/recorded_samples.h"
#include "native_run.h"

namespace hone::test {

using cli::RecordedSample;

/// Empty when the file is not there: the test skips.
std::vector<RecordedSample> ReadRecordedSamples();

/// The recorded declaration's tensors, sizes and scalars, in the order of our glue: scalars come last.
Signature SignatureOf(const RecordedSample& sample);

/// A call with seeded inputs, and what its outputs must be.
Call MakeCall(const RecordedSample& sample, const Signature& signature, const Sizes& sizes, uint64_t seed);
std::vector<double> Expected(const RecordedSample& sample, const Call& call);

}  // namespace hone::test
