#include "policy/chat/functions.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "policy/chat/syntax.h"
#include "policy/tokenizer/unicode.h"

namespace hone::policy::chat {
namespace {

constexpr const char* kFilters[] = {"tojson", "trim",  "length", "count",  "default",    "d",      "string", "int",
                                    "float",  "upper", "lower",  "title",  "capitalize", "join",   "replace", "first",
                                    "last",   "list",  "reverse", "items", "dictsort",   "safe",   "selectattr", "rejectattr",
                                    "select", "reject", "map",   "indent", "abs",        "unique", "sort"};
constexpr const char* kTests[] = {"defined", "undefined", "none",     "string", "number", "integer", "float", "boolean",
                                  "true",    "false",     "mapping",  "iterable", "sequence", "equalto", "eq", "ne",
                                  "in",      "odd",       "even",     "divisibleby", "gt", "ge", "lt", "le"};

constexpr uint64_t kTextLimitBytes = 64 << 20;  // that one filter may make of a shorter text

template <size_t n>
bool Known(const char* const (&names)[n], absl::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::Status NeedsText(absl::string_view what, const Value& value) {
  return Wrong(absl::StrCat(what, " needs a string, not ", value.TypeName()));
}

/// Removes characters of `set` (white space when empty) from the ends.
std::string Strip(absl::string_view text, absl::string_view set, bool left, bool right) {
  const auto strips = [&](absl::string_view character) {
    if (!set.empty()) return absl::StrContains(set, character);
    size_t at = 0;
    const char32_t c = NextChar(character, at);
    return IsWhiteSpace(c) || (c >= 0x1C && c <= 0x1F);  // Python's own idea of white space
  };
  while (left && !text.empty()) {
    size_t end = 0;
    NextChar(text, end);
    if (!strips(text.substr(0, end))) break;
    text.remove_prefix(end);
  }
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!strips(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return std::string(text);
}

List SplitOnSpace(absl::string_view text, int64_t limit) {
  List parts;
  std::string rest = Strip(text, "", true, false);
  while (!rest.empty()) {
    const size_t end = limit == 0 ? std::string::npos : rest.find_first_of(" \t\n\r\f\v");
    parts.push_back(limit == 0 ? Strip(rest, "", false, true) : rest.substr(0, end));
    rest = end == std::string::npos ? "" : Strip(absl::string_view(rest).substr(end), "", true, false);
    --limit;
  }
  return parts;
}

List SplitOn(absl::string_view text, absl::string_view separator, int64_t limit, bool from_right) {
  List parts;
  while (limit != 0) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == absl::string_view::npos) break;
    parts.emplace_back(std::string(from_right ? text.substr(at + separator.size()) : text.substr(0, at)));
    text = from_right ? text.substr(0, at) : text.substr(at + separator.size());
    --limit;
  }
  parts.emplace_back(std::string(text));
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::string Title(std::string text, bool every_word) {
  bool starts = true;
  for (char& c : text) {
    c = starts ? absl::ascii_toupper(c) : absl::ascii_tolower(c);
    starts = every_word && !absl::ascii_isalpha(c) && static_cast<uint8_t>(c) < 0x80;
  }
  return text;
}

absl::Status CheckSize(uint64_t pieces, uint64_t bytes_each) {
  if (bytes_each == 0 || pieces <= kTextLimitBytes / bytes_each) return absl::OkStatus();
  return absl::ResourceExhaustedError("a text becomes too long");
}

absl::StatusOr<Value> ReplaceTimes(std::string text, const std::string& from, const std::string& to, int64_t times) {
  if (from.empty()) return Value(text);
  HONE_RETURN_IF_ERROR(CheckSize(text.size() / from.size(), to.size()));
  for (size_t at = text.find(from); at != std::string::npos && times != 0; at = text.find(from, at + to.size()), --times) {
    text.replace(at, from.size(), to);
  }
  return Value(text);
}

int64_t IntegerOr(const Value* value, int64_t otherwise) {
  return value != nullptr && value->As<int64_t>() ? *value->As<int64_t>() : otherwise;
}

std::string TextOr(const Value* value, absl::string_view otherwise) {
  return value != nullptr && value->Text() ? *value->Text() : std::string(otherwise);
}

std::string Indent(const std::string& text, int64_t width, bool first) {
  const std::string blanks(static_cast<size_t>(std::clamp<int64_t>(width, 0, 1000)), ' ');
  std::string out;
  size_t at = 0;
  for (bool is_first = true; at <= text.size(); is_first = false) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const bool indents = (first || !is_first) && end > at;  // empty lines stay empty
    absl::StrAppend(&out, is_first ? "" : "\n", indents ? blanks : "", text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

absl::StatusOr<Value> ToInteger(const Value& input) {
  int64_t parsed = 0;
  if (input.Text()) return Value(absl::SimpleAtoi(*input.Text(), &parsed) ? parsed : int64_t{0});
  if (const int64_t* integer = input.As<int64_t>()) return Value(*integer);
  const double number = std::trunc(input.Number());
  return Value(std::abs(number) < 9e18 ? static_cast<int64_t>(number) : int64_t{0});
}

absl::StatusOr<Value> Length(const Value& input) {
  if (input.Text()) return Value(CountChars(*input.Text()));
  if (const List* items = input.Items()) return Value(static_cast<int64_t>(items->size()));
  if (const Dict* entries = input.Entries()) return Value(static_cast<int64_t>(entries->size()));
  if (input.IsUndefined()) return Value(int64_t{0});
  return Wrong(absl::StrCat("length of a ", input.TypeName()));
}

absl::StatusOr<Value> Join(const Value& input, const CallArguments& arguments) {
  HONE_ASSIGN_OR_RETURN(const List items, Iterate(input));
  const Value* attribute = arguments.Get(1, "attribute");
  const std::string separator = TextOr(arguments.Get(0, "d"), "");
  size_t longest = separator.size();
  for (const Value& item : items) longest = std::max(longest, item.Text() ? item.Text()->size() : 0);
  HONE_RETURN_IF_ERROR(CheckSize(items.size(), longest));
  return Value(absl::StrJoin(items, separator, [&](std::string* out, const Value& item) {
    absl::StrAppend(out, Str(attribute == nullptr ? item : GetItem(item, *attribute)));
  }));
}

/// a.b of selectattr and map.
Value GetPath(Value object, const std::string& path) {
  for (const Value& part : SplitOn(path, ".", -1, false)) object = GetItem(object, part);
  return object;
}

/// select, reject, selectattr, rejectattr.
absl::StatusOr<Value> Select(const std::string& name, const Value& input, const CallArguments& arguments) {
  const bool by_attribute = absl::EndsWith(name, "attr");
  const bool wanted = absl::StartsWith(name, "select");
  const size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute && (arguments.positional.empty() || !arguments.positional[0].Text())) return Wrong(name + " needs an attribute");
  HONE_ASSIGN_OR_RETURN(const List items, Iterate(input));
  List selected;
  for (const Value& item : items) {
    const Value subject = by_attribute ? GetPath(item, *arguments.positional[0].Text()) : item;
    bool passes = subject.Truthy();
    if (arguments.positional.size() > test_at) {
      const std::string test = Str(arguments.positional[test_at]);
      if (!IsTest(test)) return Wrong(absl::StrCat("test '", test, "' is not supported"));
      const CallArguments rest{List(arguments.positional.begin() + static_cast<std::ptrdiff_t>(test_at) + 1,
                                    arguments.positional.end()),
                               {}};
      HONE_ASSIGN_OR_RETURN(passes, ApplyTest(test, subject, rest));
    }
    if (passes == wanted) selected.push_back(item);
  }
  return MakeList(std::move(selected));
}

absl::StatusOr<Value> Map(const Value& input, const CallArguments& arguments) {
  HONE_ASSIGN_OR_RETURN(List items, Iterate(input));
  const Value* attribute = Lookup(arguments.named, "attribute");
  const Value* otherwise = Lookup(arguments.named, "default");
  for (Value& item : items) {
    if (attribute != nullptr) {
      item = GetPath(item, Str(*attribute));
      if (item.IsUndefined() && otherwise != nullptr) item = *otherwise;
      continue;
    }
    const std::string filter = arguments.positional.empty() ? "" : Str(arguments.positional[0]);
    if (!IsFilter(filter)) return Wrong(absl::StrCat("filter '", filter, "' is not supported"));
    const CallArguments rest{List(arguments.positional.begin() + 1, arguments.positional.end()), arguments.named};
    HONE_ASSIGN_OR_RETURN(item, ApplyFilter(filter, item, rest));
  }
  return MakeList(std::move(items));
}

bool Less(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) return a.Number() < b.Number();
  return Str(a) < Str(b);
}

absl::StatusOr<Value> TextFilter(const std::string& name, const Value& input, const CallArguments& arguments) {
  const std::string text = Str(input);
  if (name == "trim") return Value(Strip(text, TextOr(arguments.Get(0, "chars"), ""), true, true));
  if (name == "upper") return Value(absl::AsciiStrToUpper(text));
  if (name == "lower") return Value(absl::AsciiStrToLower(text));
  if (name == "title") return Value(Title(text, true));
  if (name == "capitalize") return Value(Title(text, false));
  if (name == "indent") {
    const Value* first = arguments.Get(1, "first");
    HONE_RETURN_IF_ERROR(CheckSize(text.size(), 1 + std::max<int64_t>(0, IntegerOr(arguments.Get(0, "width"), 4))));
    return Value(Indent(text, IntegerOr(arguments.Get(0, "width"), 4), first != nullptr && first->Truthy()));
  }
  if (name == "replace") {
    return ReplaceTimes(text, TextOr(arguments.Get(0, "old"), ""), TextOr(arguments.Get(1, "new"), ""),
                        IntegerOr(arguments.Get(2, "count"), -1));
  }
  return Value(text);  // string, safe
}

absl::StatusOr<Value> ListFilter(const std::string& name, const Value& input, const CallArguments& arguments) {
  HONE_ASSIGN_OR_RETURN(List items, Iterate(input));
  if (name == "first") return items.empty() ? Value() : items.front();
  if (name == "last") return items.empty() ? Value() : items.back();
  if (name == "reverse") {
    std::reverse(items.begin(), items.end());
    if (input.Text()) {
      std::string text;
      for (const Value& item : items) text += Str(item);
      return Value(text);
    }
  }
  if (name == "sort") std::stable_sort(items.begin(), items.end(), Less);
  if (name == "unique") {
    List kept;
    for (const Value& item : items) {
      const bool seen = std::any_of(kept.begin(), kept.end(), [&](const Value& old) { return Equal(old, item); });
      if (!seen) kept.push_back(item);
    }
    items = std::move(kept);
  }
  return MakeList(std::move(items));
}

absl::StatusOr<Value> DictItems(const Value& input, bool sorted) {
  if (input.IsUndefined()) return MakeList({});
  const Dict* entries = input.Entries();
  if (entries == nullptr) return Wrong(absl::StrCat("items of a ", input.TypeName()));
  List items;
  for (const auto& [key, value] : *entries) items.push_back(MakeList({Value(key), value}));
  if (sorted) {
    std::stable_sort(items.begin(), items.end(), [](const Value& a, const Value& b) {
      return absl::AsciiStrToLower(*(*a.Items())[0].Text()) < absl::AsciiStrToLower(*(*b.Items())[0].Text());
    });
  }
  return MakeList(std::move(items));
}

absl::StatusOr<Value> TextMethod(const std::string& name, const std::string& text, const CallArguments& arguments) {
  const std::string first = TextOr(arguments.Get(0, ""), "");
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    return Value(Strip(text, first, name != "rstrip", name != "lstrip"));
  }
  if (name == "split" || name == "rsplit") {
    const Value* separator = arguments.Get(0, "sep");
    const int64_t limit = IntegerOr(arguments.Get(1, "maxsplit"), -1);
    if (separator == nullptr || separator->IsNone()) return MakeList(SplitOnSpace(text, limit));
    if (!separator->Text() || separator->Text()->empty()) return Wrong("split needs a separator");
    return MakeList(SplitOn(text, *separator->Text(), limit, name == "rsplit"));
  }
  if (name == "startswith" || name == "endswith") {
    List options = {Value(first)};
    if (!arguments.positional.empty() && arguments.positional[0].Items()) options = *arguments.positional[0].Items();
    return Value(std::any_of(options.begin(), options.end(), [&](const Value& option) {
      return name == "startswith" ? absl::StartsWith(text, Str(option)) : absl::EndsWith(text, Str(option));
    }));
  }
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize") return TextFilter(name, text, arguments);
  if (name == "replace") {
    return ReplaceTimes(text, first, TextOr(arguments.Get(1, ""), ""), IntegerOr(arguments.Get(2, "count"), -1));
  }
  if (name == "find") {
    const size_t at = text.find(first);
    return Value(at == std::string::npos ? int64_t{-1} : CountChars(absl::string_view(text).substr(0, at)));
  }
  if (name == "count") {
    int64_t count = 0;
    for (size_t at = text.find(first); !first.empty() && at != std::string::npos; at = text.find(first, at + first.size())) ++count;
    return Value(count);
  }
  if (name == "join") return arguments.positional.empty() ? Wrong("join needs a list") : Join(arguments.positional[0], CallArguments{List{Value(text)}, {}});
  if (name == "isdigit") return Value(!text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit));
  return absl::NotFoundError(name);
}

absl::StatusOr<Value> DictMethod(const std::string& name, const Value& object, const CallArguments& arguments) {
  if (name == "items") return DictItems(object, false);
  if (name == "get") {
    const Value* key = arguments.Get(0, "key");
    const Value* found = key == nullptr ? nullptr : Lookup(*object.Entries(), Str(*key));
    if (found != nullptr) return *found;
    const Value* otherwise = arguments.Get(1, "default");
    return otherwise == nullptr ? Value(None{}) : *otherwise;
  }
  if (name != "keys" && name != "values") return absl::NotFoundError(name);
  List items;
  for (const auto& [key, value] : *object.Entries()) items.push_back(name == "keys" ? Value(key) : value);
  return MakeList(std::move(items));
}

}  // namespace

