#include "verifier/build/cpu_toolchain.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/subprocess.h"

namespace hone::verifier {
namespace {

// CUDA's default arithmetic: contraction into FMA, no traps, no errno; exact division and square root stay.
const std::vector<std::string>& CommonFlags() {
  static const auto* const flags = new std::vector<std::string>{
      "-std=gnu++17",        "-w",
      "-fPIC",               "-march=native",
      "-fno-exceptions",     "-fno-rtti",
      "-fvisibility=hidden", "-fno-gnu-unique",
      "-fno-plt",            "-fno-semantic-interposition",
      "-fno-math-errno",     "-fno-trapping-math",
      "-ffp-contract=fast",  "-fno-stack-protector",
      "-fno-ident",          "-fno-asynchronous-unwind-tables",
      "-fno-threadsafe-statics", "-fmax-errors=20",
      "-fno-diagnostics-show-caret", "-fno-diagnostics-show-option",
      "-U_FORTIFY_SOURCE",   "-nostdinc",
      // One vector loop and one scalar remainder a kernel: more epilogues cost compile time and gain little.
      "--param",             "vect-epilogues-nomask=0",
      "--param",             "max-completely-peel-times=8",
#if defined(__x86_64__)
      "-mno-red-zone",       "-fcf-protection=none",
#endif
  };
  return *flags;
}

// What earns its compile time on small kernels: the vectoriser with what feeds it (loop splitting at the bound check, alias
// rules), and little else.
const std::vector<std::string>& QuickFlags() {
  static const auto* const flags = new std::vector<std::string>{"-O1", "-ftree-vectorize", "-fvect-cost-model=dynamic",
                                                                "-fstrict-aliasing", "-fsplit-loops"};
  return *flags;
}

absl::StatusOr<std::string> Output(const std::vector<std::string>& argv) {
  SpawnOptions spawn;
  spawn.argv = argv;
  spawn.environment = {"LC_ALL=C", absl::StrCat("PATH=", getenv("PATH") != nullptr ? getenv("PATH") : "/usr/bin:/bin")};
  spawn.inherit_environment = false;
  HONE_ASSIGN_OR_RETURN(RunResult result, Run(spawn, absl::Seconds(30)));
  if (result.exit_code != 0) {
    return absl::FailedPreconditionError(absl::StrCat(absl::StrJoin(argv, " "), ": ", result.output));
  }
  return std::string(absl::StripAsciiWhitespace(result.output));
}

std::string RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) != nullptr ? resolved : path;
}

// Where a name stands on PATH; itself if it has a slash or is nowhere.
std::string OnPath(const std::string& name) {
  if (absl::StrContains(name, "/")) return RealPath(name);
  const char* path = getenv("PATH");
  for (absl::string_view folder : absl::StrSplit(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    const std::string candidate = absl::StrCat(folder, "/", name);
    if (FileExists(candidate)) return RealPath(candidate);
  }
  return name;
}

// The words of the line of `-###` output that runs the compiler proper.
std::vector<std::string> CompilerProper(absl::string_view output) {
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    if (!absl::StartsWith(line, " ") || !absl::StrContains(line, "/cc1plus")) continue;
    std::vector<std::string> words;
    std::string word;
    bool quoted = false;
    for (size_t i = 0; i <= line.size(); ++i) {
      const char c = i < line.size() ? line[i] : ' ';
      if (c == '"') {
        quoted = !quoted;
      } else if (c == ' ' && !quoted) {
        if (!word.empty()) words.push_back(word);
        word.clear();
      } else if (c == '\\' && i + 1 < line.size()) {
        word += line[++i];
      } else {
        word += c;
      }
    }
    return words;
  }
  return {};
}

// Names and contents of all files below a folder, hashed.
absl::StatusOr<std::string> AllFiles(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("listing ", folder));
  std::sort(paths.begin(), paths.end());
  std::string all;
  for (const std::string& path : paths) {
    HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    absl::StrAppend(&all, ContentKey({path.substr(folder.size()), text}));
  }
  return Sha256Hex(all);
}

