#include "trainer/data/dataset.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "trainer/data/cuda_regions.h"

namespace hone::trainer {
namespace {

using Json = nlohmann::json;

// Empty on success, else what is wrong.
std::string ReadIds(const Json& json, const char* name, std::vector<int32_t>& ids) {
  const Json& list = json[name];
  if (!list.is_array() || list.empty()) return absl::StrCat(name, " is not a list of token ids");
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX)
      return absl::StrCat(name, " holds something that is no token id");
    ids.push_back(id.get<int32_t>());
  }
  return "";
}

std::string ReadMessages(const Json& list, std::vector<policy::ChatMessage>& messages) {
  if (!list.is_array()) return "messages is not a list";
  for (const Json& entry : list) {
    policy::ChatMessage message;
    for (const auto& [name, target] :
         {std::pair<const char*, std::string*>{"role", &message.role}, {"content", &message.content}}) {
      if (!entry.is_object() || !entry.contains(name) || !entry[name].is_string())
        return absl::StrCat("message ", messages.size(), ": ", name, " is not a text");
      *target = entry[name].get<std::string>();
    }
    messages.push_back(std::move(message));
  }
  if (messages.size() < 2)
    return absl::StrCat("a conversation of ", messages.size(), " messages, at least 2 are needed");
  if (messages.back().role != "assistant")
    return absl::StrCat("the last message is of \"", messages.back().role, "\", not of the assistant");
  if (messages.back().content.empty()) return "the last message is empty";
  return "";
}

std::string ReadRecord(const std::string& line, DatasetRecord& record) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return "not a JSON object";
  if (json.contains("prompt_ids") || json.contains("response_ids")) {
    for (const auto& [name, ids] : {std::pair<const char*, std::vector<int32_t>*>{"prompt_ids", &record.prompt_ids},
                                    {"response_ids", &record.response_ids}}) {
      if (!json.contains(name)) return absl::StrCat(name, " is missing");
      if (std::string wrong = ReadIds(json, name, *ids); !wrong.empty()) return wrong;
    }
    return "";
  }
  if (json.contains("messages")) return ReadMessages(json["messages"], record.messages);
  for (const char* name : {"prompt", "response"}) {
    if (!json.contains(name) || !json[name].is_string())
      return absl::StrCat("neither messages nor token ids, and ", name, " is not a text");
  }
  record.messages = {{"user", json["prompt"].get<std::string>(), {}},
                     {"assistant", json["response"].get<std::string>(), {}}};
  return record.messages[1].content.empty() ? "response is empty" : "";
}

}  // namespace

absl::StatusOr<std::vector<DatasetRecord>> ReadDataset(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<DatasetRecord> records;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    DatasetRecord record;
    record.line = number;
    if (const std::string wrong = ReadRecord(line, record); !wrong.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": ", wrong));
    }
    records.push_back(std::move(record));
  }
  if (records.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": holds no example"));
  return records;
}

absl::StatusOr<TrainSequence> EncodeRecord(const DatasetRecord& record, const policy::Tokenizer& tokenizer,
                                           const policy::ChatTemplate& chat, const EncodeSettings& settings) {
  const auto named = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("line ", record.line, ": ", status.message()));
  };
  std::vector<int32_t> prompt = record.prompt_ids, response = record.response_ids;
  if (prompt.empty()) {
    const absl::Span<const policy::ChatMessage> all(record.messages);
    absl::StatusOr<std::string> text = chat.Render(all.subspan(0, all.size() - 1));
    if (!text.ok()) return named(text.status());
    absl::StatusOr<std::vector<int32_t>> ids = tokenizer.Encode(*text);
    if (!ids.ok()) return named(ids.status());
    prompt = *std::move(ids);
    ids = tokenizer.Encode(record.messages.back().content, {.parse_special = false});
    if (!ids.ok()) return named(ids.status());
    response = *std::move(ids);
    if (tokenizer.special_ids().eos.empty())
      return absl::InvalidArgumentError("the tokenizer's folder names no token that ends a turn");
    response.push_back(tokenizer.special_ids().eos.front());
  }
  TrainSequence sequence = PromptAndResponse(prompt, response);
  if (settings.max_length > 0 && sequence.length() > settings.max_length) {
    return absl::OutOfRangeError(
        absl::StrCat("line ", record.line, ": ", sequence.length(), " tokens, at most ", settings.max_length));
  }
  if (!settings.mark_kernels) return sequence;
  const std::vector<uint8_t> marks = TokensIn(CudaRegions(tokenizer.Decode(response)), TokenEnds(tokenizer, response));
  sequence.kernel_tokens.assign(prompt.size(), 0);
  sequence.kernel_tokens.insert(sequence.kernel_tokens.end(), marks.begin(), marks.end());
  return sequence;
}

std::vector<size_t> TokenEnds(const policy::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  policy::StreamDecoder decoder(tokenizer);
  std::vector<size_t> ends;
  size_t length = 0;
  for (int32_t id : ids) ends.push_back(length += decoder.Push(id).size());
  if (!ends.empty()) ends.back() += decoder.Finish().size();
  return ends;
}

std::vector<size_t> ShareOfRank(const std::vector<int64_t>& lengths, int ranks, int rank) {
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  std::vector<int64_t> load(ranks, 0);
  std::vector<size_t> own;
  for (size_t index : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += lengths[index];
    if (least - load.begin() == rank) own.push_back(index);
  }
  std::sort(own.begin(), own.end());
  return own;
}

}  // namespace hone::trainer
