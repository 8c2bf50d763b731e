#include <cctype>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "structure/arrows.h"

namespace hone::testing {
namespace {

namespace fs = std::filesystem;

/// Our sources: every file with a source's name, outside of hidden folders, build folders and ../shared's copies.
SourceTree ReadTree(const fs::path& root) {
  SourceTree tree;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory()) {
      const bool top = entry.depth() == 0;
      if (name[0] == '.' || (top && (name == "build" || name == "runs" || name == "device-out"))) {
        entry.disable_recursion_pending();
      }
      continue;
    }
    if (!absl::EndsWith(name, ".h") && !absl::EndsWith(name, ".cc") && !absl::EndsWith(name, ".inc")) continue;
    tree[fs::relative(entry->path(), root).generic_string()] = ReadFile(entry->path().string()).value();
  }
  return tree;
}

TEST_CASE("No source of hone crosses an arrow of the design", "[structure]") {
  const SourceTree tree = ReadTree(HONE_SOURCE_FOLDER);
  REQUIRE(tree.count("base/file.h") == 1);
  REQUIRE(tree.size() > 100);
  const std::vector<std::string> violations = ForbiddenArrows(tree);
  INFO(absl::StrJoin(violations, "\n"));
  CHECK(violations.empty());
}

/// The README, CONTRIBUTING.md and every page.
std::vector<std::string> Pages(const std::string& root) {
  std::vector<std::string> pages = {root + "/README.md", root + "/CONTRIBUTING.md"};
  for (const auto& entry : fs::directory_iterator(root + "/docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path().string());
  }
  return pages;
}

/// What pages mean by something of this form that is no path: metrics, what a run writes, and the files that a page has one add.
bool IsNoPath(const std::string& page, const std::string& path) {
  static const std::regex kElsewhere("rollout/(response_tokens|turns|tokens|tokens_per_s)|verifier/artefacts");
  return std::regex_match(path, kElsewhere) ||
         (absl::EndsWith(page, "add_a_reward.md") && path.find("/certainty") != std::string::npos);
}

TEST_CASE("Every file and folder that a page names is there", "[structure][docs]") {
  const std::string root = HONE_SOURCE_FOLDER;
  static const std::regex kPath(
      "(?:^|[^A-Za-z0-9_./-])((?:base|bench|cli|cmake|deploy|docs|examples|policy|proto|rewards|rollout|tasks|tests|trainer|verifier)"
      "/[A-Za-z0-9_./-]*[A-Za-z0-9_/])");
  std::set<std::string> paths;
  for (const std::string& page : Pages(root)) {
    const std::string text = ReadFile(page).value();
    for (std::sregex_iterator match(text.begin(), text.end(), kPath), end; match != end; ++match) {
      const std::string path = (*match)[1].str();
      if (IsNoPath(page, path)) continue;
      paths.insert(path);
      INFO(page << " names " << path);
      const std::string full = root + "/" + path;  // a page may leave off the end of a source's name
      CHECK((fs::exists(full) || fs::exists(full + ".h") || fs::exists(full + ".cc") || fs::exists(full + ".py")));
    }
  }
  CHECK(paths.size() > 100);
}

/// The anchor that a page's heading gets.
std::string Anchor(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ') anchor += '-';
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') anchor += static_cast<char>(std::tolower(c));
  }
  return anchor;
}

TEST_CASE("Every link between pages leads to a page, and to a heading of it", "[structure][docs]") {
  static const std::regex kLink("\\]\\(([A-Za-z0-9_./-]*)(#[A-Za-z0-9_-]+)?\\)"), kHeading("(?:^|\\n)#+ ([^\\n]+)");
  int links = 0;
  for (const std::string& page : Pages(HONE_SOURCE_FOLDER)) {
    const std::string text = ReadFile(page).value();
    for (std::sregex_iterator match(text.begin(), text.end(), kLink), end; match != end; ++match, ++links) {
      INFO(page << " links to " << match->str());
      const fs::path target = match->length(1) == 0 ? fs::path(page) : fs::path(page).parent_path() / (*match)[1].str();
      REQUIRE(fs::exists(target));
      if (match->length(2) == 0) continue;
      const std::string there = ReadFile(target.string()).value();
      bool found = false;
      for (std::sregex_iterator heading(there.begin(), there.end(), kHeading); heading != end; ++heading) {
        found = found || "#" + Anchor((*heading)[1].str()) == (*match)[2].str();
      }
      CHECK(found);
    }
  }
  CHECK(links > 30);
}

