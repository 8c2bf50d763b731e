#pragma once

// tokenizer.json as plain structs, read and written: for the tokenizer itself and for makers of tokenizers.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/tokenizer/bpe.h"
#include "policy/tokenizer/normalizer.h"
#include "policy/tokenizer/pattern.h"

namespace hone::policy {

struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool special = false;     // Decode may skip it
  bool normalized = false;  // sought in the normalised text instead of the raw text
  bool lstrip = false;      // takes white space before it along
  bool rstrip = false;
};

/// One step of splitting text into pieces.
struct SplitStep {
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  std::shared_ptr<const Pattern> pattern;  // null: no split
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;        // the pattern matches pieces instead of delimiters
  bool prefix_space = false;  // first puts a space before a piece that does not start with one
};

struct DecoderSteps {
  bool byte_level = false;
  bool byte_fallback = false;
  std::vector<NormalizerStep> replaces;  // kReplace only, on each token's spelling
};

struct TokenizerParts {
  std::vector<std::string> tokens;  // [id] spelling in the model's vocabulary
  std::unique_ptr<Bpe> bpe;
  std::vector<AddedToken> added;
  Normalizer normalizer{{}};
  std::vector<SplitStep> splits;
  std::vector<int32_t> before, after;  // what the post-processor adds
  DecoderSteps decoder;
};

/// What a tokenizer.json of ours says. The parts beside the model are JSON texts.
struct TokenizerFile {
  std::vector<AddedToken> added;
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string post_processor = "null";
  std::string decoder = "null";
  BpeOptions model;
  std::vector<std::string> tokens;  // [id]; an empty spelling is left out
  std::vector<std::pair<std::string, std::string>> merges;
};
std::string WriteTokenizerJson(const TokenizerFile& file);

/// kInvalidArgument as Tokenizer::Load describes; messages begin with `name`.
absl::StatusOr<TokenizerParts> ReadTokenizerJson(const std::string& json, const std::string& name);

}  // namespace hone::policy
