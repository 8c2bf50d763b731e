#include "verifier/rules/object_rules.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hone::verifier {
namespace {

bool IsOneOf(absl::string_view text, std::initializer_list<absl::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// float and double names of the C library's mathematics.
const std::set<std::string>& Mathematics() {
  static const std::set<std::string>* const names = [] {
    auto* all = new std::set<std::string>;
    for (const char* name :
         {"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "erf", "erfc",
          "exp", "exp10", "exp2", "expm1", "fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "frexp", "hypot", "ilogb",
          "j0", "j1", "ldexp", "lgamma", "llrint", "llround", "log", "log10", "log1p", "log2", "logb", "lrint", "lround",
          "modf", "nearbyint", "nextafter", "pow", "remainder", "rint", "round", "roundeven", "scalbn", "sin", "sincos",
          "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc", "y0", "y1"}) {
      all->insert(name);
      all->insert(absl::StrCat(name, "f"));
    }
    return all;
  }();
  return *names;
}

bool Allowed(const std::string& symbol) {
  if (Mathematics().count(symbol) > 0) return true;
  for (absl::string_view runtime : {"cuda", "musa", "hone_rt_"}) {  // a runtime defines them, or it does not load
    if (absl::StartsWith(symbol, runtime)) return true;
  }
  return IsOneOf(symbol, {"hone_workspace", "memcpy", "memmove", "memset", "memcmp", "strlen", "strcmp", "malloc", "calloc",
                          "free", "abs", "labs", "llabs", "_GLOBAL_OFFSET_TABLE_",
                          // GCC's helpers for 128-bit and half-precision arithmetic
                          "__divti3", "__modti3", "__udivti3", "__umodti3", "__extendhfsf2", "__truncsfhf2", "__truncdfhf2",
                          // operator new and delete
                          "_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm"});
}

/// What the own code of nvcc and mcc, and the C++ library under a candidate's host code ask for.
bool AllowedOfGpuCode(const std::string& symbol) {
  for (absl::string_view prefix : {"__cuda", "__musa", "_ZSt", "_ZNSt", "_ZNKSt", "_ZTVSt", "_ZTVN10__cxxabiv1", "__cxa_"}) {
    if (absl::StartsWith(symbol, prefix)) return true;
  }
  return IsOneOf(symbol, {"atexit", "__dso_handle", "__gxx_personality_v0", "_Unwind_Resume", "__stack_chk_fail", "printf",
                          "fprintf", "puts", "putchar", "fputs", "fputc", "fwrite", "fflush", "stderr", "stdout", "exit",
                          "abort", "__assert_fail", "_ZTIi", "_ZdlPvm", "__isnan", "__isinf", "__isnanf", "__isinff",
                          "__finite", "__finitef", "__signbit", "__signbitf"});
}

}  // namespace

std::vector<RuleHit> CheckGpuObject(const ElfSummary& object, const RulePolicy& policy) {
  RuleHits hits(policy);
  for (const std::string& symbol : object.undefined) {
    if (!Allowed(symbol) && !AllowedOfGpuCode(symbol)) hits.Add("foreign_symbol", symbol);
  }
  return hits.Take();
}

std::vector<RuleHit> CheckObject(const ElfSummary& object, const RulePolicy& policy) {
  RuleHits hits(policy);
  for (const std::string& symbol : object.undefined) {
    if (!Allowed(symbol)) hits.Add("foreign_symbol", symbol);
  }
  for (const std::string& section : object.initialisers) hits.Add("initialiser", section);
  for (const std::string& symbol : object.exported) {
    if (symbol != "hone_call") hits.Add("exported_symbol", symbol);
  }
  return hits.Take();
}

}  // namespace hone::verifier
