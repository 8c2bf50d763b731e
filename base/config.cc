#include "base/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/config_tree.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace hone {
namespace {

using internal::ConfigEntry;
using internal::ConfigNode;
using internal::RangeText;

constexpr int64_t kMaxFileBytes = 16 << 20;
constexpr size_t kMaxKeysListed = 12;

/// What is wrong with a value, if anything: where it stands, its path below the key that was asked for, and why.
struct Problem {
  const ConfigNode* node = nullptr;  // null: nothing wrong
  std::string below;                 // ".3.rows"
  std::string message;
};

// ---- One value. ----

absl::string_view WithoutPlus(absl::string_view text) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  return text;
}

template <class T>
bool FromChars(absl::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParseNumber(absl::string_view text, int64_t& out) { return FromChars(WithoutPlus(text), out); }

bool ParseNumber(absl::string_view text, double& out) {
  const bool negative = !text.empty() && text[0] == '-';
  const absl::string_view magnitude = negative ? text.substr(1) : WithoutPlus(text);
  if (magnitude == ".inf") {
    out = negative ? -HUGE_VAL : HUGE_VAL;
    return true;
  }
  // from_chars alone would take "inf", "nan" and "--1".
  if (magnitude.empty() || !(absl::ascii_isdigit(magnitude[0]) || magnitude[0] == '.')) return false;
  if (!FromChars(magnitude, out)) return false;
  if (negative) out = -out;
  return true;
}

const char* KindOfNumber(int64_t) { return "a whole number"; }
const char* KindOfNumber(double) { return "a number"; }

std::string Shown(const ConfigNode& node) {
  return node.kind == ConfigNode::Kind::kQuoted ? absl::StrCat("\"", node.text, "\"") : node.text;
}

/// `allowed`: what would have been right, for the message.
Problem NotOneValue(const ConfigNode& node, absl::string_view allowed) {
  const char* what = node.kind == ConfigNode::Kind::kMap    ? "expected one value, not a section"
                     : node.kind == ConfigNode::Kind::kList ? "expected one value, not a list"
                                                            : "has no value";
  return {&node, "", allowed.empty() ? what : absl::StrCat(what, "; allowed: ", allowed)};
}

template <class T>
Problem ReadNumber(const ConfigNode& node, Bounds<T> bounds, T& out) {
  const std::string range = RangeText(bounds.low, bounds.high);
  if (!node.scalar()) return NotOneValue(node, absl::StrCat(KindOfNumber(T{}), " in ", range));
  T value{};
  if (node.kind == ConfigNode::Kind::kQuoted || !ParseNumber(node.text, value)) {
    return {&node, "", absl::StrCat("value ", Shown(node), " is not ", KindOfNumber(value), " in ", range)};
  }
  if (!(value >= bounds.low && value <= bounds.high)) {
    return {&node, "", absl::StrCat("value ", Shown(node), " is out of range ", range)};
  }
  out = value;
  return {};
}

Problem ReadBool(const ConfigNode& node, bool& out) {
  if (!node.scalar()) return NotOneValue(node, "true, false");
  if (node.kind == ConfigNode::Kind::kQuoted || (node.text != "true" && node.text != "false")) {
    return {&node, "", absl::StrCat("value ", Shown(node), " is not true or false")};
  }
  out = node.text == "true";
  return {};
}

Problem ReadText(const ConfigNode& node, std::string& out) {
  if (!node.scalar()) return NotOneValue(node, "");
  out = node.text;
  return {};
}

Problem ReadWord(const ConfigNode& node, const OneOf& allowed, std::string& out) {
  const std::string words = absl::StrJoin(allowed.words, ", ", [](std::string* out, absl::string_view word) {
    absl::StrAppend(out, word.empty() ? "\"\"" : word);
  });
  if (!node.scalar()) return NotOneValue(node, words);
  if (std::find(allowed.words.begin(), allowed.words.end(), node.text) == allowed.words.end()) {
    return {&node, "", absl::StrCat("value ", Shown(node), " is not one of ", words)};
  }
  out = node.text;
  return {};
}

// ---- Lists and maps of values. ----

template <class T, class ReadItem>
Problem ReadList(const ConfigNode& node, std::vector<T>& out, const ReadItem& read_item) {
  if (node.kind != ConfigNode::Kind::kList) return {&node, "", "expected a list"};
  std::vector<T> values(node.items.size());
  for (size_t i = 0; i < values.size(); ++i) {
    Problem problem = read_item(node.items[i], values[i]);
    if (problem.node == nullptr) continue;
    problem.below = absl::StrCat(".", i, problem.below);
    return problem;
  }
  out = std::move(values);
  return {};
}

template <class T>
Problem ReadMap(const ConfigNode& node, Bounds<T> bounds, std::map<std::string, T>& out) {
  if (node.kind != ConfigNode::Kind::kMap) return {&node, "", "expected names with values"};
  std::map<std::string, T> values;
  for (const ConfigEntry& entry : node.entries) {
    Problem problem = ReadNumber(entry.value, bounds, values[entry.key]);
    if (problem.node == nullptr) continue;
    problem.below = absl::StrCat(".", entry.key);
    return problem;
  }
  out = std::move(values);
  return {};
}

/// What to write instead of an unknown key: the nearest known one when it is near enough, else the known ones.
std::string Suggestion(absl::string_view key, std::vector<std::string> known) {
  if (known.empty()) return "no key is known here";
  const std::string nearest = NearestWord(key, known);
  const size_t distance = EditDistance(key, nearest);
  if (distance <= std::max<size_t>(2, key.size() / 3) && distance < nearest.size()) {
    return absl::StrCat("did you mean '", nearest, "'?");
  }
  const bool cut = known.size() > kMaxKeysListed;
  if (cut) known.resize(kMaxKeysListed);
  return absl::StrCat("known here: ", absl::StrJoin(known, ", "), cut ? ", ..." : "");
}

}  // namespace