TEST_CASE("Every page that the list of pages names is there", "[structure][docs]") {
  const std::string root = HONE_SOURCE_FOLDER "/docs/";
  const std::string text = ReadFile(root + "README.md").value();
  static const std::regex kLink("\\]\\(([a-z0-9_./]+\\.md)\\)");
  int links = 0;
  for (std::sregex_iterator match(text.begin(), text.end(), kLink), end; match != end; ++match, ++links) {
    INFO((*match)[1].str());
    CHECK(fs::exists(root + (*match)[1].str()));
  }
  CHECK(links > 15);
}

// ---- The checker itself, on small trees with one fault each. ----

using Violations = std::vector<std::string>;

TEST_CASE("Allowed arrows pass", "[structure]") {
  CHECK(ForbiddenArrows({
            {"base/a.h", "#include <string>\n#include \"absl/strings/str_cat.h\"\n"},
            {"rewards/b.h", "#include \"base/a.h\"\n"},
            {"verifier/client/client.h", "#include \"base/a.h\"\n"},
            {"verifier/client/client.cc", "#include \"verifier/client/client.h\"\n#include \"hone/v1/x.pb.h\"\n"},
            {"policy/p.h", "#include <ATen/core/Tensor.h>\n#include \"base/a.h\"\n"},
            {"rollout/engine/e.cc", "#include \"policy/p.h\"\n#include <torch/torch.h>\n"},
            {"rollout/episode/d.h", "#include \"verifier/client/client.h\"\n#include \"rewards/b.h\"\n"},
            {"trainer/comm/n.cc", "#include <nccl.h>\n"},
            {"trainer/coordinator/c.cc", "#include \"hone/v1/x.pb.h\"\n#include \"rollout/episode/d.h\"\n"},
            {"cli/main.cc", "#include \"rollout/episode/d.h\"\n"},
            {"tests/support/catch_torch.h", "#include <torch/torch.h>\n#include <catch2/catch_test_macros.hpp>\n"},
            {"tests/policy/p_test.cc", "#include \"tests/support/catch_torch.h\"\n#include \"policy/p.h\"\n"},
            {"tests/base/a_test.cc", "#include <catch2/catch_test_macros.hpp>\n#include \"base/a.h\"\nCHECK(1);\n"},
        }) == Violations{});
}

TEST_CASE("Each forbidden arrow between folders is found", "[structure]") {
  const std::vector<std::pair<std::string, std::string>> forbidden = {
      {"base/a.cc", "rewards/t.h"},
      {"base/a.cc", "proto/t.h"},
      {"proto/a.cc", "verifier/t.h"},
      {"rewards/a.cc", "proto/t.h"},
      {"rewards/a.cc", "verifier/t.h"},
      {"rewards/a.cc", "policy/t.h"},
      {"verifier/lane/a.cc", "policy/t.h"},
      {"verifier/a.cc", "rewards/t.h"},
      {"verifier/a.cc", "rollout/t.h"},
      {"policy/a.cc", "rollout/t.h"},
      {"policy/a.cc", "verifier/client/t.h"},
      {"policy/a.cc", "rewards/t.h"},
      {"rollout/a.cc", "verifier/lane/t.h"},
      {"rollout/a.cc", "proto/t.h"},
      {"rollout/a.cc", "trainer/t.h"},
      {"trainer/a.cc", "proto/t.h"},
      {"trainer/a.cc", "verifier/client/t.h"},
      {"trainer/a.cc", "cli/t.h"},
      {"cli/a.cc", "tests/t.h"},
      {"bench/a.cc", "tests/t.h"},
      {"cli/a.cc", "bench/t.h"},
  };
  for (const auto& [from, to] : forbidden) {
    const Violations found = ForbiddenArrows({{from, "\n#include \"" + to + "\"\n"}, {to, ""}});
    INFO(from << " -> " << to << ": " << absl::StrJoin(found, "\n"));
    REQUIRE(found.size() == 1);
    CHECK(absl::StartsWith(found[0], from + ":2: includes " + to + ": "));
  }
}

TEST_CASE("An arrow is named with what would be allowed", "[structure]") {
  CHECK(ForbiddenArrows({{"rewards/a.cc", "#include \"policy/p.h\""}, {"policy/p.h", ""}}) ==
        Violations{"rewards/a.cc:1: includes policy/p.h: rewards/ may use base/, rewards/"});
}

