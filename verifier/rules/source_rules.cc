#include "verifier/rules/source_rules.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace hone::verifier {
namespace {

bool IsOneOf(absl::string_view text, std::initializer_list<absl::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool StartsWithOneOf(absl::string_view text, std::initializer_list<absl::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](absl::string_view p) { return absl::StartsWith(text, p); });
}

bool IsAssembly(absl::string_view name) { return IsOneOf(name, {"asm", "__asm", "__asm__"}); }

bool IsReserved(absl::string_view name) {
  return StartsWithOneOf(name, {"hone_", "Hone", "HONE_"}) && !IsOneOf(name, {"hone_workspace", "HONE_EMULATED"});
}

// Attributes that no honest name shares.
bool IsAttributeAnywhere(absl::string_view name) {
  return IsOneOf(name, {"constructor", "destructor", "ifunc", "weakref", "init_priority", "__constructor__", "__destructor__",
                        "__section__", "__ifunc__", "__alias__", "__weakref__", "__init_priority__"});
}

// Attributes that are ordinary words elsewhere.
bool IsAttributeInList(absl::string_view name) {
  return IsOneOf(name, {"optimize", "__optimize__", "target", "__target__", "target_clones", "weak", "__weak__", "symver",
                        "copy", "cleanup"});
}

bool IsSystemCall(absl::string_view name) {
  return IsOneOf(name, {"fork", "vfork", "clone", "execve", "execv", "execvp", "execl", "execlp", "system", "popen",
                        "posix_spawn", "dlopen", "dlmopen", "dlsym", "pthread_create", "thrd_create", "ptrace", "mprotect",
                        "mmap", "syscall", "prctl", "socket", "process_vm_readv", "process_vm_writev", "memfd_create",
                        "shm_open", "sigaction", "setitimer", "timer_create", "sched_setaffinity", "atexit", "on_exit",
                        "quick_exit", "at_quick_exit", "getenv", "setenv"});
}

bool WalksStack(absl::string_view name) {
  return IsOneOf(name, {"__builtin_frame_address", "__builtin_return_address", "__builtin_extract_return_addr",
                        "__builtin_apply", "__builtin_apply_args", "__builtin_return", "__builtin_setjmp",
                        "__builtin_longjmp", "__builtin_eh_return", "__builtin_unwind_init", "__builtin_dwarf_cfa", "setjmp",
                        "longjmp", "_setjmp", "getcontext", "setcontext", "makecontext", "backtrace"});
}

bool ControlsRuntime(absl::string_view name) {
  return StartsWithOneOf(name, {"cudaIpc", "cudaProfiler", "cudaImportExternal", "cudaMemPool", "cuIpc", "cuCtx", "cuMem",
                                "cuModule", "cuLibrary", "cuDevicePrimaryCtx", "cuLaunch", "cuProfiler", "cupti", "nvrtc",
                                "nvml"}) ||
         IsOneOf(name, {"cudaDeviceReset", "cudaDeviceSetLimit", "cudaLaunchHostFunc", "cudaStreamAddCallback",
                        "cudaDeviceEnablePeerAccess", "cudaSetDeviceFlags"});
}

bool IsLibrary(absl::string_view name) {
  return StartsWithOneOf(name, {"cublas", "cudnn", "cufft", "cusparse", "cusolver", "cutensor", "nppi", "nvinfer", "mublas",
                                "mudnn"});
}

bool IsOfTheLanguage(absl::string_view name) {
  return IsOneOf(name, {"launch", "__global__", "__device__", "__host__", "__shared__", "__constant__", "__syncthreads",
                        "threadIdx", "blockIdx", "blockDim", "gridDim", "cudaPeekAtLastError", "cudaGetLastError",
                        "cudaStream_t", "cudaLaunchKernel", "cudaSuccess", "call", "visibility", "used",
                        "alignas", "auto", "bool", "break", "case", "char", "class", "const", "continue", "default", "delete",
                        "do", "double", "else", "enum", "explicit", "extern", "false", "float", "for", "friend", "goto", "if",
                        "int", "long", "namespace", "new", "nullptr", "operator", "private", "protected", "public", "return",
                        "short", "signed", "sizeof", "static", "struct", "switch", "template", "this", "true", "typedef",
                        "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while"});
}

