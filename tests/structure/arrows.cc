#include "structure/arrows.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hone::testing {
namespace {

struct Include {
  std::string path;
  int line = 0;
  bool quoted = false;
};

/// A file as the preprocessor's reader sees it.
struct Source {
  std::vector<Include> includes;
  std::string code;  // without comments and contents of literals; line breaks kept
};

/// What a folder may include from; the longest prefix of a file's path decides.
const std::map<std::string, std::vector<std::string>>& Arrows() {
  static const std::map<std::string, std::vector<std::string>> kArrows = {
      {"base/", {"base/"}},
      {"proto/", {"base/", "proto/"}},
      {"rewards/", {"base/", "rewards/"}},
      {"verifier/", {"base/", "proto/", "verifier/"}},
      {"policy/", {"base/", "policy/"}},
      {"rollout/", {"base/", "policy/", "rewards/", "rollout/", "verifier/client/"}},
      {"trainer/", {"base/", "policy/", "rewards/", "rollout/", "trainer/"}},
      {"trainer/coordinator/", {"base/", "policy/", "proto/", "rewards/", "rollout/", "trainer/"}},
      {"cli/", {"base/", "cli/", "policy/", "proto/", "rewards/", "rollout/", "trainer/", "verifier/"}},
      {"bench/", {"base/", "bench/", "cli/", "policy/", "proto/", "rewards/", "rollout/", "trainer/", "verifier/"}},
      {"examples/", {"base/", "examples/", "policy/", "proto/", "rewards/", "rollout/", "trainer/", "verifier/"}},
  };
  return kArrows;
}

bool StartsWithAny(const std::string& path, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const auto& prefix) { return absl::StartsWith(path, prefix); });
}

bool IsHeader(const std::string& path) { return absl::EndsWith(path, ".h"); }
bool IsTest(const std::string& path) { return absl::StartsWith(path, "tests/"); }
bool IsTorch(const std::string& include) {
  return include == "cmake/torch_pch.h" || StartsWithAny(include, {"torch/", "ATen/", "c10/", "caffe2/"});
}
bool IsWire(const std::string& include) {
  return absl::EndsWith(include, ".pb.h") || StartsWithAny(include, {"grpcpp/", "grpc/", "google/protobuf/"});
}
bool IsNccl(const std::string& include) {
  return include == "nccl.h" || absl::StrContains(include, "ProcessGroupNCCL");
}

bool MaySeeTorch(const std::string& path) {
  return path == "cmake/torch_pch.h" ||
         StartsWithAny(path, {"policy/", "rollout/engine/", "trainer/", "tests/", "bench/"});
}
bool MaySeeWire(const std::string& path) {
  if (IsTest(path) || StartsWithAny(path, {"proto/", "verifier/service/"})) return true;
  return !IsHeader(path) && StartsWithAny(path, {"verifier/client/", "trainer/coordinator/"});
}
bool MayStartProcesses(const std::string& path) {
  return IsTest(path) || path == "base/subprocess.cc" || path == "verifier/build/compile_server_main.cc" ||
         absl::StartsWith(path, "verifier/runner/");
}
/// Who tells the time of day; nobody waits by it. Everything else is measured on the steady clock.
bool MayTellTheTime(const std::string& path) {
  static const std::set<std::string> kTellers = {
      "base/clock.cc",                     // the time of day as a dependency
      "base/results.cc",                   // the date of a figure
      "bench/verifier/device_bench.cc",    // a source that no cache holds
      "cli/train/run_options.cc",          // the name of a run
      "policy/chat/chat_template.cc",      // templates may ask for the date
      "rollout/serve/openai_server.cc",    // "created" of an answer
      "verifier/cache/artefact_store.cc",  // ages of files
      "verifier/client/client.cc",         // gRPC's deadlines
      "verifier/queue/sqlite_queue.h",     // what the file records
      "verifier/service/access.h",         // the end of a token
      "verifier/service/http_gateway.cc",  // stamps of a log and of answers
      "verifier/service/server.cc",        // the name of a node; gRPC's deadline of a shutdown
  };
  return IsTest(path) || kTellers.count(path) > 0;
}
/// Whether the path begins with a folder of ours, where the file may also be generated, or of a library or the
/// messages.
bool StartsAtRoot(const std::string& include) {
  if (absl::StrContains(include, "../")) return false;
  return StartsWithAny(include, {"absl/", "nlohmann/", "hone/", "cmake/", "tests/"}) ||
         std::any_of(Arrows().begin(), Arrows().end(),
                     [&](const auto& arrow) { return absl::StartsWith(include, arrow.first); });
}
bool IsForCandidates(const std::string& path) {
  return StartsWithAny(path, {"verifier/build/light/", "verifier/build/opaque/"}) ||
         (absl::StartsWith(path, "verifier/device/") && absl::StrContains(path, "/include/"));
}