// ---- Reader. ----

ConfigReader::ConfigReader(const ConfigNode& node, std::string path) : node_(&node), path_(std::move(path)) {}

std::string ConfigReader::PathOf(absl::string_view key) const {
  return path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key);
}

void ConfigReader::FailAt(const ConfigNode& node, absl::string_view path, absl::string_view message) {
  if (error_.ok()) error_ = internal::ConfigError(node.where, absl::StrCat(path, ": ", message));
}

/// Notes that `key` is known, and reads its value if there is one and nothing went wrong before.
template <class Read>
void ConfigReader::Take(const char* key, const Read& read) {
  known_.push_back(key);
  const ConfigEntry* entry = error_.ok() ? node_->Find(key) : nullptr;
  if (entry == nullptr) return;
  const Problem problem = read(entry->value);
  if (problem.node != nullptr) FailAt(*problem.node, absl::StrCat(PathOf(key), problem.below), problem.message);
}

bool ConfigReader::Has(const char* key) const { return node_->Find(key) != nullptr; }

void ConfigReader::Fail(const char* key, const std::string& message) {
  const ConfigEntry* entry = node_->Find(key);
  FailAt(entry != nullptr ? entry->value : *node_, PathOf(key), message);
}

void ConfigReader::Value(const char* key, bool& out, const char*) {
  Take(key, [&](const ConfigNode& node) { return ReadBool(node, out); });
}
void ConfigReader::Value(const char* key, int& out, Bounds<int> bounds, const char*) {
  Take(key, [&](const ConfigNode& node) {
    int64_t value = out;
    Problem problem = ReadNumber<int64_t>(node, bounds, value);
    out = static_cast<int>(value);
    return problem;
  });
}
void ConfigReader::Value(const char* key, int64_t& out, Bounds<int64_t> bounds, const char*) {
  Take(key, [&](const ConfigNode& node) { return ReadNumber(node, bounds, out); });
}
void ConfigReader::Value(const char* key, double& out, Bounds<double> bounds, const char*) {
  Take(key, [&](const ConfigNode& node) { return ReadNumber(node, bounds, out); });
}
void ConfigReader::Value(const char* key, std::string& out, const char*) {
  Take(key, [&](const ConfigNode& node) { return ReadText(node, out); });
}
void ConfigReader::Value(const char* key, std::string& out, const OneOf& allowed, const char*) {
  Take(key, [&](const ConfigNode& node) { return ReadWord(node, allowed, out); });
}
void ConfigReader::Value(const char* key, std::vector<std::string>& out, const char*) {
  Take(key, [&](const ConfigNode& node) { return ReadList(node, out, ReadText); });
}
void ConfigReader::Value(const char* key, std::vector<std::string>& out, const OneOf& allowed, const char*) {
  Take(key, [&](const ConfigNode& node) {
    return ReadList(node, out,
                    [&](const ConfigNode& item, std::string& word) { return ReadWord(item, allowed, word); });
  });
}
void ConfigReader::Value(const char* key, std::vector<int64_t>& out, Bounds<int64_t> bounds, const char*) {
  Take(key, [&](const ConfigNode& node) {
    return ReadList(node, out, [&](const ConfigNode& item, int64_t& value) { return ReadNumber(item, bounds, value); });
  });
}
void ConfigReader::Value(const char* key, std::vector<double>& out, Bounds<double> bounds, const char*) {
  Take(key, [&](const ConfigNode& node) {
    return ReadList(node, out, [&](const ConfigNode& item, double& value) { return ReadNumber(item, bounds, value); });
  });
}
void ConfigReader::Value(const char* key, std::map<std::string, int64_t>& out, Bounds<int64_t> bounds, const char*) {
  Take(key, [&](const ConfigNode& node) { return ReadMap(node, bounds, out); });
}
void ConfigReader::Value(const char* key, std::map<std::string, double>& out, Bounds<double> bounds, const char*) {
  Take(key, [&](const ConfigNode& node) { return ReadMap(node, bounds, out); });
}
void ConfigReader::Value(const char* key, std::vector<std::map<std::string, int64_t>>& out, Bounds<int64_t> bounds,
                         const char*) {
  Take(key, [&](const ConfigNode& node) {
    return ReadList(node, out, [&](const ConfigNode& item, auto& value) { return ReadMap(item, bounds, value); });
  });
}

