#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/config.h"
#include "base/config_tree.h"

namespace hone {
namespace {

using internal::NumberText;
using internal::RangeText;

/// Words that YAML, or a reader of YAML 1.1, takes for something else than text.
bool IsReserved(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  for (const char* word : {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}) {
    if (lower == word) return true;
  }
  return false;
}

bool IsPlain(absl::string_view text) {
  if (text.empty() || !(absl::ascii_isalpha(text[0]) || text[0] == '_' || text[0] == '/') || IsReserved(text))
    return false;
  for (char c : text) {
    if (!(absl::ascii_isalnum(c) || c == '_' || c == '/' || c == '.' || c == '-')) return false;
  }
  return true;
}

std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (absl::ascii_iscntrl(c)) {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string YamlText(const std::string& text) { return IsPlain(text) ? text : Quoted(text); }
std::string YamlText(int64_t value) { return NumberText(value); }
std::string YamlText(double value) { return NumberText(value); }

template <class T>
std::string YamlText(const std::map<std::string, T>& values) {
  return absl::StrCat("{",
                      absl::StrJoin(values, ", ",
                                    [](std::string* out, const auto& entry) {
                                      absl::StrAppend(out, YamlText(entry.first), ": ", YamlText(entry.second));
                                    }),
                      "}");
}

template <class T>
std::string YamlText(const std::vector<T>& values) {
  return absl::StrCat(
      "[", absl::StrJoin(values, ", ", [](std::string* out, const T& value) { absl::StrAppend(out, YamlText(value)); }),
      "]");
}

template <class T>
std::string Comment(const char* doc, Bounds<T> bounds) {
  return absl::StrCat(doc, " ", RangeText(bounds.low, bounds.high));
}

std::string Comment(const char* doc, const OneOf& allowed) {
  return absl::StrCat(doc, " (", absl::StrJoin(allowed.words, " | "), ")");
}

}  // namespace

void ConfigWriter::Value(const char* key, bool& value, const char* doc) { Line(key, value ? "true" : "false", doc); }
void ConfigWriter::Value(const char* key, int& value, Bounds<int> bounds, const char* doc) {
  Line(key, NumberText(int64_t{value}), Comment<int64_t>(doc, bounds));
}
void ConfigWriter::Value(const char* key, int64_t& value, Bounds<int64_t> bounds, const char* doc) {
  Line(key, NumberText(value), Comment(doc, bounds));
}
void ConfigWriter::Value(const char* key, double& value, Bounds<double> bounds, const char* doc) {
  Line(key, NumberText(value), Comment(doc, bounds));
}
void ConfigWriter::Value(const char* key, std::string& value, const char* doc) { Line(key, YamlText(value), doc); }
void ConfigWriter::Value(const char* key, std::string& value, const OneOf& allowed, const char* doc) {
  Line(key, YamlText(value), Comment(doc, allowed));
}
void ConfigWriter::Value(const char* key, std::vector<std::string>& value, const char* doc) {
  Line(key, YamlText(value), doc);
}
void ConfigWriter::Value(const char* key, std::vector<std::string>& value, const OneOf& allowed, const char* doc) {
  Line(key, YamlText(value), Comment(doc, allowed));
}
void ConfigWriter::Value(const char* key, std::vector<int64_t>& value, Bounds<int64_t> bounds, const char* doc) {
  Line(key, YamlText(value), Comment(doc, bounds));
}
void ConfigWriter::Value(const char* key, std::vector<double>& value, Bounds<double> bounds, const char* doc) {
  Line(key, YamlText(value), Comment(doc, bounds));
}
void ConfigWriter::Value(const char* key, std::map<std::string, int64_t>& value, Bounds<int64_t> bounds,
                         const char* doc) {
  Line(key, YamlText(value), Comment(doc, bounds));
}
void ConfigWriter::Value(const char* key, std::map<std::string, double>& value, Bounds<double> bounds,
                         const char* doc) {
  Line(key, YamlText(value), Comment(doc, bounds));
}
void ConfigWriter::Value(const char* key, std::vector<std::map<std::string, int64_t>>& value, Bounds<int64_t> bounds,
                         const char* doc) {
  Line(key, YamlText(value), Comment(doc, bounds));
}

void ConfigWriter::Indent() {
  text_.append(static_cast<size_t>(2 * depth_), ' ');
  if (!item_start_) return;
  text_.replace(text_.size() - 2, 2, "- ");
  item_start_ = false;
}

void ConfigWriter::Line(const char* key, absl::string_view value, const std::string& comment) {
  Indent();
  absl::StrAppend(&text_, key, ": ", value, "  # ", comment, "\n");
}

void ConfigWriter::Open(const char* key, const char* after_colon, const char* doc) {
  Indent();
  absl::StrAppend(&text_, key, ":", after_colon, "  # ", doc, "\n");
  ++depth_;
}

void ConfigWriter::OpenItem() {
  ++depth_;
  item_start_ = true;
}

void ConfigWriter::CloseItem() {
  if (item_start_) {
    Indent();
    text_ += "{}\n";
  }
  --depth_;
}

}  // namespace hone
