#pragma once

// What a chat template computes with: Python's values, as far as templates use them.

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone::policy::chat {

struct Value;
struct MacroNode;

using List = std::vector<Value>;
using Dict = std::vector<std::pair<std::string, Value>>;  // in the order of insertion, as in Python

struct Undefined {
  std::string name;  // what was not defined, for messages
};
struct None {};
struct Function {
  std::string name;  // one that the evaluator brings: range, namespace ..
};

/// Lists and dicts are shared when copied, as in Python: a namespace changes for all who hold it.
struct Value {
  using Macro = std::shared_ptr<const MacroNode>;
  std::variant<Undefined, None, bool, int64_t, double, std::string, std::shared_ptr<List>, std::shared_ptr<Dict>, Macro, Function>
      data;

  Value() : data(Undefined{}) {}
  template <class T>
  Value(T value) : data(std::move(value)) {}  // NOLINT: conversions are the point
  Value(const char* text) : data(std::string(text)) {}

  template <class T>
  const T* As() const {
    return std::get_if<T>(&data);
  }
  const std::string* Text() const { return As<std::string>(); }
  const List* Items() const;
  const Dict* Entries() const;
  bool IsUndefined() const { return As<Undefined>() != nullptr; }
  bool IsNone() const { return As<None>() != nullptr; }
  bool IsNumber() const { return As<bool>() || As<int64_t>() || As<double>(); }
  /// bool, int or float as float.
  double Number() const;

  bool Truthy() const;
  /// "str", "int", as Python names it, for messages.
  absl::string_view TypeName() const;
};

bool Equal(const Value& a, const Value& b);
/// Python's str() and repr().
std::string Str(const Value& value);
std::string Repr(const Value& value);
/// Python's json.dumps(ensure_ascii=False); `indent` < 0: on one line.
std::string ToJson(const Value& value, int indent = -1, int depth = 0);

/// Deeper than kValueDepth becomes None.
Value FromJson(const nlohmann::ordered_json& json, int depth = 0);

/// Levels of lists and dicts that a value may have; what is built deeper is refused, so that recursion over values ends.
constexpr int kValueDepth = 100;
/// At most kValueDepth + 1 is counted.
int DepthOf(const Value& value, int levels_left = kValueDepth + 1);
/// Whether `dict` itself occurs somewhere in `value`.
bool Holds(const Value& value, const Dict* dict);

/// nullptr: no such key.
const Value* Lookup(const Dict& dict, absl::string_view key);
void Assign(Dict& dict, absl::string_view key, Value value);

Value MakeList(List items);
Value MakeDict(Dict entries);

}  // namespace hone::policy::chat