std::optional<ConfigReader> ConfigReader::Enter(const char* key) {
  std::optional<ConfigReader> nested;
  Take(key, [&](const ConfigNode& node) -> Problem {
    // A section whose keys are all commented out has no value, and that is fine.
    if (node.kind != ConfigNode::Kind::kMap && node.kind != ConfigNode::Kind::kNull) {
      return {&node, "", "expected a section with keys of its own"};
    }
    nested = ConfigReader(node, PathOf(key));
    return {};
  });
  return nested;
}

std::optional<std::vector<ConfigReader>> ConfigReader::EnterList(const char* key) {
  std::optional<std::vector<ConfigReader>> nested;
  Take(key, [&](const ConfigNode& node) -> Problem {
    if (node.kind != ConfigNode::Kind::kList) return {&node, "", "expected a list of sections"};
    std::vector<ConfigReader> readers;
    for (const ConfigNode& item : node.items) {
      const std::string below = absl::StrCat(".", readers.size());
      if (item.kind != ConfigNode::Kind::kMap) return {&item, below, "expected a section with keys of its own"};
      readers.push_back(ConfigReader(item, absl::StrCat(PathOf(key), below)));
    }
    nested = std::move(readers);
    return {};
  });
  return nested;
}

void ConfigReader::Leave(ConfigReader& nested) {
  const absl::Status status = nested.Finish();
  if (error_.ok()) error_ = status;
}

absl::Status ConfigReader::UnknownKey() const {
  for (const ConfigEntry& entry : node_->entries) {
    if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) continue;
    return internal::ConfigError(entry.where,
                                 absl::StrCat("unknown key '", PathOf(entry.key), "'; ", Suggestion(entry.key, known_)));
  }
  return absl::OkStatus();
}

absl::Status ConfigReader::Finish() {
  if (!error_.ok() || other_keys_allowed_) return error_;
  return UnknownKey();
}

// ---- File. ----

ConfigFile::ConfigFile(std::unique_ptr<ConfigNode> root) : root_(std::move(root)) {}
ConfigFile::~ConfigFile() = default;
ConfigFile::ConfigFile(ConfigFile&&) noexcept = default;
ConfigFile& ConfigFile::operator=(ConfigFile&&) noexcept = default;

absl::StatusOr<ConfigFile> ConfigFile::Load(const std::string& path, const std::vector<std::string>& overrides) {
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFileBytes));
  return Parse(text, path, overrides);
}

absl::StatusOr<ConfigFile> ConfigFile::Parse(absl::string_view text, const std::string& name,
                                             const std::vector<std::string>& overrides) {
  HONE_ASSIGN_OR_RETURN(ConfigNode root, internal::ParseYaml(text, name));
  if (root.kind != ConfigNode::Kind::kMap && root.kind != ConfigNode::Kind::kNull) {
    return internal::ConfigError(root.where, "expected keys and values, such as 'steps: 10'");
  }
  for (const std::string& text : overrides) HONE_RETURN_IF_ERROR(internal::ApplyOverride(text, root));
  return ConfigFile(std::make_unique<ConfigNode>(std::move(root)));
}

ConfigReader ConfigFile::Root() const { return ConfigReader(*root_, ""); }

}  // namespace hone
