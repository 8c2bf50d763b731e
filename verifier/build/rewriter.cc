#include "verifier/build/rewriter.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "verifier/build/cuda_source.h"

namespace hone::verifier {
namespace {

using Names = std::set<std::string, std::less<>>;

bool IsOneOf(absl::string_view text, std::initializer_list<absl::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool StartsWith(absl::string_view text, absl::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }
bool EndsWith(absl::string_view text, absl::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

// Names that make the threads of a block or warp wait for each other.
bool Meets(absl::string_view name) {
  if (StartsWith(name, "__syncthreads") || name == "__syncwarp" || name == "__activemask") return true;
  if (StartsWith(name, "__") && EndsWith(name, "_sync")) return true;  // shuffles, votes, matches, reductions
  return IsOneOf(name, {"this_thread_block", "tiled_partition", "coalesced_threads", "cooperative_groups", "thread_block"});
}

// Names whose effects the iterations of a row must not overlap.
bool OrdersThreads(absl::string_view name) {
  return StartsWith(name, "atomic") || name == "volatile" || name == "__shared__" || name == "asm" || name == "printf";
}

// Names by which a kernel may order its threads' plain accesses: races there are not ours to see.
bool MayOrderMemory(absl::string_view name) {
  return StartsWith(name, "atomic") || StartsWith(name, "__threadfence") || name == "volatile" || name == "asm";
}

// Built-in functions that exist in device code only.
bool IsDeviceBuiltin(absl::string_view name) {
  if (Meets(name) || StartsWith(name, "__threadfence") || StartsWith(name, "__ld") || StartsWith(name, "__st")) return true;
  if (StartsWith(name, "atomic") && name.size() > 6 && name[6] >= 'A' && name[6] <= 'Z') return true;
  return IsOneOf(name, {"__expf", "__exp10f", "__logf", "__log2f", "__log10f", "__powf", "__sinf", "__cosf", "__tanf",
                        "__sincosf", "__tanhf", "__fdividef", "__saturatef", "__fadd_rn", "__fsub_rn", "__fmul_rn",
                        "__fmaf_rn", "__fdiv_rn", "__frcp_rn", "__fsqrt_rn", "__frsqrt_rn", "__popc", "__popcll", "__clz",
                        "__clzll", "__ffs", "__ffsll", "__brev", "__byte_perm", "__mulhi", "__umulhi", "__mul24",
                        "__float_as_int", "__int_as_float", "__float_as_uint", "__uint_as_float", "__float2int_rn",
                        "__float2int_rz", "__int2float_rn", "clock64"});
}

class Rewriter {
 public:
  Rewriter(absl::string_view text, const RewriteOptions& options) : source_(text), options_(options) {}

  Rewritten Run() {
    Classify();
    for (size_t i = 0; i < source_.tokens().size(); ++i) {
      const int directive = source_.tokens()[i].directive;
      if (directive >= 0 && source_.directives()[directive].name != "define") continue;
      if (source_.Is(i, "__global__")) RewriteKernel(i);
      if (source_.Is(i, "__shared__")) RewriteShared(i);
      if (IsTriple(i, '<')) RewriteLaunch(i);
      RewriteGlobalIndex(i);
    }
    for (const Definition& d : source_.definitions()) {
      if (d.kind == Definition::Kind::kFunction && (d.global || d.device) && !orders_memory_) RewriteUpdates(d);
    }
    DropPragmas();
    CheckCalls();
    Apply();
    std::stable_sort(result_.errors.begin(), result_.errors.end(),
                     [](const SourceError& a, const SourceError& b) { return a.line < b.line; });
    return std::move(result_);
  }

 private:
  struct Edit {
    size_t begin, end;
    std::string text;
  };

  void Insert(size_t at, std::string text) { edits_.push_back({at, at, std::move(text)}); }
  void Replace(size_t begin, size_t end, std::string text) { edits_.push_back({begin, end, std::move(text)}); }
  void Error(size_t token, std::string message) {
    result_.errors.push_back({source_.tokens()[token].line, std::move(message)});
  }
  size_t Begin(size_t token) const { return source_.tokens()[token].begin; }
  size_t End(size_t token) const { return source_.tokens()[token].end; }
  size_t Count() const { return source_.tokens().size(); }

  // Three adjacent '<' or '>' from token i on.
  bool IsTriple(size_t i, char c) const {
    const std::string one(1, c);
    return i + 2 < Count() && source_.Is(i, one) && source_.Is(i + 1, one) && source_.Is(i + 2, one) &&
           End(i) == Begin(i + 1) && End(i + 1) == Begin(i + 2);
  }

  // `float t[4]`, `T a[N] = {...}`: an array declared, not indexed.
  bool DeclaresArray(size_t bracket) const {
    if (!source_.Is(bracket, "[") || bracket < 2) return false;
    const auto& tokens = source_.tokens();
    if (tokens[bracket - 1].kind != TokenKind::kIdentifier) return false;
    const absl::string_view before = source_.Text(bracket - 2);
    if (before == ">") return true;
    if (tokens[bracket - 2].kind != TokenKind::kIdentifier) return false;
    return !IsOneOf(before, {"return", "case", "else", "do", "sizeof", "delete", "goto", "throw", "new"});
  }

  bool InSharedDeclaration(size_t token) const {
    while (token > 0 && !IsOneOf(source_.Text(token - 1), {";", "{", "}"})) {
      if (source_.Is(--token, "__shared__")) return true;
    }
    return false;
  }

  // `&v` of a variable: it must live in memory.
  bool TakesAddress(size_t ampersand) const {
    if (!source_.Is(ampersand, "&") || ampersand == 0 || ampersand + 2 >= Count()) return false;
    const auto& tokens = source_.tokens();
    if (tokens[ampersand + 1].kind != TokenKind::kIdentifier) return false;
    if (IsOneOf(source_.Text(ampersand + 2), {"[", "->"})) return false;
    return IsOneOf(source_.Text(ampersand - 1), {"(", ",", "=", "return", ")", "{", ";"});
  }

  // Fills meets_, ordered_, has_arrays: for every definition, its own tokens and, to a fixed point, those of all names in
  // it that are defined in the file.
  void Classify() {
    const auto& definitions = source_.definitions();
    std::vector<Names> uses(definitions.size());
    std::vector<bool> meets(definitions.size()), ordered(definitions.size());
    for (size_t d = 0; d < definitions.size(); ++d) {
      for (size_t t = definitions[d].body_begin; t < definitions[d].body_end; ++t) {
        if (source_.tokens()[t].kind == TokenKind::kIdentifier) {
          const absl::string_view name = source_.Text(t);
          if (Meets(name)) meets[d] = true;
          if (OrdersThreads(name)) ordered[d] = true;
          if (MayOrderMemory(name)) orders_memory_ = true;
          uses[d].insert(std::string(name));
        } else if (DeclaresArray(t)) {
          ordered[d] = true;
          arrays_.insert(std::string(source_.Text(t - 1)));
          result_.has_arrays = true;
          if (!InSharedDeclaration(t)) result_.has_local_arrays = true;
        } else if (TakesAddress(t)) {
          ordered[d] = true;
        }
      }
      if (definitions[d].kind == Definition::Kind::kFunction && definitions[d].name == "launch") result_.defines_launch = true;
    }
    std::map<std::string, std::vector<size_t>, std::less<>> by_name;
    for (size_t d = 0; d < definitions.size(); ++d) by_name[definitions[d].name].push_back(d);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t d = 0; d < definitions.size(); ++d) {
        for (const std::string& name : uses[d]) {
          const auto found = by_name.find(name);
          if (found == by_name.end()) continue;
          for (size_t other : found->second) {
            if (meets[other] && !meets[d]) meets[d] = changed = true;
            if (ordered[other] && !ordered[d]) ordered[d] = changed = true;
          }
        }
      }
    }
    for (size_t d = 0; d < definitions.size(); ++d) {
      if (definitions[d].kind != Definition::Kind::kClass) by_body_[definitions[d].body_begin] = {meets[d], ordered[d]};
    }
  }

  void RewriteKernel(size_t qualifier) {
    // The parameter list is the first (...) whose name is not an attribute's; the body follows it.
    size_t name = 0;
    bool returns_void = false;
    for (size_t i = qualifier + 1; i + 1 < Count(); ++i) {
      if (IsOneOf(source_.Text(i), {";", "{", "}"})) return;
      if (source_.Is(i, "void")) returns_void = true;
      if (!source_.Is(i + 1, "(")) continue;
      if (IsOneOf(source_.Text(i), {"__launch_bounds__", "__maxnreg__", "__cluster_dims__", "__attribute__", "alignas"})) {
        i = source_.Close(i + 1);
        continue;
      }
      name = i;
      break;
    }
    if (name == 0) return;
    for (size_t i = qualifier; i > 0 && !IsOneOf(source_.Text(i - 1), {";", "}", "{", ">", ")"}); --i) {
      if (source_.Is(i - 1, "void")) returns_void = true;
    }
    const size_t close = source_.Close(name + 1);
    if (close == Count()) return;
    kernels_.insert(std::string(source_.Text(name)));
    kernel_names_.insert(name);
    if (!returns_void) Error(name, "a __global__ function must have a void return type");
    for (size_t i = name + 2; i < close; ++i) {
      if (source_.Is(i, "&")) {
        Error(i, "a __global__ function cannot have a parameter with reference type");
        break;
      }
    }
    size_t brace = close + 1;
    while (brace < Count() && source_.Is(brace, "noexcept")) ++brace;
    if (!source_.Is(brace, "{") || source_.Close(brace) == Count()) return;
    const auto traits = by_body_.find(brace);
    const bool meets = traits != by_body_.end() && traits->second.first;
    const bool ordered = traits == by_body_.end() || traits->second.second;
    Insert(End(brace), absl::StrCat(meets     ? " ::hone_run_blocks("
                                    : ordered ? " ::hone_run_rows<false>("
                                              : " ::hone_run_rows<true>(",
                                    "[=]() mutable __attribute__((always_inline)) {"));
    Insert(Begin(source_.Close(brace)), "});");
  }

  void RewriteShared(size_t qualifier) {
    size_t end = qualifier;
    while (end < Count() && !source_.Is(end, ";")) {
      if (IsOneOf(source_.Text(end), {"(", "[", "{"})) end = source_.Close(end);
      if (end < Count()) ++end;
    }
    if (end >= Count()) return;
    size_t first = qualifier;
    bool is_extern = false, is_static = false;
    while (first > 0 && source_.tokens()[first - 1].directive == source_.tokens()[qualifier].directive &&
           !IsOneOf(source_.Text(first - 1), {";", "{", "}", ":", ">", "\\"})) {
      --first;
    }
    for (size_t i = first; i < end; ++i) {
      is_extern |= source_.Is(i, "extern");
      is_static |= source_.Is(i, "static");
    }
    if (is_extern) {
      RewriteDynamicShared(first, qualifier, end);
      return;
    }
    result_.has_arrays = true;
    for (size_t i = qualifier; i < end; ++i) {
      if (IsOneOf(source_.Text(i), {"(", "[", "{"})) {
        i = source_.Close(i);
      } else if (source_.Is(i, "=")) {
        Error(i, "initializer is not allowed for a __shared__ variable");
        break;
      }
    }
    Replace(Begin(qualifier), End(qualifier), is_static ? "" : "static");
    std::string after;
    for (const std::string& name : DeclaredNames(qualifier, end)) {
      absl::StrAppend(&after, " static_assert(sizeof(", name, ") <= 49152, \"a block has 48 KB of static shared memory\");");
      if (options_.checked && source_.InFunction(qualifier)) {
        absl::StrAppend(&after, " ::hone_rt_declare_shared((void*)&", name, ", sizeof(", name, "));");
      }
    }
    Insert(End(end), after);
  }

  // Names declared by `T a[2], b;`: the identifier before each top-level '[', ',' or ';'.
  std::vector<std::string> DeclaredNames(size_t begin, size_t end) const {
    std::vector<std::string> names;
    size_t last = Count();  // candidate
    bool taken = false;
    int angle = 0;
    for (size_t i = begin; i <= end; ++i) {
      const absl::string_view text = source_.Text(i);
      if (text == "<") ++angle;
      if (text == ">") --angle;
      if (angle > 0) continue;
      if (text == "(" || text == "{") {
        i = source_.Close(i);
      } else if (text == "[" || text == "," || text == ";") {
        if (!taken && last != Count()) names.emplace_back(source_.Text(last));
        taken = text == "[";
        if (text == "[") i = source_.Close(i);
        if (text == ",") taken = false;
        if (text != "[") last = Count();
      } else if (source_.tokens()[i].kind == TokenKind::kIdentifier && !taken) {
        last = i;
      }
    }
    return names;
  }

  void RewriteDynamicShared(size_t first, size_t qualifier, size_t end) {
    size_t bracket = qualifier;
    while (bracket < end && !source_.Is(bracket, "[")) {
      bracket = source_.Is(bracket, "(") ? source_.Close(bracket) + 1 : bracket + 1;
    }
    if (bracket >= end || source_.tokens()[bracket - 1].kind != TokenKind::kIdentifier) {
      Error(qualifier, "an extern __shared__ variable must be an array of unknown bound");
      return;
    }
    const std::string name(source_.Text(bracket - 1));
    std::string type;
    for (size_t i = first; i + 1 < bracket; ++i) {
      const absl::string_view text = source_.Text(i);
      if (IsOneOf(text, {"extern", "__shared__", "static"})) continue;
      if (IsOneOf(text, {"__align__", "alignas", "__attribute__", "__builtin_align__"}) && source_.Is(i + 1, "(")) {
        i = source_.Close(i + 1);
        continue;
      }
      absl::StrAppend(&type, type.empty() ? "" : " ", std::string(text));
    }
    const bool local = source_.InFunction(qualifier) || source_.tokens()[qualifier].directive >= 0;
    Replace(Begin(first), End(end),
            absl::StrCat(local ? absl::StrCat(type, "* ", name, " = (", type, "*)::hone_rt_dynamic_shared();")
                               : absl::StrCat("static ::hone_dynamic_shared<", type, "> ", name, ";"),
                         std::string(source_.tokens()[end].line - source_.tokens()[first].line, '\n')));
  }

  // The first token of the callee that ends before `end`: k, ns::k, k<T, 4>, (*f).
  size_t CalleeBegin(size_t end) const {
    size_t i = end - 1;
    if (source_.Is(i, ">")) {
      int depth = 0;
      for (;; --i) {
        if (source_.Is(i, ">")) ++depth;
        if (source_.Is(i, "<") && --depth == 0) break;
        if (i == 0) return end;
      }
      if (i == 0) return end;
      --i;
    } else if (source_.Is(i, ")")) {
      while (i > 0 && !(source_.Is(i, "(") && source_.Close(i) == end - 1)) --i;
      return i;
    }
    while (i >= 2 && source_.Is(i - 1, "::") && source_.tokens()[i - 2].kind == TokenKind::kIdentifier) i -= 2;
    if (i >= 1 && source_.Is(i - 1, "::")) --i;
    return i;
  }

  void RewriteLaunch(size_t open) {
    if (open == 0) return;
    size_t close = open + 3;
    while (close < Count() && !IsTriple(close, '>')) {
      if (IsOneOf(source_.Text(close), {"(", "[", "{"})) close = source_.Close(close);
      if (close >= Count() || IsOneOf(source_.Text(close), {";", "}"})) return;  // the compiler reports it
      ++close;
    }
    if (close + 3 >= Count() || !source_.Is(close + 3, "(")) return;
    const size_t arguments_end = source_.Close(close + 3);
    const size_t callee = CalleeBegin(open);
    if (arguments_end == Count() || callee >= open) return;
    const std::string configuration = source_.text().substr(End(open + 2), Begin(close) - End(open + 2));
    // The comma operator keeps the launch one expression; the configuration's line ends move with it.
    Insert(Begin(callee), absl::StrCat("(::hone_configure(", configuration, "), "));
    Replace(Begin(open), End(close + 2), "");
    Insert(End(arguments_end), ")");
    for (size_t i = callee; i < open; ++i) launched_.insert(i);
    for (const Definition& d : source_.definitions()) {
      if ((d.global || d.device) && d.kind == Definition::Kind::kFunction && d.body_begin < open && open < d.body_end) {
        Error(open, "kernel launch from __device__ or __global__ functions requires separate compilation mode");
      }
    }
  }

  // `out[i] += v`, `hist[b]++`, `out[i] = fmaxf(out[i], v)`: the left side where it may be device memory.
  void RewriteUpdates(const Definition& function) {
    for (size_t t = function.body_begin; t < function.body_end; ++t) {
      size_t begin = 0;
      if (IsOneOf(source_.Text(t), {"+=", "-=", "*=", "/=", "|=", "&=", "^=", "%=", "++", "--"})) {
        begin = PlaceBefore(t);
      } else if (source_.Is(t, "=")) {
        begin = PlaceBefore(t);
        if (begin < t && !Repeats(begin, t)) continue;
      }
      if (begin == 0 || begin >= t) continue;
      result_.has_updates = true;
      if (!options_.checked) continue;
      Insert(Begin(begin), "::hone_update(");
      Insert(End(t - 1), ")");
    }
  }

  // First token of the element of memory that ends before token `end`: `p[i]`, `p->a[i].x`, `*p`. `end` where there is none,
  // or where it is an element of an array of the kernel's own.
  size_t PlaceBefore(size_t end) const {
    size_t first = end;
    bool in_memory = false;
    for (size_t last = end; last > 0;) {
      const size_t t = last - 1;
      if (source_.Is(t, "]")) {
        last = source_.Open(t);
        if (last == Count()) return end;
        in_memory = true;
        continue;
      }
      if (source_.tokens()[t].kind != TokenKind::kIdentifier) return end;
      first = t;
      if (t == 0 || !IsOneOf(source_.Text(t - 1), {".", "->"})) break;
      in_memory |= source_.Is(t - 1, "->");
      last = t - 1;
    }
    if (first == end || arrays_.count(source_.Text(first)) > 0) return end;
    if (first > 1 && source_.Is(first - 1, "*") && IsOneOf(source_.Text(first - 2), {";", "{", "}", ")", "else"})) {
      return first - 1;
    }
    return in_memory ? first : end;
  }

  // Whether the place [begin, equals) is read on the right side of its assignment.
  bool Repeats(size_t begin, size_t equals) const {
    const size_t words = equals - begin;
    for (size_t t = equals + 1; t + words <= Count() && !source_.Is(t, ";"); ++t) {
      size_t same = 0;
      while (same < words && source_.Text(t + same) == source_.Text(begin + same)) ++same;
      if (same == words) return true;
    }
    return false;
  }

  // blockIdx.x * blockDim.x + threadIdx.x, in any of its usual forms, becomes the loop's own counter; a number instead of
  // blockDim.x keeps the product, in signed arithmetic. Both keep their unsigned type.
  void RewriteGlobalIndex(size_t i) {
    if (!IsOneOf(source_.Text(i), {"blockIdx", "blockDim", "threadIdx", "("})) return;
    using Words = std::vector<absl::string_view>;
    static const Words block = {"blockIdx", ".", "x"}, size = {"blockDim", ".", "x"}, thread = {"threadIdx", ".", "x"};
    size_t end = i;
    const auto take = [&](const Words& words) {
      for (size_t k = 0; k < words.size(); ++k) {
        if (!source_.Is(end + k, words[k])) return false;
      }
      end += words.size();
      return true;
    };
    std::string factor;
    const auto product = [&] {
      const size_t start = end;
      const bool paren = take({"("});
      bool found = (take(block) && take({"*"}) && take(size)) || (end = start + paren, take(size) && take({"*"}) && take(block));
      if (!found) {
        end = start + paren;
        if (take(block) && take({"*"}) && end < Count() && source_.tokens()[end].kind == TokenKind::kNumber) {
          factor = std::string(source_.Text(end++));
          found = factor.size() <= 5 && factor.find_first_not_of("0123456789") == std::string::npos;
        }
      }
      return found && (!paren || take({")"}));
    };
    const bool matched = (product() && take({"+"}) && take(thread)) ||
                         (end = i, take(thread) && take({"+"}) && product());
    if (!matched) return;
    // What stands around may not bind tighter than the sum.
    if (i == 0 || !IsOneOf(source_.Text(i - 1), {"=", "(", ",", "[", ";", "return", "+", "+=", "?", ":", "{"})) return;
    if (!IsOneOf(source_.Text(end), {";", ",", ")", "]", "+", "-", "<", ">", "<=", ">=", "==", "!=", "?", ":", "}", "&&", "||"})) {
      return;
    }
    const int lines = source_.tokens()[end - 1].line - source_.tokens()[i].line;
    Replace(Begin(i), End(end - 1),
            absl::StrCat(factor.empty() ? std::string("((unsigned)::hone_global_x)")
                                        : absl::StrCat("((unsigned)((int)blockIdx.x * ", factor, " + (int)threadIdx.x))"),
                         std::string(lines, '\n')));
  }

  // Unrolling hints mean nothing here, and no candidate needs a GCC pragma.
  void DropPragmas() {
    for (const Directive& directive : source_.directives()) {
      if (directive.name != "pragma") continue;
      result_.has_local_arrays = true;
      const std::string text = source_.text().substr(directive.begin, directive.end - directive.begin);
      Replace(directive.begin, directive.end, std::string(std::count(text.begin(), text.end(), '\n'), '\n'));
    }
  }

  void CheckCalls() {
    Names host_only, device_only, either;
    for (const Definition& d : source_.definitions()) {
      if (d.kind != Definition::Kind::kFunction || d.global) continue;
      if ((d.device && d.host) || d.constant) {
        either.insert(d.name);
      } else {
        (d.device ? device_only : host_only).insert(d.name);
      }
    }
    // Overloaded on the host and the device, or a macro: leave it to the compiler.
    for (const Definition& d : source_.definitions()) {
      if (d.kind != Definition::Kind::kFunction) either.insert(d.name);
    }
    for (const std::string& name : host_only) {
      if (device_only.count(name)) either.insert(name);
    }
    for (const Definition& d : source_.definitions()) {
      if (d.kind != Definition::Kind::kFunction || d.constant) continue;
      const bool on_device = d.global || (d.device && !d.host);
      const bool on_host = !d.global && !d.device;
      for (size_t t = d.body_begin; t + 1 < d.body_end; ++t) {
        if (source_.Is(t, "__device__")) break;  // a device lambda: whose code follows is not ours to say
        if (source_.tokens()[t].kind != TokenKind::kIdentifier || !source_.Is(t + 1, "(")) continue;
        if (t > 0 && IsOneOf(source_.Text(t - 1), {".", "->"})) continue;
        if (source_.tokens()[t - 1].kind == TokenKind::kIdentifier && !source_.Is(t - 1, "return") &&
            !source_.Is(t - 1, "else")) {
          continue;  // a declaration
        }
        const std::string name(source_.Text(t));
        if (either.count(name)) continue;
        const bool defined_here = host_only.count(name) || device_only.count(name);
        if (on_host && !defined_here && IsDeviceBuiltin(name)) {
          Error(t, absl::StrCat("calling a __device__ function(\"", name, "\") from a __host__ function(\"", d.name,
                                "\") is not allowed"));
        }
        if (!on_host && !options_.relaxed_constexpr && IsOneOf(name, {"max", "min"}) && t > 1 && source_.Is(t - 1, "::") &&
            source_.Is(t - 2, "std")) {
          Error(t, absl::StrCat("calling a constexpr __host__ function(\"", name, "\") from a __global__ function(\"",
                                d.name, "\") is not allowed"));
        }
        if (kernels_.count(name) && !launched_.count(t) && !host_only.count(name) && !device_only.count(name)) {
          Error(t, absl::StrCat("a __global__ function call must be configured (", name, "<<<grid, block>>>(...))"));
        }
        if (on_device && host_only.count(name)) {
          Error(t, absl::StrCat("calling a __host__ function(\"", name, "\") from a ", d.global ? "__global__" : "__device__",
                                " function(\"", d.name, "\") is not allowed"));
        }
        if (on_host && device_only.count(name)) {
          Error(t, absl::StrCat("calling a __device__ function(\"", name, "\") from a __host__ function(\"", d.name,
                                "\") is not allowed"));
        }
      }
    }
  }

  void Apply() {
    std::stable_sort(edits_.begin(), edits_.end(), [](const Edit& a, const Edit& b) { return a.begin < b.begin; });
    size_t at = 0;
    for (const Edit& edit : edits_) {
      if (edit.begin < at) continue;  // inside something that was replaced as a whole
      result_.source.append(source_.text(), at, edit.begin - at);
      result_.source += edit.text;
      at = edit.end;
    }
    result_.source.append(source_.text(), at, std::string::npos);
  }

  CudaSource source_;
  const RewriteOptions options_;
  Rewritten result_;
  std::vector<Edit> edits_;
  std::map<size_t, std::pair<bool, bool>> by_body_;  // body's first token -> {meets, ordered}
  Names arrays_;                // declared anywhere in the file: local, __shared__, members
  bool orders_memory_ = false;  // by atomics, fences or volatile
  Names kernels_;
  std::set<size_t> kernel_names_;  // tokens
  std::set<size_t> launched_;      // tokens of callees
};

}  // namespace

Rewritten RewriteCuda(absl::string_view source, const RewriteOptions& options) { return Rewriter(source, options).Run(); }

}  // namespace hone::verifier
