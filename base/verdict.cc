#include "base/verdict.h"

#include "base/names.h"

namespace hone {
namespace {

constexpr NameTable<VerdictStatus, 11> kNames = {{
    {VerdictStatus::kOk, "OK"},
    {VerdictStatus::kParse, "PARSE"},
    {VerdictStatus::kForbidden, "FORBIDDEN"},
    {VerdictStatus::kCompile, "COMPILE"},
    {VerdictStatus::kCompileTimeout, "COMPILE_TIMEOUT"},
    {VerdictStatus::kRuntime, "RUNTIME"},
    {VerdictStatus::kTimeout, "TIMEOUT"},
    {VerdictStatus::kOom, "OOM"},
    {VerdictStatus::kIncorrect, "INCORRECT"},
    {VerdictStatus::kCheat, "CHEAT"},
    {VerdictStatus::kInfra, "INFRA"},
}};

}  // namespace

absl::string_view MooreClass(VerdictStatus status) {
  switch (status) {
    case VerdictStatus::kOk:
      return "ok";
    case VerdictStatus::kParse:
    case VerdictStatus::kCompile:
    case VerdictStatus::kCompileTimeout:
      return "compile";
    case VerdictStatus::kRuntime:
    case VerdictStatus::kTimeout:
    case VerdictStatus::kOom:
      return "runtime";
    case VerdictStatus::kIncorrect:
      return "correctness";
    case VerdictStatus::kForbidden:
    case VerdictStatus::kCheat:
      return "cheating";
    case VerdictStatus::kInfra:
      return "infra";
  }
  HONE_CHECK(!"unknown verdict status");
}

absl::string_view Name(VerdictStatus status) { return NameIn(kNames, status); }
std::optional<VerdictStatus> ParseVerdictStatus(absl::string_view name) { return ParseIn(kNames, name); }

}  // namespace hone
