#include "rewards/part_table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace hone::rewards {
namespace {

class Lister final : public Fields {
 public:
  void Value(const char* key, bool& value, const char* doc) override {
    parameters.push_back({key, value ? "true" : "false", "true, false", doc});
  }
  void Value(const char* key, int64_t& value, Bounds<int64_t> bounds, const char* doc) override {
    parameters.push_back({key, absl::StrCat(value), absl::StrCat("[", bounds.low, ", ", bounds.high, "]"), doc});
  }
  void Value(const char* key, double& value, Bounds<double> bounds, const char* doc) override {
    parameters.push_back({key, absl::StrCat(value), absl::StrCat("[", bounds.low, ", ", bounds.high, "]"), doc});
  }
  void Value(const char* key, std::string& value, const OneOf& allowed, const char* doc) override {
    parameters.push_back({key, value, absl::StrJoin(allowed.words, ", "), doc});
  }
  void Value(const char* key, std::vector<double>& value, Bounds<double> bounds, const char* doc) override {
    parameters.push_back({key, absl::StrCat("[", absl::StrJoin(value, ", "), "]"),
                          absl::StrCat("each in [", bounds.low, ", ", bounds.high, "]"), doc});
  }
  std::vector<Parameter> parameters;
};

/// Text inside a cell.
std::string Cell(absl::string_view text) { return absl::StrReplaceAll(text, {{"|", "\\|"}}); }

}  // namespace

std::vector<Parameter> ParametersOf(Part& part) {
  Lister lister;
  part.Describe(lister);
  return lister.parameters;
}

std::string PartRow(absl::string_view name, absl::string_view summary, absl::string_view source, Part& part) {
  std::vector<std::string> parameters;
  for (const Parameter& p : ParametersOf(part)) {
    parameters.push_back(absl::StrCat("`", p.key, "` ", p.value, " (", p.range, "): ", Cell(p.doc)));
  }
  const std::string list = parameters.empty() ? "–" : absl::StrJoin(parameters, "<br>");
  return absl::StrCat("| `", name, "` | ", Cell(summary), " | ", list, " | ", Cell(source), " |\n");
}

}  // namespace hone::rewards
