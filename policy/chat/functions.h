#pragma once

// Filters, tests and methods of strings, lists and dicts, as Jinja and Python define them. Used by the evaluator only.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/chat/value.h"

namespace hone::policy::chat {

struct CallArguments {
  std::vector<Value> positional;
  Dict named;

  /// The argument at `position` or called `name`; nullptr: not given.
  const Value* Get(size_t position, absl::string_view name) const;
};

absl::StatusOr<Value> ApplyFilter(const std::string& name, const Value& input, const CallArguments& arguments);
absl::StatusOr<bool> ApplyTest(const std::string& name, const Value& input, const CallArguments& arguments);
/// text.strip(), dict.items() ..; kNotFound: the type has no such method.
absl::StatusOr<Value> CallMethod(const std::string& name, const Value& object, const CallArguments& arguments);

/// object.name or object[key] without methods; undefined where there is none.
Value GetItem(const Value& object, const Value& key);
/// item in container.
absl::StatusOr<bool> Contains(const Value& container, const Value& item);
/// What a for loop goes through.
absl::StatusOr<List> Iterate(const Value& value);
int64_t CountChars(absl::string_view text);

}  // namespace hone::policy::chat
