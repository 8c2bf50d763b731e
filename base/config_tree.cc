#include "base/config_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/one_line.h"
#include "base/status_macros.h"

namespace hone::internal {
namespace {

constexpr size_t kMaxDepth = 64;

/// Builds the tree from the parser's events. Remembers the first thing that strict YAML does not allow.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string name) : name_(std::move(name)) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Finish(NodeAt(mark, ConfigNode::Kind::kNull)); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Fail(Where(mark), "aliases (*name) are not allowed");
    Finish(NodeAt(mark, ConfigNode::Kind::kNull));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    CheckTag(mark, tag);
    ConfigNode node = NodeAt(mark, tag == "!" ? ConfigNode::Kind::kQuoted : ConfigNode::Kind::kPlain);
    node.text = value;
    Finish(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Begin(mark, tag, ConfigNode::Kind::kList);
  }
  void OnSequenceEnd() override { End(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    Begin(mark, tag, ConfigNode::Kind::kMap);
  }
  void OnMapEnd() override { End(); }

  absl::Status error() const { return error_; }
  ConfigNode TakeRoot() { return std::move(root_); }

 private:
  struct Frame {
    ConfigNode node;
    bool has_key = false;  // of a map: the next value belongs to `key`
    ConfigEntry key;
  };

  std::string Where(const YAML::Mark& mark) const { return absl::StrCat(name_, ":", mark.line + 1); }
  void Fail(const std::string& where, absl::string_view message) {
    if (error_.ok()) error_ = ConfigError(where, message);
  }
  ConfigNode NodeAt(const YAML::Mark& mark, ConfigNode::Kind kind) const {
    ConfigNode node;
    node.kind = kind;
    node.where = Where(mark);
    return node;
  }
  /// "?" is the parser's tag of plain values, "!" of quoted ones, "" of null and of block collections.
  void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag != "" && tag != "?" && tag != "!") Fail(Where(mark), absl::StrCat("tags (", tag, ") are not allowed"));
  }
  bool WantsKey() const {
    return !frames_.empty() && frames_.back().node.kind == ConfigNode::Kind::kMap && !frames_.back().has_key;
  }

  void Begin(const YAML::Mark& mark, const std::string& tag, ConfigNode::Kind kind) {
    CheckTag(mark, tag);
    if (WantsKey()) Fail(Where(mark), "a key must be one word");
    if (frames_.size() >= kMaxDepth) Fail(Where(mark), absl::StrCat("nested deeper than ", kMaxDepth, " levels"));
    frames_.push_back({NodeAt(mark, kind), false, {}});
  }
  void End() {
    ConfigNode node = std::move(frames_.back().node);
    frames_.pop_back();
    Finish(std::move(node));
  }
  void Finish(ConfigNode node) {
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (frame.node.kind == ConfigNode::Kind::kList) {
      frame.node.items.push_back(std::move(node));
    } else if (frame.has_key) {
      frame.key.value = std::move(node);
      frame.node.entries.push_back(std::move(frame.key));
      frame.has_key = false;
    } else {
      TakeKey(frame, node);
    }
  }
  void TakeKey(Frame& frame, const ConfigNode& key) {
    if (!key.scalar() || key.text.empty()) Fail(key.where, "a key must be one word");
    if (const ConfigEntry* first = frame.node.Find(key.text)) {
      Fail(key.where, absl::StrCat("duplicate key '", KeyPath(key.text), "', first given at ", first->where));
    }
    frame.key = ConfigEntry{key.text, key.where, {}};
    frame.has_key = true;
  }
  std::string KeyPath(const std::string& key) const {
    std::vector<std::string> parts;
    for (const Frame& frame : frames_) {
      if (frame.has_key)
        parts.push_back(frame.key.key);
      else if (frame.node.kind == ConfigNode::Kind::kList)
        parts.push_back(absl::StrCat(frame.node.items.size()));
    }
    parts.push_back(key);
    return absl::StrJoin(parts, ".");
  }

  const std::string name_;
  std::vector<Frame> frames_;
  ConfigNode root_;
  absl::Status error_;
};

absl::Status NotYaml(const std::string& name, const YAML::Exception& error) {
  const std::string where = error.mark.is_null() ? name : absl::StrCat(name, ":", error.mark.line + 1);
  return ConfigError(where, absl::StrCat("not YAML: ", error.msg));
}

ConfigEntry* FindMutable(ConfigNode& node, absl::string_view key) { return const_cast<ConfigEntry*>(node.Find(key)); }

void SetPlace(ConfigNode& node, const std::string& where) {
  node.where = where;
  for (ConfigEntry& entry : node.entries) {
    entry.where = where;
    SetPlace(entry.value, where);
  }
  for (ConfigNode& item : node.items) SetPlace(item, where);
}

/// The child that `part` names, made where a map lacks it.
absl::StatusOr<ConfigNode*> Descend(ConfigNode& node, absl::string_view part, const std::string& where) {
  if (node.kind == ConfigNode::Kind::kList) {
    size_t index = 0;
    if (!absl::SimpleAtoi(part, &index) || index >= node.items.size()) {
      return ConfigError(where, absl::StrCat("'", part, "' is not an index of a list with ", node.items.size(), " items"));
    }
    return &node.items[index];
  }
  if (node.scalar()) {
    return ConfigError(where, absl::StrCat("'", part, "' is below a single value (", node.where, ")"));
  }
  node.kind = ConfigNode::Kind::kMap;
  if (ConfigEntry* entry = FindMutable(node, part)) {
    entry->where = where;
    return &entry->value;
  }
  ConfigEntry entry{std::string(part), where, {}};
  entry.value.where = where;
  node.entries.push_back(std::move(entry));
  return &node.entries.back().value;
}

}  // namespace

const ConfigEntry* ConfigNode::Find(absl::string_view key) const {
  for (const ConfigEntry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

std::string NumberText(int64_t value) { return absl::StrCat(value); }

std::string NumberText(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  std::array<char, 32> buffer;
  const std::to_chars_result result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return std::string(buffer.data(), result.ptr);
}

absl::Status ConfigError(absl::string_view where, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(OneLine(where), ": ", OneLine(message)));
}

absl::StatusOr<ConfigNode> ParseYaml(absl::string_view text, const std::string& name) {
  TreeBuilder builder(name);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    HONE_RETURN_IF_ERROR(builder.error());
    ConfigNode root = builder.TakeRoot();
    TreeBuilder second(name);
    if (parser.HandleNextDocument(second)) {
      return ConfigError(second.TakeRoot().where, "a second YAML document; only one is allowed");
    }
    if (root.where.empty()) root.where = absl::StrCat(name, ":1");
    return root;
  } catch (const YAML::Exception& error) {
    return NotYaml(name, error);
  }
}

absl::Status ApplyOverride(const std::string& override_text, ConfigNode& root) {
  const std::string where = absl::StrCat("--set ", override_text);
  const size_t equals = override_text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return ConfigError(where, "expected key=value, such as sft.steps=10");
  }
  HONE_ASSIGN_OR_RETURN(ConfigNode value, ParseYaml(absl::string_view(override_text).substr(equals + 1), where));
  SetPlace(value, where);
  ConfigNode* node = &root;
  for (absl::string_view part : absl::StrSplit(override_text.substr(0, equals), '.')) {
    if (part.empty()) return ConfigError(where, "an empty key");
    HONE_ASSIGN_OR_RETURN(node, Descend(*node, part, where));
  }
  *node = std::move(value);
  return absl::OkStatus();
}

}  // namespace hone::internal