bool IsFilter(absl::string_view name) { return Known(kFilters, name); }
bool IsTest(absl::string_view name) { return Known(kTests, name); }

const Value* CallArguments::Get(size_t position, absl::string_view name) const {
  return position < positional.size() ? &positional[position] : Lookup(named, name);
}

int64_t CountChars(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

absl::StatusOr<Value> ApplyFilter(const std::string& name, const Value& input, const CallArguments& arguments) {
  if (name == "default" || name == "d") {
    const Value* boolean = arguments.Get(1, "boolean");
    const bool replaced = input.IsUndefined() || (boolean != nullptr && boolean->Truthy() && !input.Truthy());
    const Value* otherwise = arguments.Get(0, "default_value");
    return !replaced ? input : otherwise == nullptr ? Value("") : *otherwise;
  }
  if (name == "tojson") {
    if (input.IsUndefined()) return Wrong("tojson of an undefined value");
    return Value(ToJson(input, static_cast<int>(std::min<int64_t>(IntegerOr(arguments.Get(99, "indent"), -1), 16))));
  }
  if (name == "length" || name == "count") return Length(input);
  if (name == "int") return ToInteger(input);
  if (name == "float") return Value(input.Text() ? std::strtod(input.Text()->c_str(), nullptr) : input.Number());
  if (name == "abs") {
    return input.As<int64_t>() ? Value(std::abs(*input.As<int64_t>())) : Value(std::abs(input.Number()));
  }
  if (name == "join") return Join(input, arguments);
  if (name == "map") return Map(input, arguments);
  if (absl::StartsWith(name, "select") || absl::StartsWith(name, "reject")) return Select(name, input, arguments);
  if (name == "items" || name == "dictsort") return DictItems(input, name == "dictsort");
  for (const char* of_list : {"first", "last", "list", "reverse", "sort", "unique"}) {
    if (name == of_list) return ListFilter(name, input, arguments);
  }
  return TextFilter(name, input, arguments);
}

absl::StatusOr<bool> ApplyTest(const std::string& name, const Value& input, const CallArguments& arguments) {
  const Value other = arguments.positional.empty() ? Value() : arguments.positional[0];
  const int64_t* integer = input.As<int64_t>();
  if (name == "defined") return !input.IsUndefined();
  if (name == "undefined") return input.IsUndefined();
  if (name == "none") return input.IsNone();
  if (name == "string") return input.Text() != nullptr;
  if (name == "number") return input.IsNumber();
  if (name == "integer") return integer != nullptr;
  if (name == "float") return input.As<double>() != nullptr;
  if (name == "boolean") return input.As<bool>() != nullptr;
  if (name == "true") return input.As<bool>() && *input.As<bool>();
  if (name == "false") return input.As<bool>() && !*input.As<bool>();
  if (name == "mapping") return input.Entries() != nullptr;
  if (name == "iterable") return input.Text() || input.Items() || input.Entries() || input.IsUndefined();
  if (name == "sequence") return input.Text() || input.Items() || input.Entries() || input.IsUndefined();
  if (name == "eq" || name == "equalto") return Equal(input, other);
  if (name == "ne") return !Equal(input, other);
  if (name == "in") return Contains(other, input);
  if (name == "gt") return Less(other, input);
  if (name == "le") return !Less(other, input);
  if (name == "lt") return Less(input, other);
  if (name == "ge") return !Less(input, other);
  const int64_t divisor = name == "divisibleby" ? IntegerOr(&other, 0) : 2;
  if (integer == nullptr || divisor == 0) return Wrong(absl::StrCat("test '", name, "' needs integers"));
  const int64_t rest = divisor == -1 ? 0 : *integer % divisor;
  return name == "odd" ? rest != 0 : rest == 0;
}

absl::StatusOr<Value> CallMethod(const std::string& name, const Value& object, const CallArguments& arguments) {
  if (object.Text()) return TextMethod(name, *object.Text(), arguments);
  if (object.Entries()) return DictMethod(name, object, arguments);
  return absl::NotFoundError(name);
}

Value GetItem(const Value& object, const Value& key) {
  if (const Dict* entries = object.Entries()) {
    const Value* found = key.Text() ? Lookup(*entries, *key.Text()) : nullptr;
    return found == nullptr ? Value(Undefined{Str(key)}) : *found;
  }
  const int64_t* index = key.As<int64_t>();
  if (index == nullptr || (!object.Items() && !object.Text())) return Value(Undefined{Str(key)});
  if (const List* items = object.Items()) {
    const int64_t size = static_cast<int64_t>(items->size());
    const int64_t at = *index < 0 ? *index + size : *index;
    return at < 0 || at >= size ? Value(Undefined{Str(key)}) : (*items)[static_cast<size_t>(at)];
  }
  const absl::StatusOr<List> characters = Iterate(object);
  return GetItem(MakeList(*characters), key);
}

absl::StatusOr<bool> Contains(const Value& container, const Value& item) {
  if (container.Text()) {
    if (!item.Text()) return NeedsText("'in' of a string", item);
    return absl::StrContains(*container.Text(), *item.Text());
  }
  if (const Dict* entries = container.Entries()) return item.Text() && Lookup(*entries, *item.Text()) != nullptr;
  HONE_ASSIGN_OR_RETURN(const List items, Iterate(container));
  return std::any_of(items.begin(), items.end(), [&](const Value& other) { return Equal(other, item); });
}

absl::StatusOr<List> Iterate(const Value& value) {
  if (const List* items = value.Items()) return *items;
  List out;
  if (const Dict* entries = value.Entries()) {
    for (const auto& [key, unused] : *entries) out.emplace_back(key);
    return out;
  }
  if (const std::string* text = value.Text()) {
    for (size_t at = 0; at < text->size();) {
      const size_t begin = at;
      NextChar(*text, at);
      out.emplace_back(text->substr(begin, at - begin));
    }
    return out;
  }
  if (value.IsUndefined()) return out;
  return Wrong(absl::StrCat("a ", value.TypeName(), " cannot be iterated"));
}

}  // namespace hone::policy::chat
