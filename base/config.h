#pragma once

// Strict YAML: an unknown key, a duplicate key, a wrong type or a value out of range is an error that names file, line,
// key, value and the allowed range, and suggests the nearest key. Aliases, tags and second documents are refused.
//
// A section of the configuration is a plain struct and one function that names its fields; the same function reads a
// file, applies `--set a.b=c`, prints the resolved configuration and lists the keys for --help:
//
//   struct SftConfig { int steps = 600; double learning_rate = 2e-3; };
//   template <class Fields> void Describe(Fields& f, SftConfig& c) {
//     f.Value("steps", c.steps, Range(1, 1'000'000), "optimiser steps");
//     f.Value("learning_rate", c.learning_rate, Range(0.0, 1.0), "peak of the cosine schedule");
//     if (c.steps > 10 && c.learning_rate == 0) f.Fail("learning_rate", "is 0, so nothing would be learned");
//   }
//
//   HONE_ASSIGN_OR_RETURN(ConfigFile file, ConfigFile::Load("train.yaml", {"sft.steps=10"}));
//   HONE_RETURN_IF_ERROR(file.Read(config));                 // every key must be known to Describe
//   HONE_RETURN_IF_ERROR(WriteFileAtomically(path, ToYaml(config)));
//
// Keys that are absent leave the struct's own default. Describe may look at values it has read (a reward term's kind)
// to decide which keys to name next.
//
//   train.yaml:12: rl.learning_rate: value 3.0 is out of range [0, 1]
//   train.yaml:4: unknown key 'rl.stpes'; did you mean 'steps'?
//   --set rl.steps=many: rl.steps: value many is not a whole number in [1, 1000000]

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

/// Inclusive bounds of a number.
template <class T>
struct Bounds {
  T low;
  T high;
  /// So that Range(1, 10) serves int, int64_t and double fields alike.
  template <class U>
  constexpr operator Bounds<U>() const {  // NOLINT(google-explicit-constructor)
    return {static_cast<U>(low), static_cast<U>(high)};
  }
};
template <class T>
constexpr Bounds<T> Range(T low, T high) {
  return {low, high};
}

/// The words a string may be.
struct OneOf {
  std::vector<std::string> words;
};

/// The words an enumeration is written as.
template <class Enum>
using Words = std::vector<std::pair<std::string, Enum>>;

namespace internal {
struct ConfigNode;

template <class Enum>
OneOf WordsOf(const Words<Enum>& choices) {
  OneOf words;
  for (const auto& [word, value] : choices) words.words.push_back(word);
  return words;
}
}  // namespace internal

/// Fills structs from YAML. Collects the first error; nothing is read after it.
class ConfigReader {
 public:
  void Value(const char* key, bool& out, const char* doc);
  void Value(const char* key, int& out, Bounds<int> bounds, const char* doc);
  void Value(const char* key, int64_t& out, Bounds<int64_t> bounds, const char* doc);
  void Value(const char* key, double& out, Bounds<double> bounds, const char* doc);  // NaN never passes
  void Value(const char* key, std::string& out, const char* doc);
  void Value(const char* key, std::string& out, const OneOf& allowed, const char* doc);
  void Value(const char* key, std::vector<std::string>& out, const char* doc);
  void Value(const char* key, std::vector<std::string>& out, const OneOf& allowed, const char* doc);
  void Value(const char* key, std::vector<int64_t>& out, Bounds<int64_t> bounds, const char* doc);
  void Value(const char* key, std::vector<double>& out, Bounds<double> bounds, const char* doc);
  void Value(const char* key, std::map<std::string, int64_t>& out, Bounds<int64_t> bounds, const char* doc);
  void Value(const char* key, std::map<std::string, double>& out, Bounds<double> bounds, const char* doc);
  void Value(const char* key, std::vector<std::map<std::string, int64_t>>& out, Bounds<int64_t> bounds,
             const char* doc);

  /// An enumeration, by its words.
  template <class Enum>
  void Value(const char* key, Enum& out, const Words<Enum>& choices, const char* doc) {
    std::string word;
    Value(key, word, internal::WordsOf(choices), doc);
    for (const auto& [name, value] : choices) {
      if (name == word) out = value;
    }
  }

  /// A nested struct with its own Describe.
  template <class Struct>
  void Section(const char* key, Struct& out, const char* doc) {
    std::optional<ConfigReader> nested = Enter(key);
    if (!nested) return;
    Describe(*nested, out);
    Leave(*nested);
  }

  /// A list of structs, each with its own Describe; replaces `out` when the key is present.
  template <class Struct>
  void List(const char* key, std::vector<Struct>& out, const char* doc) {
    std::optional<std::vector<ConfigReader>> nested = EnterList(key);
    if (!nested) return;
    out.clear();
    for (ConfigReader& reader : *nested) {
      Describe(reader, out.emplace_back());
      Leave(reader);
    }
  }

  /// Whether the file or an override gives this key: for keys without a sensible default.
  bool Has(const char* key) const;

  /// For a program that reads one section of a file with others: keys that nobody asks for at this level are no error.
  void AllowOtherKeys() { other_keys_allowed_ = true; }

