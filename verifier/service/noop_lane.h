#pragma once

// A lane that looks at nothing and says OK at once: what the service itself costs, for load tests. It is there only when
// the configuration names it as the one device, every verdict of it says device "noop", and none is ever cached. A task
// whose timed sizes name `wait_ms` gets its verdict after that time, for measuring how work spreads over lanes.

#include <memory>

#include "verifier/lane/lane.h"

namespace hone::verifier {

inline constexpr char kNoopDevice[] = "noop";

std::unique_ptr<Lane> MakeNoopLane();
/// Builds nothing: jobs of the no-op device go straight to its lane.
std::unique_ptr<Builder> MakeNoopBuilder();

}  // namespace hone::verifier
