#pragma once

// The parsed form of a configuration file; private to base/config*.cc, and the only code that sees yaml-cpp.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace hone::internal {

struct ConfigEntry;

/// One value of the document, with the place it came from.
struct ConfigNode {
  enum class Kind { kNull, kPlain, kQuoted, kMap, kList };
  Kind kind = Kind::kNull;
  std::string where;  // "train.yaml:12", or "--set a.b=c"
  std::string text;   // of a scalar, unquoted
  std::vector<ConfigEntry> entries;
  std::vector<ConfigNode> items;

  bool scalar() const { return kind == Kind::kPlain || kind == Kind::kQuoted; }
  const ConfigEntry* Find(absl::string_view key) const;
};

struct ConfigEntry {
  std::string key;
  std::string where;
  ConfigNode value;
};

/// kInvalidArgument, "where: message" in one line, whatever the user's value in it holds.
absl::Status ConfigError(absl::string_view where, absl::string_view message);

/// kInvalidArgument with file and line: not YAML, duplicate keys, aliases, tags, several documents, too deep.
absl::StatusOr<ConfigNode> ParseYaml(absl::string_view text, const std::string& name);

/// Puts the value of "a.b=c" into the tree.
absl::Status ApplyOverride(const std::string& override_text, ConfigNode& root);

/// A number as YAML; a double in the fewest digits that read back to it.
std::string NumberText(int64_t value);
std::string NumberText(double value);
template <class T>
std::string RangeText(T low, T high) {
  return absl::StrCat("[", NumberText(low), ", ", NumberText(high), "]");
}

}  // namespace hone::internal
