#pragma once

// JSON of others, read field by field without exceptions (nlohmann's get, at and value throw where a type is not the awaited one).
// Errors are a sentence about the field; the caller puts file and line before it.

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace hone {

/// kInvalidArgument: the text is cut, or no JSON object.
inline absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text) {
  nlohmann::json json = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("not JSON, or cut");
  if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat("not a JSON object but of type ", json.type_name()));
  return json;
}

namespace internal {

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

/// What a field of type T holds, in words.
template <typename T>
std::string Wanted() {
  if constexpr (std::is_same_v<T, std::string>) return "a text";
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, double>) return "a number";
  if constexpr (std::is_integral_v<T>) return "a whole number";
  if constexpr (IsVector<T>::value) return "a list, each item " + Wanted<typename T::value_type>();
}

template <typename T>
bool Holds(const nlohmann::json& json) {
  if constexpr (std::is_same_v<T, std::string>) {
    return json.is_string();
  } else if constexpr (std::is_same_v<T, bool>) {
    return json.is_boolean();
  } else if constexpr (std::is_same_v<T, double>) {
    return json.is_number();
  } else if constexpr (std::is_integral_v<T>) {
    if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{std::numeric_limits<T>::max()}) return false;
    return json.is_number_integer() && json.get<int64_t>() >= std::numeric_limits<T>::min();
  } else {
    static_assert(IsVector<T>::value, "no such field");
    if (!json.is_array()) return false;
    for (const nlohmann::json& item : json) {
      if (!Holds<typename T::value_type>(item)) return false;
    }
    return true;
  }
}

}  // namespace internal

/// Reads `object[key]` if it is there and not null. T: std::string, bool, a signed whole number, double, or vectors of such.
/// kInvalidArgument names the key and what it must hold; `value` is then as it was.
template <typename T>
absl::Status ReadOptionalField(const nlohmann::json& object, const char* key, T& value) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return absl::OkStatus();
  if (!internal::Holds<T>(*found)) {
    const std::string given = found->is_primitive() ? found->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                                                    : absl::StrCat("of type ", found->type_name());
    return absl::InvalidArgumentError(
        absl::StrCat("\"", key, "\" must be ", internal::Wanted<T>(), ", but is ", given.substr(0, 60)));
  }
  value = found->get<T>();
  return absl::OkStatus();
}

/// As ReadOptionalField, but a key that is missing or null is an error too.
template <typename T>
absl::Status ReadField(const nlohmann::json& object, const char* key, T& value) {
  if (const auto found = object.find(key); found == object.end() || found->is_null()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is missing"));
  }
  return ReadOptionalField(object, key, value);
}

/// The text in `object[key]`; `fallback` where there is none, or something else.
template <typename Json>
std::string TextOr(const Json& object, const char* key, const std::string& fallback = "") {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->template get<std::string>() : fallback;
}

}  // namespace hone