TEST_CASE("Sources in a folder that the design does not have are found", "[structure]") {
  CHECK(ForbiddenArrows({{"helpers/a.cc", "#include \"base/b.h\"\n"}, {"base/b.h", ""}}).size() == 1);
}

TEST_CASE("Torch outside of its folders is found", "[structure]") {
  for (const char* path : {"base/a.cc", "rewards/a.h", "verifier/lane/a.cc", "rollout/prompt/a.cc", "cli/a.cc"}) {
    for (const char* header : {"<torch/torch.h>", "<ATen/ATen.h>", "\"c10/util/Half.h\""}) {
      CHECK(ForbiddenArrows({{path, std::string("#include ") + header + "\n"}}).size() == 1);
    }
  }
}

TEST_CASE("NCCL, yaml-cpp and Python outside of their places are found", "[structure]") {
  CHECK(ForbiddenArrows({{"trainer/loop/a.cc", "#include <nccl.h>\n"}}).size() == 1);
  CHECK(ForbiddenArrows({{"trainer/a.cc", "#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>\n"}}).size() ==
        1);
  CHECK(ForbiddenArrows({{"rewards/a.cc", "#include <yaml-cpp/yaml.h>\n"}}).size() == 1);
  CHECK(ForbiddenArrows({{"base/config_tree.cc", "#include <yaml-cpp/parser.h>\n"}}).empty());
  CHECK(ForbiddenArrows({{"verifier/lane/a.cc", "#include <Python.h>\n"}}).size() == 1);
}

TEST_CASE("The wire is found wherever it leaks, also by way of a header", "[structure]") {
  CHECK(ForbiddenArrows({{"verifier/lane/a.cc", "#include \"hone/v1/x.pb.h\"\n"}}).size() == 1);
  CHECK(ForbiddenArrows({{"verifier/queue/a.cc", "#include <grpcpp/grpcpp.h>\n"}}).size() == 1);
  CHECK(ForbiddenArrows({{"verifier/client/client.h", "#include \"hone/v1/x.pb.h\"\n"}}).size() == 1);
  CHECK(ForbiddenArrows({{"trainer/coordinator/c.h", "#include \"hone/v1/x.pb.h\"\n"}}).size() == 1);
  const SourceTree leak = {{"proto/convert.h", "#include \"hone/v1/x.pb.h\"\n"},
                           {"verifier/service/s.h", "#include \"proto/convert.h\"\n"},
                           {"verifier/lane/a.cc", "#include \"verifier/service/s.h\"\n"}};
  const Violations found = ForbiddenArrows(leak);
  REQUIRE(found.size() == 1);
  CHECK(absl::StartsWith(found[0], "verifier/lane/a.cc:1: sees hone/v1/x.pb.h"));
}

TEST_CASE("Torch and generated messages in one unit are found, also by way of headers", "[structure]") {
  const Violations found =
      ForbiddenArrows({{"policy/p.h", "#include <torch/torch.h>\n"},
                       {"proto/convert.h", "#include \"hone/v1/x.pb.h\"\n"},
                       {"trainer/coordinator/c.cc", "#include \"policy/p.h\"\n#include \"proto/convert.h\"\n"}});
  CHECK(found == Violations{"trainer/coordinator/c.cc:1: sees both hone/v1/x.pb.h and torch/torch.h"});
}

TEST_CASE("A test that sees torch and takes Catch2 directly is found", "[structure]") {
  const Violations found = ForbiddenArrows(
      {{"policy/p.h", "#include <torch/torch.h>\n"},
       {"tests/policy/p_test.cc", "#include <catch2/catch_test_macros.hpp>\n#include \"policy/p.h\"\n"}});
  REQUIRE(found.size() == 1);
  CHECK(absl::StrContains(found[0], "support/catch_torch.h"));
}

TEST_CASE("Bare CHECK and LOG are found in code, not in comments, literals or longer words", "[structure]") {
  CHECK(ForbiddenArrows({{"base/a.cc", "void F() {\n  CHECK(true);\n}\n"}}) ==
        Violations{"base/a.cc:2: CHECK is torch's and Catch2's: use HONE_CHECK or a Logger"});
  for (const char* bad : {"LOG(INFO) << 1;", "DCHECK(x);", "CHECK_EQ(a, b);", "VLOG(1);", "/* c */ CHECK (x);"}) {
    CHECK(ForbiddenArrows({{"base/a.cc", bad}}).size() == 1);
  }
  for (const char* good :
       {"HONE_CHECK(x);", "// CHECK(x)", "/* LOG(x)\n CHECK(y) */", "f(\"CHECK(x)\");", "R\"(CHECK(x))\";",
        "R\"x(\n\"CHECK(x)\n)x\";", "'\"'; \"CHECK(x)\";", "1'000; \"'\";", "\"\\\"CHECK(x)\""}) {
    INFO(good);
    CHECK(ForbiddenArrows({{"base/a.cc", good}}).empty());
  }
}

