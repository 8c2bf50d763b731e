#pragma once

// Runs a parsed chat template.

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "policy/chat/syntax.h"
#include "policy/chat/value.h"

namespace hone::policy::chat {

struct RenderLimits {
  int64_t steps = 20'000'000;            // statements and expressions evaluated
  int64_t output_bytes = 256 << 20;
  int64_t made_bytes = int64_t{1} << 30; // of all values that expressions give, added up
  int depth = 400;                       // of nested blocks, expressions and macro calls together
};

/// The text that `block` writes with these variables. `strftime` answers strftime_now(format).
///
/// kInvalidArgument with the line: raise_exception of the template (its message), an undefined value used, a wrong type, or a
/// function or method that is not supported. kResourceExhausted: a limit.
absl::StatusOr<std::string> Render(const Block& block, const Dict& variables,
                                   const std::function<std::string(const std::string&)>& strftime,
                                   const RenderLimits& limits = {});

}  // namespace hone::policy::chat
