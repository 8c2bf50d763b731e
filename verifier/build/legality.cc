#include "verifier/build/legality.h"

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
  if (absl::StartsWith(symbol, "cuda") || absl::StartsWith(symbol, "hone_rt_")) return true;  // the runtime defines them, or it does not load
  return IsOneOf(symbol, {"hone_workspace", "memcpy", "memmove", "memset", "memcmp", "strlen", "strcmp", "malloc", "calloc",
                          "free", "abs", "labs", "llabs", "_GLOBAL_OFFSET_TABLE_",
                          // GCC's helpers for 128-bit and half-precision arithmetic
                          "__divti3", "__modti3", "__udivti3", "__umodti3", "__extendhfsf2", "__truncsfhf2", "__truncdfhf2",
                          // operator new and delete
                          "_Znwm", "_Znam", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm"});
}

/// Whether a token lies in a function that only the device runs.
bool InDeviceCode(const CudaSource& source, size_t token) {
  for (const Definition& definition : source.definitions()) {
    if (definition.kind != Definition::Kind::kFunction || definition.host) continue;
    if ((definition.device || definition.global) && token > definition.body_begin && token < definition.body_end) return true;
  }
  return false;
}

bool IsLibraryHeader(absl::string_view header) {
  for (absl::string_view library : {"cublas", "cudnn", "cufft", "cusparse", "cusolver", "cutensor", "cutlass", "cute/",
                                    "thrust/", "nccl", "npp", "mublas", "mudnn"}) {
    if (absl::StartsWith(header, library)) return true;
  }
  return false;
}

/// What nvcc's own code and the C++ library under a candidate's host code ask for.
bool AllowedOfNvcc(const std::string& symbol) {
  for (absl::string_view prefix : {"__cuda", "_ZSt", "_ZNSt", "_ZNKSt", "_ZTVSt", "_ZTVN10__cxxabiv1", "__cxa_"}) {
    if (absl::StartsWith(symbol, prefix)) return true;
  }
  return IsOneOf(symbol, {"atexit", "__dso_handle", "__gxx_personality_v0", "_Unwind_Resume", "__stack_chk_fail", "printf",
                          "fprintf", "puts", "putchar", "fputs", "fputc", "fwrite", "fflush", "stderr", "stdout", "exit",
                          "abort", "__assert_fail", "_ZTIi", "_ZdlPvm", "__isnan", "__isinf", "__isnanf", "__isinff",
                          "__finite", "__finitef", "__signbit", "__signbitf"});
}

}  // namespace

std::vector<RuleHit> CheckSource(const CudaSource& source, Assembly assembly) {
  std::vector<RuleHit> hits;
  const auto hit = [&](absl::string_view rule, size_t token) {
    for (const RuleHit& known : hits) {
      if (known.rule == rule) return;  // the first of its kind is evidence enough
    }
    hits.push_back({std::string(rule), true,
                    absl::StrCat("line ", source.tokens()[token].line, ": ", std::string(source.Text(token)))});
  };
  for (const Directive& directive : source.directives()) {
    if (directive.name != "include") continue;
    const std::string line = source.text().substr(directive.begin, directive.end - directive.begin);
    const size_t open = line.find_first_of("<\"");
    const absl::string_view header = open == std::string::npos ? "" : absl::string_view(line).substr(open + 1);
    if (!IsLibraryHeader(header)) continue;
    hits.push_back({"library_header", true, absl::StrCat("line ", directive.line, ": ", line)});
    break;
  }
  for (size_t i = 0; i < source.tokens().size(); ++i) {
    if (source.tokens()[i].kind != TokenKind::kIdentifier) continue;
    const absl::string_view name = source.Text(i);
    if (IsOneOf(name, {"asm", "__asm", "__asm__"}) && (assembly == Assembly::kNowhere || !InDeviceCode(source, i))) {
      hit("inline_assembly", i);
    }
    if ((absl::StartsWith(name, "hone_") || absl::StartsWith(name, "Hone") || absl::StartsWith(name, "HONE_")) &&
        name != "hone_workspace" && name != "HONE_EMULATED") {
      hit("reserved_name", i);
    }
    if (IsOneOf(name, {"constructor", "destructor", "ifunc", "weakref", "init_priority", "__constructor__", "__destructor__",
                       "__section__", "__ifunc__", "__alias__", "__weakref__", "__init_priority__"}) ||
        (IsOneOf(name, {"section", "alias"}) && source.Is(i + 1, "("))) {
      hit("attribute", i);
    }
  }
  return hits;
}

std::vector<RuleHit> CheckNvccObject(const ElfSummary& object) {
  std::vector<RuleHit> hits;
  for (const std::string& symbol : object.undefined) {
    if (!Allowed(symbol) && !AllowedOfNvcc(symbol)) hits.push_back({"foreign_symbol", true, symbol});
  }
  return hits;
}

std::vector<RuleHit> CheckObject(const ElfSummary& object) {
  std::vector<RuleHit> hits;
  for (const std::string& symbol : object.undefined) {
    if (!Allowed(symbol)) hits.push_back({"foreign_symbol", true, symbol});
  }
  for (const std::string& section : object.initialisers) hits.push_back({"initialiser", true, section});
  for (const std::string& symbol : object.exported) {
    if (symbol != "hone_call") hits.push_back({"exported_symbol", true, symbol});
  }
  return hits;
}

}  // namespace hone::verifier