// ---- Reading. ----

/// Walks over a file once, telling code, comments and literals apart.
class Scanner {
 public:
  explicit Scanner(const std::string& text) : text_(text) {}

  Source Scan() {
    bool line_start = true;
    while (at_ < text_.size()) {
      if (line_start && TakeInclude()) continue;
      const char c = text_[at_];
      line_start = c == '\n' || (line_start && std::isspace(static_cast<unsigned char>(c)) != 0);
      if (Follows("//")) {
        SkipTo("\n", 0);
      } else if (Follows("/*")) {
        SkipTo("*/", 2);
      } else if (Follows("R\"") && !InWord()) {
        const size_t open = std::min(text_.find('(', at_), text_.size());
        SkipTo(")" + text_.substr(at_ + 2, open - at_ - 2) + "\"", open - at_);
      } else if (c == '"' || (c == '\'' && !InWord())) {  // 1'000 is a number
        SkipLiteral(c);
      } else {
        Keep();
      }
    }
    return std::move(source_);
  }

 private:
  bool Follows(const char* word) const { return text_.compare(at_, std::string(word).size(), word) == 0; }
  bool InWord() const {
    if (at_ == 0) return false;
    const char before = text_[at_ - 1];
    return std::isalnum(static_cast<unsigned char>(before)) != 0 || before == '_';
  }
  void Keep() {
    if (text_[at_] == '\n') ++line_;
    source_.code += text_[at_++];
  }
  void Drop() {
    if (text_[at_] == '\n') {
      ++line_;
      source_.code += '\n';
    }
    ++at_;
  }
  /// Drops up to and with `end`, looked for from `skip` characters on; a line's end itself stays.
  void SkipTo(const std::string& end, size_t skip) {
    const size_t found = text_.find(end, std::min(at_ + skip, text_.size()));
    const size_t stop = found == std::string::npos ? text_.size() : found + (end == "\n" ? 0 : end.size());
    while (at_ < stop) Drop();
  }
  void SkipLiteral(char quote) {
    Drop();
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) Drop();
      Drop();
    }
    if (at_ < text_.size() && text_[at_] == quote) Drop();
    source_.code += ' ';
  }
  bool TakeInclude() {
    static const std::regex kInclude("^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"\n]+)[>\"]");
    std::smatch match;
    const std::string line = text_.substr(at_, text_.find('\n', at_) - at_);
    if (!std::regex_search(line, match, kInclude)) return false;
    source_.includes.push_back({match[2], line_, match[1] == "\""});
    at_ += static_cast<size_t>(match.length());
    return true;
  }

  const std::string& text_;
  size_t at_ = 0;
  int line_ = 1;
  Source source_;
};

// ---- Judging. ----

class Judge {
 public:
  explicit Judge(const SourceTree& tree) {
    for (const auto& [path, text] : tree) {
      if (!IsForCandidates(path)) sources_[path] = Scanner(text).Scan();
    }
  }

  std::vector<std::string> Violations() {
    for (const auto& [path, source] : sources_) {
      for (const Include& include : source.includes) JudgeInclude(path, include);
      JudgeUnit(path);
      JudgeCode(path, source.code);
    }
    std::sort(violations_.begin(), violations_.end());
    violations_.erase(std::unique(violations_.begin(), violations_.end()), violations_.end());
    return violations_;
  }

 private:
  void Say(const std::string& path, int line, const std::string& what) {
    violations_.push_back(absl::StrCat(path, ":", line, ": ", what));
  }

  /// The tree's file that an include names: from the root, or in tests from any folder above the including file.
  std::string Resolve(const std::string& path, const std::string& include) const {
    if (sources_.count(include) > 0) return include;
    if (!IsTest(path)) return "";
    for (size_t slash = path.rfind('/'); slash != std::string::npos; slash = path.rfind('/', slash - 1)) {
      const std::string target = path.substr(0, slash + 1) + include;
      if (sources_.count(target) > 0) return target;
    }
    return "";
  }

  void JudgeInclude(const std::string& path, const Include& include) {
    const std::string what = absl::StrCat("includes ", include.path, ": ");
    JudgeArrow(path, include, what);
    if (IsTorch(include.path) && !MaySeeTorch(path)) {
      Say(path, include.line, what + "torch belongs to policy, rollout/engine and trainer");
    }
    if (IsNccl(include.path) && !absl::StartsWith(path, "trainer/comm/")) {
      Say(path, include.line, what + "NCCL belongs to trainer/comm");
    }
    // The manifests under deploy/ are other programs' YAML: anchors, several documents a file.
    if (absl::StartsWith(include.path, "yaml-cpp/") && !absl::StartsWith(path, "base/config") &&
        !absl::StartsWith(path, "tests/deploy/")) {
      Say(path, include.line, what + "YAML is read through base/config.h");
    }
    if (include.path == "Python.h") Say(path, include.line, what + "Python is never linked");
    // With torch's precompiled header or a header before it, torch would still come first; this is the way to be sure.
    if (absl::StartsWith(include.path, "catch2/") && path != "tests/support/catch_torch.h" && !TorchIn(path).empty()) {
      Say(path, include.line, what + "a test with torch takes Catch2 from support/catch_torch.h");
    }
  }

