#pragma once

// The parts of a registry as a Markdown table: docs/rewards.md holds these tables, and tests keep them equal.

#include <string>
#include <vector>

#include "rewards/part.h"

namespace hone::rewards {

/// A parameter as a part describes it.
struct Parameter {
  std::string key;
  std::string value;  // the default
  std::string range;  // "[0, 1]", "a, b, c"
  std::string doc;
};
std::vector<Parameter> ParametersOf(Part& part);

/// One row: name, summary, parameters, source.
std::string PartRow(absl::string_view name, absl::string_view summary, absl::string_view source, Part& part);
inline constexpr char kPartTableHead[] = "| Name | What | Parameters: default, range | Source |\n|---|---|---|---|\n";

template <class Base>
std::string PartTable() {
  std::string table = kPartTableHead;
  for (const Registration<Base>& entry : Base::Registry()) {
    Polymorphic<Base> part = entry.make();
    table += PartRow(entry.name, entry.summary, entry.source, *part.operator->());
  }
  return table;
}

}  // namespace hone::rewards
