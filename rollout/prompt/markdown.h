#pragma once

// Code in Markdown: blocks that no content can close, and the code of an answer.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace hone::rollout {

/// A fenced block. The fence is longer than any run of backquotes in `code`, so that the code cannot end it.
std::string CodeBlock(absl::string_view language, absl::string_view code);

/// At most `limit_bytes` of `text`, cut at the end of a line where there is one and never inside a UTF-8 character; a
/// note says how much was left out.
std::string Shortened(absl::string_view text, int64_t limit_bytes);

/// The source of an answer: of the fenced blocks after any reasoning section ("</think>"), the last that contains
/// `marker` ("launch", "ModelNew"); without one, the last block; without any fence, the whole answer if it contains
/// `marker`. A block cut by the end of the answer counts: the verifier will say what is missing. std::nullopt: no code.
std::optional<std::string> CodeOf(absl::string_view answer, absl::string_view marker);

}  // namespace hone::rollout
