#include "rewards/lab/journal_lines.h"

#include <simdjson.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/journal.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace hone::rewards {
namespace {

namespace od = simdjson::ondemand;
using simdjson::error_code;
using simdjson::SUCCESS;

static_assert(kLinePadding >= simdjson::SIMDJSON_PADDING);

/// Calls `visit(key, value)` for the fields of an object; what `visit` leaves alone is skipped.
template <class Visit>
error_code ForFields(od::value value, Visit visit) {
  od::object object;
  if (const error_code error = value.get_object().get(object)) return error;
  for (auto item : object) {
    od::field field;
    if (const error_code error = std::move(item).get(field)) return error;
    std::string_view key;
    if (const error_code error = field.unescaped_key().get(key)) return error;
    if (const error_code error = visit(key, field.value())) return error;
  }
  return SUCCESS;
}

template <class Visit>
error_code ForItems(od::value value, Visit visit) {
  od::array array;
  if (const error_code error = value.get_array().get(array)) return error;
  for (auto item : array) {
    od::value element;
    if (const error_code error = std::move(item).get(element)) return error;
    if (const error_code error = visit(element)) return error;
  }
  return SUCCESS;
}

error_code Read(od::value value, std::string& out) {
  std::string_view text;
  if (const error_code error = value.get_string().get(text)) return error;
  out.assign(text.data(), text.size());
  return SUCCESS;
}

/// The journal writes numbers that JSON lacks as words.
error_code Read(od::value value, double& out) {
  od::json_type type;
  if (const error_code error = value.type().get(type)) return error;
  if (type == od::json_type::number) return value.get_double().get(out);
  std::string_view word;
  if (const error_code error = value.get_string().get(word)) return error;
  if (word == "nan")
    out = std::numeric_limits<double>::quiet_NaN();
  else if (word == "inf")
    out = std::numeric_limits<double>::infinity();
  else if (word == "-inf")
    out = -std::numeric_limits<double>::infinity();
  else
    return simdjson::INCORRECT_TYPE;
  return SUCCESS;
}

error_code Read(od::value value, std::optional<double>& out) {
  bool null = false;
  if (const error_code error = value.is_null().get(null); error != SUCCESS || null) return error;
  return Read(value, out.emplace());
}

error_code Read(od::value value, bool& out) { return value.get_bool().get(out); }

error_code Read(od::value value, VerdictStatus& out) {
  std::string_view word;
  if (const error_code error = value.get_string().get(word)) return error;
  const std::optional<VerdictStatus> status = ParseVerdictStatus(AbslView(word));
  if (!status) return simdjson::INCORRECT_TYPE;
  out = *status;
  return SUCCESS;
}

error_code Read(od::value value, Baseline& out) {
  std::string_view word;
  if (const error_code error = value.get_string().get(word)) return error;
  const std::optional<Baseline> baseline = ParseBaseline(AbslView(word));
  if (!baseline) return simdjson::INCORRECT_TYPE;
  out = *baseline;
  return SUCCESS;
}

error_code Read(od::value value, Estimate& out) {
  return ForFields(value, [&](std::string_view key, od::value field) {
    if (key == "median") return Read(field, out.median);
    if (key == "low") return Read(field, out.low);
    if (key == "high") return Read(field, out.high);
    return SUCCESS;
  });
}

error_code Read(od::value value, Timing& out) {
  return ForFields(value, [&](std::string_view key, od::value field) {
    if (key == "baseline") return Read(field, out.baseline);
    if (key == "speedup") return Read(field, out.speedup);
    if (key == "emulated") return Read(field, out.emulated);
    if (key == "samples") {
      return ForItems(field, [&](od::value item) { return Read(item, out.samples.emplace_back()); });
    }
    return SUCCESS;
  });
}

error_code Read(od::value value, Verdict& out) {
  return ForFields(value, [&](std::string_view key, od::value field) {
    if (key == "status") return Read(field, out.status);
    if (key == "correct_rate") return Read(field, out.correct_rate);
    if (key == "timings") {
      return ForItems(field, [&](od::value item) { return Read(item, out.timings.emplace_back()); });
    }
    if (key == "coverage") return Read(field, out.coverage);
    if (key == "protocol") return Read(field, out.protocol);
    if (key == "device") return Read(field, out.device);
    return SUCCESS;
  });
}

/// Everything but the texts and the ids themselves.
error_code Read(od::value value, Turn& out, size_t& response_tokens) {
  return ForFields(value, [&](std::string_view key, od::value field) {
    if (key == "response_ids") {
      od::array ids;
      if (const error_code error = field.get_array().get(ids)) return error;
      return ids.count_elements().get(response_tokens);
    }
    if (key == "truncated") return Read(field, out.truncated);
    if (key == "verdict") return Read(field, out.verdict);
    return SUCCESS;
  });
}

void AddDistinct(const std::string& name, std::vector<std::string>& names) {
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  names.push_back(name);
}

void Note(const Verdict& verdict, LabGroup& group) {
  if (!verdict.ok()) return;
  AddDistinct(verdict.device, group.devices);
  AddDistinct(verdict.protocol, group.protocols);
  for (const Timing& timing : verdict.timings) group.emulated |= timing.emulated;
}

/// The outcome of a turn whose verdict is about to go: its samples move into the group.
void Add(Turn& turn, size_t response_tokens, LabGroup& group) {
  const auto index = static_cast<int>(group.outcomes.back().size());
  Outcome outcome = OutcomeOf(turn, group.episode_ids.back(), index);
  outcome.response_tokens = static_cast<int64_t>(response_tokens);
  if (!outcome.samples.empty()) {
    group.samples.push_back(std::move(turn.verdict.timings.front().samples));
    outcome.samples = group.samples.back();
  }
  Note(turn.verdict, group);
  group.outcomes.back().push_back(outcome);
}

error_code ReadEpisode(od::value value, LabGroup& group) {
  group.outcomes.emplace_back();
  std::string& id = group.episode_ids.emplace_back();
  bool draws_are_known = true;  // the id came before the turns, as the journal writes it
  const error_code error = ForFields(value, [&](std::string_view key, od::value field) {
    if (key == "id") {
      draws_are_known = group.outcomes.back().empty();
      return Read(field, id);
    }
    if (key != "turns") return SUCCESS;
    return ForItems(field, [&](od::value item) {
      Turn turn;
      size_t response_tokens = 0;
      const error_code turn_error = Read(item, turn, response_tokens);
      if (turn_error == SUCCESS) Add(turn, response_tokens, group);
      return turn_error;
    });
  });
  if (!draws_are_known) {
    EpisodeOutcomes& turns = group.outcomes.back();
    for (size_t k = 0; k < turns.size(); ++k) turns[k].uniform = UniformOf(id, static_cast<int>(k));
  }
  return error;
}

}  // namespace

