#pragma once

// Supervised examples out of JSON Lines files. One object a line, either a conversation that ends with the assistant's
// answer
//
//   {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
//   {"prompt": "...", "response": "..."}                        short for a conversation of two
//
// or exact token ids, which `hone rft` writes beside the texts and which then are what is trained on:
//
//   {"prompt_ids": [..], "response_ids": [..], ...}
//
// Further fields ("task_id", "provenance") are for readers. Only the last answer is trained on.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/chat/chat_template.h"
#include "policy/tokenizer/tokenizer.h"
#include "trainer/data/sequence.h"

namespace hone::trainer {

struct DatasetRecord {
  int64_t line = 0;                           // of the file, from 1
  std::vector<policy::ChatMessage> messages;  // ends with the assistant's; empty where ids are given
  std::vector<int32_t> prompt_ids, response_ids;
};

/// kInvalidArgument names file, line and what is wrong with it; kNotFound; empty lines are skipped.
absl::StatusOr<std::vector<DatasetRecord>> ReadDataset(const std::string& path);

struct EncodeSettings {
  int64_t max_length = 0;     // tokens of a sequence at most; 0: any
  bool mark_kernels = false;  // fills TrainSequence::kernel_tokens (CuSeT)
};

/// A record as tokens: the template's prompt up to the last answer, the answer as plain text, and the token that ends a
/// turn. kOutOfRange: longer than max_length (a cut answer would teach to stop in the middle). kInvalidArgument names
/// the line.
absl::StatusOr<TrainSequence> EncodeRecord(const DatasetRecord& record, const policy::Tokenizer& tokenizer,
                                           const policy::ChatTemplate& chat, const EncodeSettings& settings);

/// Where the bytes of each token end in the text of `ids`; a token that ends inside a character ends where the one
/// before it does.
std::vector<size_t> TokenEnds(const policy::Tokenizer& tokenizer, const std::vector<int32_t>& ids);

/// Which sequences rank `rank` of `ranks` learns from: indices into `lengths`, the ranks' tokens as even as the longest
/// sequences allow. Deterministic; every index belongs to one rank.
std::vector<size_t> ShareOfRank(const std::vector<int64_t>& lengths, int ranks, int rank);

}  // namespace hone::trainer