  void JudgeArrow(const std::string& path, const Include& include, const std::string& what) {
    if (IsTorch(include.path)) return;
    const std::string target = Resolve(path, include.path);
    const std::string& named = target.empty() ? include.path : target;
    if (target.empty() && !include.quoted) return;
    if (target.empty() && !StartsAtRoot(include.path)) {
      Say(path, include.line, what + "paths in quotes start at the root");
      return;
    }
    if (StartsWithAny(named, {"absl/", "nlohmann/", "hone/"})) return;  // libraries, and the generated messages
    if (IsTest(path)) return;
    const std::string* from = nullptr;
    const std::vector<std::string>* allowed = nullptr;
    for (const auto& [folder, targets] : Arrows()) {  // in order, so that the longest prefix comes last
      if (!absl::StartsWith(path, folder)) continue;
      from = &folder;
      allowed = &targets;
    }
    if (allowed == nullptr) {
      Say(path, include.line, what + "the design has no sources in this folder");
    } else if (!StartsWithAny(named, *allowed)) {
      Say(path, include.line, absl::StrCat(what, *from, " may use ", absl::StrJoin(*allowed, ", ")));
    }
  }

  /// What a file sees through all its includes.
  void JudgeUnit(const std::string& path) {
    const std::string wire = WireIn(path), torch = TorchIn(path);
    if (!wire.empty() && !MaySeeWire(path)) {
      Say(path, 1,
          absl::StrCat("sees ", wire,
                       ": the wire belongs to proto, verifier/service and the sources of "
                       "verifier/client and trainer/coordinator"));
    }
    if (!wire.empty() && !torch.empty()) Say(path, 1, absl::StrCat("sees both ", wire, " and ", torch));
  }

  void JudgeCode(const std::string& path, const std::string& code) {
    static const std::regex kMacro("\\b(D?CHECK(_[A-Z]+)?|D?LOG|VLOG)\\s*\\(");
    static const std::regex kProcess("(^|[^\\w.>:]|[^:]:|\\bstd::|[^\\w]::)(v?fork|popen|system|posix_spawnp?)\\s*\\(");
    static const std::regex kTimeOfDay("\\babsl::Now\\b|\\bsystem_clock\\b|\\bstd::time\\(|\\bCLOCK_REALTIME\\b|\\bgettimeofday\\(");
    static const std::regex kTimedWait("(Await|Wait|WaitForNotification|LockWhen)With(Timeout|Deadline)\\b");
    int line = 1;
    size_t begin = 0;
    for (size_t end; begin < code.size(); begin = end + 1, ++line) {
      end = std::min(code.find('\n', begin), code.size());
      const std::string text = code.substr(begin, end - begin);
      std::smatch match;
      if (!IsTest(path) && std::regex_search(text, match, kMacro)) {
        Say(path, line, absl::StrCat(match[1].str(), " is torch's and Catch2's: use HONE_CHECK or a Logger"));
      }
      if (!MayStartProcesses(path) && std::regex_search(text, match, kProcess)) {
        Say(path, line, absl::StrCat(match[2].str(), ": processes are started by base/subprocess.h"));
      }
      if (!MayTellTheTime(path) && std::regex_search(text, match, kTimeOfDay)) {
        Say(path, line, absl::StrCat(match[0].str(), ": the machine's clock may be set; take SteadyTime of base/steady_time.h"));
      }
      if (!IsTest(path) && std::regex_search(text, match, kTimedWait)) {
        Say(path, line, absl::StrCat(match[0].str(), " goes by the time of day; take AwaitUntil of base/steady_time.h"));
      }
    }
  }

  std::string TorchIn(const std::string& path) { return FirstSeen(path, IsTorch); }
  std::string WireIn(const std::string& path) { return FirstSeen(path, IsWire); }

  /// The first include, through headers of ours, for which `matches` holds; empty if none.
  std::string FirstSeen(const std::string& path, bool (*matches)(const std::string&)) {
    std::set<std::string> seen = {path};
    std::vector<std::string> open = {path};
    while (!open.empty()) {
      const std::string file = open.back();
      open.pop_back();
      for (const Include& include : sources_[file].includes) {
        if (matches(include.path)) return include.path;
        const std::string target = Resolve(file, include.path);
        if (!target.empty() && seen.insert(target).second) open.push_back(target);
      }
    }
    return "";
  }

  std::map<std::string, Source> sources_;
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> ForbiddenArrows(const SourceTree& tree) { return Judge(tree).Violations(); }

}  // namespace hone::testing