  /// An error found by the caller at `key`; kept if it is the first. The message gets file, line and path.
  void Fail(const char* key, const std::string& message);

  /// The first error, or one about a key that no Value, Section or List named.
  absl::Status Finish();

 private:
  friend class ConfigFile;
  ConfigReader(const internal::ConfigNode& node, std::string path);

  template <class Read>
  void Take(const char* key, const Read& read);
  std::optional<ConfigReader> Enter(const char* key);
  std::optional<std::vector<ConfigReader>> EnterList(const char* key);
  void Leave(ConfigReader& nested);
  std::string PathOf(absl::string_view key) const;
  void FailAt(const internal::ConfigNode& node, absl::string_view path, absl::string_view message);
  absl::Status UnknownKey() const;

  const internal::ConfigNode* node_;  // of the ConfigFile, which outlives the reader
  std::string path_;                  // "rl.filters"; empty at the root
  std::vector<std::string> known_;    // keys asked for so far
  bool other_keys_allowed_ = false;
  absl::Status error_;
};

/// Writes structs as YAML with documentation and ranges as comments, through the same Describe.
class ConfigWriter {
 public:
  void Value(const char* key, bool& value, const char* doc);
  void Value(const char* key, int& value, Bounds<int> bounds, const char* doc);
  void Value(const char* key, int64_t& value, Bounds<int64_t> bounds, const char* doc);
  void Value(const char* key, double& value, Bounds<double> bounds, const char* doc);
  void Value(const char* key, std::string& value, const char* doc);
  void Value(const char* key, std::string& value, const OneOf& allowed, const char* doc);
  void Value(const char* key, std::vector<std::string>& value, const char* doc);
  void Value(const char* key, std::vector<std::string>& value, const OneOf& allowed, const char* doc);
  void Value(const char* key, std::vector<int64_t>& value, Bounds<int64_t> bounds, const char* doc);
  void Value(const char* key, std::vector<double>& value, Bounds<double> bounds, const char* doc);
  void Value(const char* key, std::map<std::string, int64_t>& value, Bounds<int64_t> bounds, const char* doc);
  void Value(const char* key, std::map<std::string, double>& value, Bounds<double> bounds, const char* doc);
  void Value(const char* key, std::vector<std::map<std::string, int64_t>>& value, Bounds<int64_t> bounds,
             const char* doc);

  template <class Enum>
  void Value(const char* key, Enum& value, const Words<Enum>& choices, const char* doc) {
    std::string word;
    for (const auto& [name, choice] : choices) {
      if (choice == value) word = name;
    }
    Value(key, word, internal::WordsOf(choices), doc);
  }

  template <class Struct>
  void Section(const char* key, Struct& value, const char* doc) {
    Open(key, "", doc);
    Describe(*this, value);
    --depth_;
  }

  template <class Struct>
  void List(const char* key, std::vector<Struct>& value, const char* doc) {
    Open(key, value.empty() ? " []" : "", doc);
    for (Struct& item : value) {
      OpenItem();
      Describe(*this, item);
      CloseItem();
    }
    --depth_;
  }

  bool Has(const char*) const { return true; }
  void Fail(const char*, const std::string&) {}
  const std::string& Text() const { return text_; }

 private:
  void Open(const char* key, const char* after_colon, const char* doc);
  void OpenItem();
  void CloseItem();
  void Line(const char* key, absl::string_view value, const std::string& comment);
  void Indent();

  std::string text_;
  int depth_ = 0;
  bool item_start_ = false;  // the next line begins with the item's dash
};

/// One YAML document with the overrides applied.
class ConfigFile {
 public:
  /// `overrides`: "a.b=c", c being YAML; a list's items are named by index ("terms.0.weight=2").
  /// kInvalidArgument: not YAML, duplicate key, or a bad override. kNotFound: no such file.
  static absl::StatusOr<ConfigFile> Load(const std::string& path, const std::vector<std::string>& overrides = {});
  /// `name` stands in for the file in messages. For a header inside a larger file, blank lines in front of `text` keep
  /// the line numbers right.
  static absl::StatusOr<ConfigFile> Parse(absl::string_view text, const std::string& name,
                                          const std::vector<std::string>& overrides = {});
  ~ConfigFile();
  ConfigFile(ConfigFile&&) noexcept;
  ConfigFile& operator=(ConfigFile&&) noexcept;

  /// The whole document into one struct, which is left half-filled on an error.
  template <class Struct>
  absl::Status Read(Struct& out) const {
    ConfigReader reader = Root();
    Describe(reader, out);
    return reader.Finish();
  }
  ConfigReader Root() const;

 private:
  explicit ConfigFile(std::unique_ptr<internal::ConfigNode> root);
  std::unique_ptr<internal::ConfigNode> root_;
};

/// The resolved configuration, documented, as YAML that Parse reads back to the same values.
template <class Struct>
std::string ToYaml(Struct value) {
  ConfigWriter writer;
  Describe(writer, value);
  return writer.Text();
}

}  // namespace hone