TEST_CASE("An include in a comment or a literal is none, an odd but real one is", "[structure]") {
  for (const char* none : {"// #include \"policy/p.h\"\n", "/*\n#include \"policy/p.h\"\n*/",
                           "R\"(\n#include \"policy/p.h\"\n)\"", "f(\"#include <torch/torch.h>\");"}) {
    INFO(none);
    CHECK(ForbiddenArrows({{"base/a.cc", none}, {"policy/p.h", ""}}).empty());
  }
  for (const char* real : {"#include \"policy/p.h\"", "  #  include\t\"policy/p.h\"  // why",
                           "int x;\n#include \"policy/p.h\"\n", "/* c */\n#include <policy/p.h>\n"}) {
    INFO(real);
    CHECK(ForbiddenArrows({{"base/a.cc", real}, {"policy/p.h", ""}}).size() == 1);
  }
}

TEST_CASE("Starting processes past base/subprocess.h is found", "[structure]") {
  for (const char* bad : {"pid = fork();", "if (::fork() == 0)", "std::system(\"ls\");", "FILE* f = popen(c, m);",
                          "posix_spawn(&p, 0);"}) {
    INFO(bad);
    CHECK(ForbiddenArrows({{"verifier/service/a.cc", bad}}).size() == 1);
    CHECK(ForbiddenArrows({{"base/subprocess.cc", bad}}).empty());
  }
  for (const char* good : {"object.system(1);", "pointer->fork();", "file_system(1);", "Mine::fork();"}) {
    INFO(good);
    CHECK(ForbiddenArrows({{"verifier/service/a.cc", good}}).empty());
  }
}

TEST_CASE("Waiting by the time of day, which may be set, is found", "[structure]") {
  for (const char* bad : {"const auto end = absl::Now() + wait;", "std::function<absl::Time()> now = absl::Now;",
                          "std::chrono::system_clock::now()", "std::time(nullptr)", "clock_gettime(CLOCK_REALTIME, &t);"}) {
    INFO(bad);
    CHECK(ForbiddenArrows({{"verifier/lane/a.cc", bad}}).size() == 1);
    CHECK(ForbiddenArrows({{"base/subprocess.cc", bad}}).size() == 1);
    CHECK(ForbiddenArrows({{"base/clock.cc", bad}}).empty());
  }
  for (const char* bad : {"mutex.AwaitWithTimeout(c, d);", "wake.WaitWithDeadline(&mutex, t);",
                          "done.WaitForNotificationWithTimeout(d);"}) {
    INFO(bad);
    CHECK(ForbiddenArrows({{"base/clock.cc", bad}}).size() == 1);
  }
  for (const char* good : {"SteadyTime::Now() + wait", "absl::Time told;", "// as absl::Now()", "runtime(0);"}) {
    INFO(good);
    CHECK(ForbiddenArrows({{"verifier/lane/a.cc", good}}).empty());
  }
}

TEST_CASE("Quoted includes that start elsewhere than at the root are found", "[structure]") {
  CHECK(ForbiddenArrows({{"base/a.cc", "#include \"b.h\"\n"}, {"base/b.h", ""}}).size() == 1);
  CHECK(ForbiddenArrows({{"base/a.cc", "#include \"../base/b.h\"\n"}, {"base/b.h", ""}}).size() == 1);
  CHECK(ForbiddenArrows({{"base/a.cc", "#include \"json/json.hpp\"\n"}}).size() == 1);
  CHECK(ForbiddenArrows({{"base/a.cc", "#include \"base/generated.h\"\n"}}).empty());
  CHECK(ForbiddenArrows({{"tests/base/x/a.cc", "#include \"b.h\"\n#include \"support/c.h\"\n#include \"x/d.h\"\n"},
                         {"tests/base/x/b.h", ""},
                         {"tests/base/x/d.h", ""},
                         {"tests/support/c.h", ""}})
            .empty());
}

}  // namespace
}  // namespace hone::testing
