#pragma once

// Strict YAML: an unknown key, a duplicate key, a wrong type or a value out of range is an error that names file, line,
// key, value and the allowed range, and suggests the nearest key.
//
// A section of the configuration is a plain struct and one function that names its fields; the same function reads a
// file, applies `--set a.b=c`, prints the resolved configuration and lists the keys for --help:
//
//   struct SftConfig { int steps = 600; double learning_rate = 2e-3; };
//   template <class Fields> void Describe(Fields& f, SftConfig& c) {
//     f.Value("steps", c.steps, Range(1, 1'000'000), "optimiser steps");
//     f.Value("learning_rate", c.learning_rate, Range(0.0, 1.0), "peak of the cosine schedule");
//   }
//
//   HONE_ASSIGN_OR_RETURN(ConfigFile file, ConfigFile::Load("train.yaml", {"sft.steps=10"}));
//   HONE_RETURN_IF_ERROR(file.Read(config));                 // every key must be known to Describe
//   HONE_RETURN_IF_ERROR(WriteFileAtomically(path, ToYaml(config)));

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace YAML {
class Node;
}

namespace hone {

/// Inclusive bounds of a number.
template <class T>
struct Bounds {
  T low;
  T high;
};
template <class T>
Bounds<T> Range(T low, T high) {
  return {low, high};
}

/// The words a string may be.
struct OneOf {
  std::vector<std::string> words;
};

/// Fills structs from YAML. Collects the first error; reading stops there.
class ConfigReader {
 public:
  ConfigReader(const YAML::Node& node, std::string file, std::string path);
  ~ConfigReader();
  ConfigReader(ConfigReader&&) noexcept;

  void Value(const char* key, bool& out, const char* doc);
  void Value(const char* key, int& out, Bounds<int> bounds, const char* doc);
  void Value(const char* key, int64_t& out, Bounds<int64_t> bounds, const char* doc);
  void Value(const char* key, double& out, Bounds<double> bounds, const char* doc);  // NaN never passes
  void Value(const char* key, std::string& out, const char* doc);
  void Value(const char* key, std::string& out, const OneOf& allowed, const char* doc);
  void Value(const char* key, std::vector<std::string>& out, const char* doc);
  void Value(const char* key, std::vector<int64_t>& out, Bounds<int64_t> bounds, const char* doc);
  void Value(const char* key, std::vector<double>& out, Bounds<double> bounds, const char* doc);
  void Value(const char* key, std::map<std::string, int64_t>& out, Bounds<int64_t> bounds, const char* doc);

  /// A nested struct with its own Describe.
  template <class Struct>
  void Section(const char* key, Struct& out, const char* doc) {
    std::vector<ConfigReader> nested = Enter(key);
    for (ConfigReader& reader : nested) {
      Describe(reader, out);
      Leave(reader);
    }
  }

  /// A list of structs, each with its own Describe; replaces `out` when the key is present.
  template <class Struct>
  void List(const char* key, std::vector<Struct>& out, const char* doc) {
    bool present = false;
    std::vector<ConfigReader> nested = EnterList(key, present);
    if (!present) return;
    out.clear();
    for (ConfigReader& reader : nested) {
      Describe(reader, out.emplace_back());
      Leave(reader);
    }
  }

  /// A value whose keys the caller decides at run time (a reward term's own parameters): `read` sees the raw node's
  /// reader and must name every key it takes.
  bool Has(const char* key) const;

  /// An error found by the caller at `key`; kept if it is the first. The message gets file, line and path.
  void Fail(const char* key, const std::string& message);

  /// The first error, or one about a key that no Value, Section or List named.
  absl::Status Finish();

 private:
  std::vector<ConfigReader> Enter(const char* key);
  std::vector<ConfigReader> EnterList(const char* key, bool& present);
  void Leave(ConfigReader& nested);

  struct State;
  std::unique_ptr<State> state_;
};

/// Writes structs as YAML with the documentation as comments, through the same Describe.
class ConfigWriter {
 public:
  void Value(const char* key, const bool& value, const char* doc);
  void Value(const char* key, const int& value, Bounds<int> bounds, const char* doc);
  void Value(const char* key, const int64_t& value, Bounds<int64_t> bounds, const char* doc);
  void Value(const char* key, const double& value, Bounds<double> bounds, const char* doc);
  void Value(const char* key, const std::string& value, const char* doc);
  void Value(const char* key, const std::string& value, const OneOf& allowed, const char* doc);
  void Value(const char* key, const std::vector<std::string>& value, const char* doc);
  void Value(const char* key, const std::vector<int64_t>& value, Bounds<int64_t> bounds, const char* doc);
  void Value(const char* key, const std::vector<double>& value, Bounds<double> bounds, const char* doc);
  void Value(const char* key, const std::map<std::string, int64_t>& value, Bounds<int64_t> bounds, const char* doc);
  template <class Struct>
  void Section(const char* key, Struct& value, const char* doc) {
    Open(key, doc);
    Describe(*this, value);
    Close();
  }
  template <class Struct>
  void List(const char* key, std::vector<Struct>& value, const char* doc) {
    OpenList(key, doc, value.empty());
    for (Struct& item : value) {
      OpenItem();
      Describe(*this, item);
      CloseItem();
    }
    CloseList();
  }
  bool Has(const char*) const { return true; }
  void Fail(const char*, const std::string&) {}
  std::string Text() const { return text_; }

 private:
  void Open(const char* key, const char* doc);
  void Close();
  void OpenList(const char* key, const char* doc, bool empty);
  void CloseList();
  void OpenItem();
  void CloseItem();
  void Line(const char* key, const std::string& value, const char* doc);

  std::string text_;
  int depth_ = 0;
  bool item_start_ = false;
};

/// One YAML document with the overrides applied.
class ConfigFile {
 public:
  /// kInvalidArgument: not YAML, duplicate key, or an override that is not `a.b=c`. kNotFound: no such file.
  static absl::StatusOr<ConfigFile> Load(const std::string& path, const std::vector<std::string>& overrides = {});
  /// `name` stands in for the file in messages.
  static absl::StatusOr<ConfigFile> Parse(const std::string& text, const std::string& name,
                                          const std::vector<std::string>& overrides = {});
  ~ConfigFile();
  ConfigFile(ConfigFile&&) noexcept;
  ConfigFile& operator=(ConfigFile&&) noexcept;

  /// The whole document into one struct.
  template <class Struct>
  absl::Status Read(Struct& out) const {
    ConfigReader reader = Root();
    Describe(reader, out);
    return reader.Finish();
  }
  ConfigReader Root() const;

 private:
  ConfigFile();
  struct State;
  std::unique_ptr<State> state_;
};

/// The resolved configuration, documented, as YAML that Load reads back to the same values.
template <class Struct>
std::string ToYaml(Struct value) {
  ConfigWriter writer;
  Describe(writer, value);
  return writer.Text();
}

}  // namespace hone