size_t WordLength(absl::string_view text) {
  size_t end = 0;
  while (end < text.size() && (absl::ascii_isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
  return end;
}

std::string WithoutSplices(const std::string& text) {
  std::string joined;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t end = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '\r' ? i + 2 : i + 1;
    if (text[i] == '\\' && end < text.size() && text[end] == '\n') {
      i = end;
    } else {
      joined += text[i];
    }
  }
  return joined;
}

/// Whether a pragma sets flags, names symbols or reads files: what stands after `#pragma`.
bool ChangesTheBuild(absl::string_view pragma) {
  if (absl::ConsumePrefix(&pragma, "GCC") || absl::ConsumePrefix(&pragma, "clang")) {
    pragma = absl::StripLeadingAsciiWhitespace(pragma);
    return !StartsWithOneOf(pragma, {"diagnostic", "ivdep", "unroll", "loop", "warning", "error"});
  }
  return StartsWithOneOf(pragma, {"weak", "redefine_extname", "push_macro", "pop_macro", "include_alias", "extern_prefix"});
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

class SourceRules {
 public:
  SourceRules(const CudaSource& source, Assembly assembly, const RulePolicy& policy)
      : source_(source), assembly_(assembly), policy_(policy), hits_(policy) {
    for (const Definition& definition : source.definitions()) defined_.insert(definition.name);
  }

  std::vector<RuleHit> Run() {
    for (size_t i = 0; i < source_.tokens().size(); ++i) {
      const Token& token = source_.tokens()[i];
      if (token.kind == TokenKind::kIdentifier) {
        CheckName(i);
      } else if (token.kind == TokenKind::kPunctuator) {
        CheckPunctuator(i);
      }
      CheckSplice(i);
    }
    for (const Directive& directive : source_.directives()) CheckDirective(directive);
    return hits_.Take();
  }

 private:
  void Hit(absl::string_view rule, size_t token) { Hit(rule, source_.tokens()[token].line, source_.Text(token)); }
  void Hit(absl::string_view rule, int line, absl::string_view what) {
    hits_.Add(rule, absl::StrCat("line ", line, ": ", what.substr(0, 120)));
  }
  bool Has(size_t i, absl::string_view text) const { return i < source_.tokens().size() && source_.Is(i, text); }
  bool InDefine(size_t i) const {
    const int directive = source_.tokens()[i].directive;
    return directive >= 0 && source_.directives()[static_cast<size_t>(directive)].name == "define";
  }
  bool IsMember(size_t i) const { return i > 0 && (Has(i - 1, ".") || Has(i - 1, "->")); }

  void CheckName(size_t i) {
    const absl::string_view name = source_.Text(i);
    const bool called = Has(i + 1, "(") && !IsMember(i);
    if (IsAssembly(name) && (assembly_ == Assembly::kNowhere || !(InDeviceCode(source_, i) || InDefine(i)))) Hit("inline_assembly", i);
    if (IsReserved(name)) Hit("reserved_name", i);
    if (IsAttributeAnywhere(name) || (IsOneOf(name, {"section", "alias"}) && Has(i + 1, "("))) Hit("attribute", i);
    if (IsOneOf(name, {"__attribute__", "__attribute", "gnu", "__gnu__"})) CheckAttributeList(i);
    if (name == "_Pragma") CheckPragma(i);
    if (called && IsSystemCall(name) && defined_.count(std::string(name)) == 0) Hit("system_interface", i);
    if (i >= 2 && Has(i - 1, "::") && Has(i - 2, "std") && IsOneOf(name, {"thread", "jthread", "async", "filesystem"})) {
      Hit("system_interface", i);
    }
    if (WalksStack(name) && defined_.count(std::string(name)) == 0) Hit("stack_walk", i);
    if (ControlsRuntime(name)) Hit("runtime_control", i);
    if (absl::StartsWith(name, "cudaGetDriverEntryPoint") && !AsksForTensorMap(i)) Hit("runtime_control", i);
    const bool in_directive = source_.tokens()[i].directive >= 0 &&
                              source_.directives()[source_.tokens()[i].directive].name == "include";
    if (IsLibrary(name) && !in_directive && !policy_.allow_library_kernels()) Hit("library_kernels", i);
    if (absl::StartsWith(name, "cudaStreamCreate")) Hit("side_stream", i);
    if (absl::StartsWith(name, "cudaGraph")) Hit("graph_launch", i);
  }

  void CheckAttributeList(size_t i) {
    const bool vendor = source_.Is(i, "gnu") || source_.Is(i, "__gnu__");  // of [[gnu::name]] or [[using gnu: names]]
    const size_t begin = vendor ? i : i + 1;
    size_t end = vendor ? i + 3 : source_.Close(i + 1);
    if (vendor && Has(i + 1, ":") && i > 0 && Has(i - 1, "using")) {
      while (end < source_.tokens().size() && !Has(end, "]")) ++end;
    } else if (vendor && !Has(i + 1, "::")) {
      return;
    }
    end = std::min(end, source_.tokens().size());
    for (size_t k = begin; k < end; ++k) {
      if (source_.tokens()[k].kind == TokenKind::kIdentifier && IsAttributeInList(source_.Text(k))) Hit("attribute", k);
    }
  }

  void CheckPragma(size_t i) {
    if (Has(i + 1, "(") && i + 2 < source_.tokens().size() && source_.tokens()[i + 2].kind == TokenKind::kString) {
      absl::string_view text = source_.Text(i + 2);
      absl::ConsumePrefix(&text, "\"");
      text = absl::StripLeadingAsciiWhitespace(text);
      if (!StartsWithOneOf(text, {"unroll", "nounroll", "once", "nv_"})) Hit("pragma_operator", i + 2);
      return;
    }
    for (size_t k = 0; k < source_.tokens().size(); ++k) {  // its text is computed: from words that stand in the file
      const absl::string_view word = source_.Text(k);
      if (IsOneOf(word, {"GCC", "clang", "weak", "redefine_extname", "push_macro", "pop_macro", "pack"})) {
        Hit("pragma_operator", k);
      }
    }
  }

  /// cuTensorMapEncode... describes a tensor to the copy engine; it acts on nothing else.
  bool AsksForTensorMap(size_t i) const {
    return Has(i + 1, "(") && i + 2 < source_.tokens().size() &&
           absl::StartsWith(source_.Text(i + 2), "\"cuTensorMapEncode");
  }

  void CheckPunctuator(size_t i) {
    const Token& token = source_.tokens()[i];
    if (source_.Text(i) == "\\") Hit("hidden_token", i);
    if (source_.Text(i) == "%" && Has(i + 1, ":") && source_.tokens()[i + 1].begin == token.end) {
      Hit("hidden_token", token.line, "%:");
    }
  }

  void CheckSplice(size_t i) {
    if (i + 1 >= source_.tokens().size()) return;
    const Token& token = source_.tokens()[i];
    const Token& next = source_.tokens()[i + 1];
    const auto word = [](const Token& t) { return t.kind == TokenKind::kIdentifier || t.kind == TokenKind::kNumber; };
    if (!word(token) || !word(next) || next.begin == token.end) return;
    const std::string& text = source_.text();
    if (text[token.end] == '\\' && text.find_first_not_of("\\\r\n", token.end) == next.begin) {
      Hit("hidden_token", token.line, absl::StrCat(source_.Text(i), "\\"));
    }
  }

  void CheckDirective(Directive directive) {
    const std::string joined = WithoutSplices(source_.text().substr(directive.begin, directive.end - directive.begin));
    absl::string_view text = joined;
    absl::ConsumePrefix(&text, "#");
    text = absl::StripLeadingAsciiWhitespace(text);
    directive.name = std::string(text.substr(0, WordLength(text)));
    if (directive.name == "line" || (!directive.name.empty() && absl::ascii_isdigit(directive.name[0]))) {
      Hit("line_marker", directive.line, text);
    }
    absl::ConsumePrefix(&text, directive.name);
    text = absl::StripAsciiWhitespace(text);
    if (absl::StartsWith(directive.name, "include") || directive.name == "import") CheckInclude(directive, text);
    if (directive.name == "embed") Hit("include_path", directive.line, text);
    if (directive.name == "pragma" && ChangesTheBuild(text)) Hit("pragma_operator", directive.line, text);
    if (directive.name == "define" || directive.name == "undef") {
      const absl::string_view name = text.substr(0, WordLength(text));
      if (IsOfTheLanguage(name)) Hit("macro_of_the_language", directive.line, name);
    }
  }

  void CheckInclude(const Directive& directive, absl::string_view text) {
    const bool quoted = absl::StartsWith(text, "<") || absl::StartsWith(text, "\"");
    const absl::string_view path = quoted ? text.substr(1) : text;
    if (!quoted || absl::StartsWith(path, "/") || absl::StrContains(path.substr(0, path.find_first_of(">\"")), "..") ||
        directive.name != "include") {
      Hit("include_path", directive.line, text);
    }
    if (IsLibraryHeader(path) && !policy_.allow_library_kernels()) Hit("library_header", directive.line, text);
  }

  const CudaSource& source_;
  const Assembly assembly_;
  const RulePolicy& policy_;
  RuleHits hits_;
  std::set<std::string> defined_;
};

// Directives that bring in text or bytes from elsewhere, or write text of their own.
bool WritesText(absl::string_view directive) {
  return IsOneOf(directive, {".incbin", ".include", ".macro", ".irp", ".irpc", ".rept", ".altmacro", ".purgem", ".symver",
                             ".reloc", ".if", ".ifdef", ".ifndef", ".print", ".linkonce", ".pushsection", ".popsection"});
}

// What runs at load or unload: nvcc's registration of device code, and what C++ fills before main.
bool IsHonestInitialiser(absl::string_view function) {
  return StartsWithOneOf(function, {"_ZL24__sti____cudaRegisterAllv", "_GLOBAL__sub_I_"});
}

/// Reads assembly line by line.
class AssemblyRules {
 public:
  AssemblyRules(std::vector<std::string> own_folders, bool nvcc, const RulePolicy& policy)
      : own_folders_(std::move(own_folders)), nvcc_(nvcc), hits_(policy) {}

  std::vector<RuleHit> Run(absl::string_view assembly) {
    for (absl::string_view line : absl::StrSplit(assembly, '\n')) CheckLine(absl::StripLeadingAsciiWhitespace(line));
    return hits_.Take();
  }

 private:
  void CheckLine(absl::string_view line) {
    if (line == "#APP" || line == "#NO_APP") {
      inline_code_ = line == "#APP";
      own_ = device_code_ = false;
      return;
    }
    if (absl::StartsWith(line, "# ") && inline_code_) {
      // `# 89 "/usr/.../hone/kernel.h" 1` names where a piece of inline assembly stands; `# 0 "" 2` ends it.
      const size_t quote = line.find('"');
      const absl::string_view file = quote == absl::string_view::npos ? "" : line.substr(quote + 1, line.rfind('"') - quote - 1);
      if (!file.empty()) own_ = std::any_of(own_folders_.begin(), own_folders_.end(), [&](const std::string& folder) {
          return absl::StartsWith(file, folder);
        });
      return;
    }
    if (inline_code_ && (own_ || (nvcc_ && IsDeviceCode(line)))) return;
    if (inline_code_ && !line.empty()) hits_.Add("assembler_directive", absl::StrCat("inline assembly: ", line));
    const absl::string_view directive = line.substr(0, line.find_first_of(" \t"));
    if (absl::StartsWith(line, ".") && WritesText(directive)) hits_.Add("assembler_directive", line);
    const absl::string_view code = line.substr(0, line.find('"'));
    if (absl::StrContains(code, ";")) hits_.Add("assembler_directive", line);
    if (nvcc_) CheckInitialiser(directive, line);
  }

  /// The device's code as nvcc hands it to the host's compiler: numbers in a section of their own.
  bool IsDeviceCode(absl::string_view line) {
    if (line == ".text") {
      device_code_ = false;
      return true;
    }
    if (absl::ConsumePrefix(&line, ".section ")) {
      device_code_ = line == ".nv_fatbin, \"a\"" || line == "__nv_relfatbin, \"a\"";
      return device_code_;
    }
    if (!device_code_) return false;
    if (!absl::ConsumePrefix(&line, ".quad ")) return IsOneOf(line, {".align 8", "fatbinData:", ""});
    return line.find_first_not_of("0123456789abcdefABCDEFx, ") == absl::string_view::npos;
  }

  void CheckInitialiser(absl::string_view directive, absl::string_view line) {
    const absl::string_view operand = absl::StripAsciiWhitespace(line.substr(directive.size()));
    if (directive == ".section" || directive == ".text" || directive == ".data" || directive == ".bss") {
      initialisers_ = directive == ".section" &&
                      StartsWithOneOf(operand, {".init", ".fini", ".preinit", ".ctors", ".dtors", "\".init", "\".fini", "\".ctors", "\".dtors"});
    } else if (initialisers_ && (directive == ".quad" || directive == ".long") && !IsHonestInitialiser(operand)) {
      hits_.Add("initialiser", operand);
    }
  }

  const std::vector<std::string> own_folders_;
  const bool nvcc_;
  RuleHits hits_;
  bool inline_code_ = false;   // between #APP and #NO_APP
  bool own_ = false;           // and of a header of ours
  bool device_code_ = false;   // and in a section of the device's
  bool initialisers_ = false;  // in a section of functions that run by themselves
};

}  // namespace

std::vector<RuleHit> CheckSource(const CudaSource& source, Assembly assembly, const RulePolicy& policy) {
  return SourceRules(source, assembly, policy).Run();
}

std::vector<RuleHit> CheckAssembly(absl::string_view assembly, absl::string_view own_folder, const RulePolicy& policy) {
  return AssemblyRules({std::string(own_folder)}, /*nvcc=*/false, policy).Run(assembly);
}

std::vector<RuleHit> CheckNvccAssembly(absl::string_view assembly, const std::vector<std::string>& header_folders,
                                       const RulePolicy& policy) {
  return AssemblyRules(header_folders, /*nvcc=*/true, policy).Run(assembly);
}

}  // namespace hone::verifier