struct JournalLineParser::State {
  od::parser parser;
};

JournalLineParser::JournalLineParser() : state_(std::make_unique<State>()) {}
JournalLineParser::~JournalLineParser() = default;

absl::Status JournalLineParser::Parse(absl::string_view line, LabGroup& group) {
  group = LabGroup();
  od::document document;
  od::value root;
  error_code error =
      state_->parser.iterate(simdjson::padded_string_view(line.data(), line.size(), line.size() + kLinePadding))
          .get(document);
  if (error == SUCCESS) error = document.get_value().get(root);
  if (error == SUCCESS) {
    error = ForFields(root, [&](std::string_view key, od::value field) {
      if (key == "id") return Read(field, group.id);
      if (key == "task_id") return Read(field, group.task_id);
      if (key != "episodes") return SUCCESS;
      return ForItems(field, [&](od::value item) { return ReadEpisode(item, group); });
    });
  }
  const bool at_end = error == SUCCESS && document.current_location().error() == simdjson::OUT_OF_BOUNDS;
  if (at_end) return absl::OkStatus();
  // The full reader knows how to say what is wrong.
  HONE_RETURN_IF_ERROR(GroupFromJson(line).status());
  return absl::InvalidArgumentError(error == SUCCESS ? "more than one JSON value" : simdjson::error_message(error));
}

}  // namespace hone::rewards
