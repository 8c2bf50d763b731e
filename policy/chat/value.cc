#include "policy/chat/value.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace hone::policy::chat {
namespace {

using Json = nlohmann::ordered_json;

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return Json(value).dump();  // the shortest form that reads back the same, with ".0" for whole numbers
}

std::string Quote(const std::string& text) {
  const bool has_single = text.find('\'') != std::string::npos, has_double = text.find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += c;
    }
  }
  return out + quote;
}

}  // namespace

const List* Value::Items() const {
  const auto* list = As<std::shared_ptr<List>>();
  return list == nullptr ? nullptr : list->get();
}

const Dict* Value::Entries() const {
  const auto* dict = As<std::shared_ptr<Dict>>();
  return dict == nullptr ? nullptr : dict->get();
}

double Value::Number() const {
  if (const bool* flag = As<bool>()) return *flag ? 1 : 0;
  if (const int64_t* integer = As<int64_t>()) return static_cast<double>(*integer);
  return As<double>() ? *As<double>() : 0;
}

bool Value::Truthy() const {
  if (IsUndefined() || IsNone()) return false;
  if (IsNumber()) return Number() != 0;
  if (const std::string* text = Text()) return !text->empty();
  if (const List* items = Items()) return !items->empty();
  if (const Dict* entries = Entries()) return !entries->empty();
  return true;
}

absl::string_view Value::TypeName() const {
  constexpr const char* kNames[] = {"Undefined", "NoneType", "bool", "int", "float", "str", "list", "dict", "macro", "function"};
  return kNames[data.index()];
}

bool Equal(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    if (a.As<int64_t>() && b.As<int64_t>()) return *a.As<int64_t>() == *b.As<int64_t>();
    return a.Number() == b.Number();
  }
  if (a.data.index() != b.data.index()) return false;
  if (a.Text()) return *a.Text() == *b.Text();
  if (const List* items = a.Items()) {
    return items->size() == b.Items()->size() && std::equal(items->begin(), items->end(), b.Items()->begin(), Equal);
  }
  if (const Dict* entries = a.Entries()) {
    if (entries->size() != b.Entries()->size()) return false;
    for (const auto& [key, value] : *entries) {
      const Value* other = Lookup(*b.Entries(), key);
      if (other == nullptr || !Equal(value, *other)) return false;
    }
    return true;
  }
  return a.IsNone() || a.IsUndefined();
}

std::string Str(const Value& value) {
  if (value.IsUndefined()) return "";
  return value.Text() ? *value.Text() : Repr(value);
}

std::string Repr(const Value& value) {
  if (value.IsUndefined()) return "Undefined";
  if (value.IsNone()) return "None";
  if (const bool* flag = value.As<bool>()) return *flag ? "True" : "False";
  if (const int64_t* integer = value.As<int64_t>()) return absl::StrCat(*integer);
  if (const double* number = value.As<double>()) return FloatText(*number);
  if (const std::string* text = value.Text()) return Quote(*text);
  std::string out;
  if (const List* items = value.Items()) {
    for (const Value& item : *items) absl::StrAppend(&out, out.empty() ? "" : ", ", Repr(item));
    return absl::StrCat("[", out, "]");
  }
  if (const Dict* entries = value.Entries()) {
    for (const auto& [key, item] : *entries) absl::StrAppend(&out, out.empty() ? "" : ", ", Quote(key), ": ", Repr(item));
    return absl::StrCat("{", out, "}");
  }
  return "<macro>";
}

std::string ToJson(const Value& value, int indent, int depth) {
  if (value.IsNone() || value.IsUndefined()) return "null";
  if (const bool* flag = value.As<bool>()) return *flag ? "true" : "false";
  if (value.Text()) return Json(*value.Text()).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (value.IsNumber()) return Repr(value);
  const auto line = [&](int levels) { return indent < 0 ? std::string() : "\n" + std::string(indent * levels, ' '); };
  const std::string between = indent < 0 ? ", " : "," + line(depth + 1);
  std::string inside;
  const auto add = [&](const std::string& text) { absl::StrAppend(&inside, inside.empty() ? "" : between, text); };
  const List* items = value.Items();
  if (items != nullptr) {
    for (const Value& item : *items) add(ToJson(item, indent, depth + 1));
  } else if (const Dict* entries = value.Entries()) {
    for (const auto& [key, item] : *entries) add(absl::StrCat(ToJson(Value(key)), ": ", ToJson(item, indent, depth + 1)));
  }
  if (inside.empty()) return items != nullptr ? "[]" : "{}";
  return absl::StrCat(items != nullptr ? "[" : "{", line(depth + 1), inside, line(depth), items != nullptr ? "]" : "}");
}

Value FromJson(const Json& json, int depth) {
  if (depth > kValueDepth) return None{};
  if (json.is_null()) return None{};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    List items;
    for (const Json& item : json) items.push_back(FromJson(item, depth + 1));
    return MakeList(std::move(items));
  }
  Dict entries;
  for (const auto& [key, item] : json.items()) entries.emplace_back(key, FromJson(item, depth + 1));
  return MakeDict(std::move(entries));
}

int DepthOf(const Value& value, int levels_left) {
  if (levels_left == 0) return 0;
  int deepest = 0;
  if (const List* items = value.Items()) {
    for (const Value& item : *items) deepest = std::max(deepest, DepthOf(item, levels_left - 1));
  } else if (const Dict* entries = value.Entries()) {
    for (const auto& [key, item] : *entries) deepest = std::max(deepest, DepthOf(item, levels_left - 1));
  } else {
    return 0;
  }
  return deepest + 1;
}

bool Holds(const Value& value, const Dict* dict) {
  if (const List* items = value.Items()) {
    return std::any_of(items->begin(), items->end(), [&](const Value& item) { return Holds(item, dict); });
  }
  const Dict* entries = value.Entries();
  if (entries == nullptr) return false;
  return entries == dict || std::any_of(entries->begin(), entries->end(), [&](const auto& e) { return Holds(e.second, dict); });
}

const Value* Lookup(const Dict& dict, absl::string_view key) {
  for (const auto& [name, value] : dict) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Assign(Dict& dict, absl::string_view key, Value value) {
  for (auto& [name, old] : dict) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  dict.emplace_back(std::string(key), std::move(value));
}

Value MakeList(List items) { return std::make_shared<List>(std::move(items)); }
Value MakeDict(Dict entries) { return std::make_shared<Dict>(std::move(entries)); }

}  // namespace hone::policy::chat