absl::StatusOr<std::vector<std::string>> CompileCommand(const std::string& compiler, std::vector<std::string> flags,
                                                        const std::vector<std::string>& headers) {
  std::vector<std::string> argv = {compiler, "-###", "-S", "-x", "c++", "/dev/null", "-o", "/dev/null"};
  for (const std::string& folder : headers) argv.insert(argv.end(), {"-I", folder});
  argv.insert(argv.end(), CommonFlags().begin(), CommonFlags().end());
  argv.insert(argv.end(), flags.begin(), flags.end());
  HONE_ASSIGN_OR_RETURN(const std::string output, Output(argv));
  std::vector<std::string> words = CompilerProper(output);
  if (words.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(compiler, " -### does not show a cc1plus command: is it g++?"));
  }
  std::vector<std::string> command;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "/dev/null") continue;
    if ((words[i] == "-o" || words[i] == "-dumpbase" || words[i] == "-dumpdir" || words[i] == "-imultiarch" ||
         words[i] == "-dumpbase-ext") && i + 1 < words.size()) {
      ++i;
      continue;
    }
    command.push_back(words[i]);
  }
  return command;
}

}  // namespace

absl::StatusOr<CpuToolchain> CpuToolchain::Find(const std::string& compiler, const std::string& header_folder,
                                                const std::string& extra_headers) {
  if (!FileExists(header_folder + "/hone/prelude.h")) {
    return absl::FailedPreconditionError(absl::StrCat("no emulation headers at ", header_folder, "/hone/prelude.h"));
  }
  const std::string headers = RealPath(header_folder);
  std::vector<std::string> folders = {headers};
  if (!extra_headers.empty()) folders.push_back(RealPath(extra_headers));
  CpuToolchain toolchain;
  const auto number = Output({compiler, "-dumpfullversion"});
  if (absl::IsNotFound(number.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("the CPU backend compiles with ", compiler, ", which is not installed (package g++)"));
  }
  if (!number.ok()) return number.status();
  HONE_ASSIGN_OR_RETURN(toolchain.quick, CompileCommand(compiler, QuickFlags(), folders));
  HONE_ASSIGN_OR_RETURN(toolchain.full, CompileCommand(compiler, {"-O3"}, folders));
  HONE_ASSIGN_OR_RETURN(toolchain.checked,
                        CompileCommand(compiler, {"-Og", "-fsanitize=bounds", "-fsanitize-undefined-trap-on-error"}, folders));
  HONE_ASSIGN_OR_RETURN(const std::string as, Output({compiler, "-print-prog-name=as"}));
  HONE_ASSIGN_OR_RETURN(const std::string ld, Output({compiler, "-print-prog-name=ld"}));
  toolchain.assemble = {OnPath(as), "--64"};
#if !defined(__x86_64__)
  toolchain.assemble.pop_back();
#endif
  toolchain.link = {OnPath(ld), "-shared", "--hash-style=gnu", "--build-id=none", "-z", "noexecstack", "-z", "relro"};
  toolchain.headers = headers;
  toolchain.folders = folders;
  toolchain.folders.push_back("/usr");
  std::vector<std::string> parts = {*number, absl::StrJoin(toolchain.quick, " "),
                                    absl::StrJoin(toolchain.full, " "), absl::StrJoin(toolchain.checked, " "),
                                    absl::StrJoin(toolchain.link, " ")};
  for (const std::string& folder : folders) {
    HONE_ASSIGN_OR_RETURN(const std::string texts, AllFiles(folder));
    parts.push_back(texts);
  }
  toolchain.identity = Sha256Hex(absl::StrJoin(parts, "\n"));
  toolchain.version = absl::StrCat("g++ ", *number, " (emulated CUDA ", toolchain.identity.substr(0, 8), ")");
  return toolchain;
}

}  // namespace hone::verifier
