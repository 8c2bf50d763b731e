#include "policy/tokenizer/train_bpe.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <queue>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/tokenizer/pattern.h"
#include "policy/tokenizer/tokenizer_json.h"
#include "policy/tokenizer/unicode.h"

namespace hone::policy {
namespace {

using Pair = std::pair<int32_t, int32_t>;

struct Word {
  std::vector<int32_t> symbols;
  int64_t count;
};

struct Candidate {
  int64_t count;
  Pair pair;
  bool operator<(const Candidate& other) const {  // the queue pops the most frequent, then the smallest pair
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

absl::StatusOr<std::map<std::string, int64_t>> CountPieces(absl::Span<const std::string> corpus, const Pattern& pattern) {
  std::map<std::string, int64_t> counts;
  PatternMatcher matcher;
  std::vector<TextPart> parts;
  for (const std::string& document : corpus) {
    const std::string text = RepairUtf8(document);
    HONE_RETURN_IF_ERROR(matcher.Split(pattern, text, parts));
    for (const TextPart& part : parts) ++counts[text.substr(part.begin, part.end - part.begin)];
  }
  return counts;
}

class Trainer {
 public:
  Trainer(const std::map<std::string, int64_t>& pieces, const TrainBpeOptions& options);
  void Learn(size_t vocab_size, int64_t min_count);

  const std::vector<std::string>& spellings() const { return spellings_; }
  const std::vector<Pair>& merges() const { return merges_; }

 private:
  int32_t AddToken(const std::string& spelling);
  void Count(size_t word, size_t at, int64_t sign);
  void MergeIn(size_t word, Pair pair, int32_t id);

  std::vector<std::string> spellings_;  // [id]
  absl::flat_hash_map<std::string, int32_t> ids_;
  std::vector<Word> words_;
  absl::flat_hash_map<Pair, int64_t> pair_counts_;
  absl::flat_hash_map<Pair, std::set<size_t>> words_with_;
  std::priority_queue<Candidate> queue_;
  std::vector<Pair> merges_;
};

Trainer::Trainer(const std::map<std::string, int64_t>& pieces, const TrainBpeOptions& options) {
  const ByteAlphabet alphabet;
  for (const std::string& token : options.special_tokens) AddToken(token);
  std::set<char32_t> characters;
  for (int byte = 0; options.all_bytes && byte < 256; ++byte) characters.insert(alphabet.Char(static_cast<uint8_t>(byte)));
  for (const auto& [piece, count] : pieces) {
    for (const char c : piece) characters.insert(alphabet.Char(static_cast<uint8_t>(c)));
  }
  for (const char32_t character : characters) {
    std::string spelling;
    AppendChar(character, spelling);
    AddToken(spelling);
  }
  for (const auto& [piece, count] : pieces) {
    Word word{{}, count};
    for (const char c : piece) {
      std::string spelling;
      AppendChar(alphabet.Char(static_cast<uint8_t>(c)), spelling);
      word.symbols.push_back(ids_.at(spelling));
    }
    words_.push_back(std::move(word));
    for (size_t at = 0; at + 1 < words_.back().symbols.size(); ++at) Count(words_.size() - 1, at, +1);
  }
  for (const auto& [pair, count] : pair_counts_) queue_.push({count, pair});
}

int32_t Trainer::AddToken(const std::string& spelling) {
  const auto [at, added] = ids_.emplace(spelling, static_cast<int32_t>(spellings_.size()));
  if (added) spellings_.push_back(spelling);
  return at->second;
}

void Trainer::Count(size_t word, size_t at, int64_t sign) {
  const Pair pair{words_[word].symbols[at], words_[word].symbols[at + 1]};
  pair_counts_[pair] += sign * words_[word].count;
  if (sign > 0) words_with_[pair].insert(word);
}

/// Replaces the pair in one word; counts and queue follow.
void Trainer::MergeIn(size_t index, Pair pair, int32_t id) {
  std::vector<int32_t>& symbols = words_[index].symbols;
  for (size_t at = 0; at + 1 < symbols.size(); ++at) {
    if (symbols[at] != pair.first || symbols[at + 1] != pair.second) continue;
    if (at > 0) Count(index, at - 1, -1);
    if (at + 2 < symbols.size()) Count(index, at + 1, -1);
    symbols[at] = id;
    symbols.erase(symbols.begin() + at + 1);
    if (at > 0) Count(index, at - 1, +1);
    if (at + 1 < symbols.size()) Count(index, at, +1);
  }
}

void Trainer::Learn(size_t vocab_size, int64_t min_count) {
  while (spellings_.size() < vocab_size && !queue_.empty()) {
    const Candidate top = queue_.top();
    queue_.pop();
    const int64_t count = pair_counts_[top.pair];
    if (count != top.count) {
      if (count > 0) queue_.push({count, top.pair});
      continue;
    }
    if (count < std::max<int64_t>(min_count, 1)) break;
    const int32_t id = AddToken(absl::StrCat(spellings_[top.pair.first], spellings_[top.pair.second]));
    merges_.push_back(top.pair);
    std::set<Pair> grown;
    for (const size_t word : std::exchange(words_with_[top.pair], {})) {
      MergeIn(word, top.pair, id);
      const std::vector<int32_t>& symbols = words_[word].symbols;
      for (size_t at = 0; at + 1 < symbols.size(); ++at) {
        if (symbols[at] == id || symbols[at + 1] == id) grown.insert({symbols[at], symbols[at + 1]});
      }
    }
    pair_counts_[top.pair] = 0;
    for (const Pair& pair : grown) queue_.push({pair_counts_[pair], pair});
  }
}

TokenizerFile FileOf(const Trainer& trainer, const TrainBpeOptions& options) {
  TokenizerFile file;
  for (size_t id = 0; id < options.special_tokens.size(); ++id) {
    file.added.push_back({static_cast<int32_t>(id), options.special_tokens[id], /*special=*/true});
  }
  const std::string byte_level =
      R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})";
  const std::string pattern = nlohmann::json(options.pattern).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  file.pre_tokenizer = absl::StrCat(R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": )", pattern,
                                    R"(}, "behavior": "Isolated", "invert": false}, )", byte_level, "]}");
  file.decoder = byte_level;
  file.tokens = trainer.spellings();
  for (const auto& [left, right] : trainer.merges()) file.merges.emplace_back(file.tokens[left], file.tokens[right]);
  return file;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> TrainBpe(absl::Span<const std::string> corpus, int32_t vocab_size,
                                                    const TrainBpeOptions& options) {
  HONE_ASSIGN_OR_RETURN(const auto pattern, Pattern::Compile(options.pattern));
  HONE_ASSIGN_OR_RETURN(const auto pieces, CountPieces(corpus, *pattern));
  Trainer trainer(pieces, options);
  if (static_cast<int64_t>(trainer.spellings().size()) > vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat("a vocabulary of ", vocab_size, " does not hold ",
                                                   trainer.spellings().size(), " special tokens and bytes"));
  }
  trainer.Learn(static_cast<size_t>(vocab_size), options.min_count);
  return Tokenizer::FromJson(WriteTokenizerJson(FileOf(trainer, options)), "trained tokenizer");
}

}  // namespace hone::policy
