#include "verifier/sandbox/bubblewrap.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "tests/support/test_programs.h"

namespace hone::verifier {
namespace {

RunResult RunInside(const SandboxSpec& spec, const std::string& script) {
  SpawnOptions spawn;
  spawn.argv = InSandbox(spec, {"/usr/bin/sh", "-c", script});
  auto result = Run(spawn, absl::Seconds(20));
  REQUIRE(result.ok());
  return *std::move(result);
}

SandboxSpec WithShell() {
  SandboxSpec spec;
  spec.read_only = {"/usr"};
  spec.read_only_try = {"/bin"};
  return spec;
}

TEST_CASE("A sandboxed program sees no host files but those named, and cannot change them", "[verifier][sandbox]") {
  if (!SandboxAvailable().ok()) SKIP(SandboxAvailable().ToString());
  auto folder = TempFolder::Create("sandbox");
  REQUIRE(folder.ok());
  const std::string shown = folder->path() + "/shown";
  REQUIRE(WriteFileAtomically(shown, "text").ok());
  REQUIRE(WriteFileAtomically(folder->path() + "/hidden", "text").ok());
  SandboxSpec spec = WithShell();
  spec.read_only.push_back(shown);
  CHECK(RunInside(spec, "cat " + shown).output == "text");
  CHECK(RunInside(spec, "cat " + folder->path() + "/hidden").exit_code != 0);
  CHECK(RunInside(spec, "echo x > " + shown).exit_code != 0);
  CHECK(RunInside(spec, "touch /usr/x").exit_code != 0);
  CHECK(RunInside(spec, "test -e /root -o -e /home -o -e /etc/passwd").exit_code != 0);
}

TEST_CASE("A sandboxed program has no network, no environment, and only its own processes", "[verifier][sandbox]") {
  if (!SandboxAvailable().ok()) SKIP(SandboxAvailable().ToString());
  CHECK(RunInside(WithShell(), "tail -n +3 /proc/net/dev | grep -v ' *lo:'").output.empty());
  CHECK(RunInside(WithShell(), "echo \"$HOME$USER$HONE_PYTHON\"").output == "\n");
  CHECK(RunInside(WithShell(), "ls /proc | grep -c '^[0-9]'").output.size() == 2);  // one digit and the line's end
}

TEST_CASE("A sandboxed program can be the first process, with none of the sandbox's own beside it", "[verifier][sandbox]") {
  if (!SandboxAvailable().ok()) SKIP(SandboxAvailable().ToString());
  SandboxSpec spec = WithShell();
  CHECK(RunInside(spec, "echo $$; cat /proc/1/comm").output != "1\nsh\n");
  spec.first_process = true;
  CHECK(RunInside(spec, "echo $$; cat /proc/1/comm").output == "1\nsh\n");
}

TEST_CASE("A sandboxed program's temporary files are private and gone with it", "[verifier][sandbox]") {
  if (!SandboxAvailable().ok()) SKIP(SandboxAvailable().ToString());
  CHECK(RunInside(WithShell(), "echo x > /tmp/left && cat /tmp/left").output == "x\n");
  CHECK(RunInside(WithShell(), "test -e /tmp/left").exit_code == 1);
  CHECK_FALSE(FileExists("/tmp/left"));
}

TEST_CASE("A sandboxed program's temporary files have no room beyond their limit", "[verifier][sandbox]") {
  if (!SandboxAvailable().ok()) SKIP(SandboxAvailable().ToString());
  SandboxSpec spec = WithShell();
  spec.tmp_bytes = 1 << 20;
  CHECK(RunInside(spec, "head -c 500000 /dev/zero > /tmp/a").exit_code == 0);
  CHECK(RunInside(spec, "head -c 2000000 /dev/zero > /tmp/a").exit_code != 0);
}

TEST_CASE("A writable folder of the sandbox is the one that was handed in", "[verifier][sandbox]") {
  if (!SandboxAvailable().ok()) SKIP(SandboxAvailable().ToString());
  auto folder = TempFolder::Create("sandbox");
  REQUIRE(folder.ok());
  SandboxSpec spec = WithShell();
  spec.writable = {{folder->path(), "/work"}};
  spec.folder = "/work";
  spec.environment = {"GREETING=hello=there"};
  CHECK(RunInside(spec, "printf %s \"$GREETING\" > result").exit_code == 0);
  CHECK(ReadFile(folder->path() + "/result").value() == "hello=there");
}

// ---- Where no sandbox can be made. ----

/// The message of ChooseSandbox where `bwrap` is this script (empty: not there), in a process of its own: the answer is
/// remembered for a process's life, and the search path is that of the process.
std::string MessageWithBwrap(const TempFolder& folder, const std::string& script) {
  if (!script.empty()) {
    REQUIRE(WriteFileAtomically(folder.path() + "/bwrap", "#!/bin/sh\n" + script + "\n").ok());
    std::filesystem::permissions(folder.path() + "/bwrap", std::filesystem::perms::owner_all);
  }
  SpawnOptions spawn;
  spawn.argv = {TestProgram("hone-verifier"), "--print-config"};
  spawn.inherit_environment = false;
  spawn.environment = {"PATH=" + folder.path()};
  const auto result = Run(spawn, absl::Seconds(20));
  REQUIRE(result.ok());
  CHECK(result->exit_code == 2);
  return result->output;
}

TEST_CASE("Without a working bwrap the verifier does not start, and says what is missing and how to go on", "[verifier][sandbox]") {
  if (TestProgram("hone-verifier").empty()) SKIP("HONE_TEST_BIN names no folder with hone-verifier");
  auto folder = TempFolder::Create("sandbox");
  REQUIRE(folder.ok());
  const std::string missing = MessageWithBwrap(*folder, "");
  CHECK(absl::StrContains(missing, "apt-get install bubblewrap"));
  CHECK(absl::StrContains(missing, "HONE_SANDBOX=none"));
  const std::string refused = MessageWithBwrap(*folder, "echo bwrap: No permissions to create new namespace >&2; exit 1");
  CHECK(absl::StrContains(refused, "No permissions to create new namespace"));
  CHECK(absl::StrContains(refused, "HONE_SANDBOX=none"));
  CHECK(std::count(refused.begin(), refused.end(), '\n') == 1);
}

TEST_CASE("No sandbox is chosen only by name", "[verifier][sandbox]") {
  CHECK(ChooseSandbox("none").value() == "none");
  CHECK(absl::IsInvalidArgument(ChooseSandbox("auto").status()));
  if (SandboxAvailable().ok()) CHECK(ChooseSandbox("bubblewrap").value() == "bubblewrap");
}

TEST_CASE("Advice names the setting of the kernel or the flag of the container that forbids namespaces", "[verifier][sandbox]") {
  struct Case {
    const char* file;
    const char* content;
    const char* advice;
  };
  const Case cases[] = {
      {"/proc/sys/kernel/unprivileged_userns_clone", "0\n", "sysctl -w kernel.unprivileged_userns_clone=1"},
      {"/proc/sys/user/max_user_namespaces", "0\n", "sysctl -w user.max_user_namespaces=15000"},
      {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", "apparmor_restrict_unprivileged_userns=0"},
      {"/.dockerenv", "", "--security-opt seccomp=unconfined"},
      {"/run/.containerenv", "", "--security-opt seccomp=unconfined"},
  };
  for (const Case& c : cases) {
    auto root = TempFolder::Create("sandbox");
    REQUIRE(root.ok());
    std::filesystem::create_directories(std::filesystem::path(root->path() + c.file).parent_path());
    REQUIRE(WriteFileAtomically(root->path() + c.file, c.content).ok());
    INFO(c.file);
    CHECK(absl::StrContains(NamespaceAdvice("bwrap: setting up uid map: Permission denied", root->path()), c.advice));
  }
  auto allowed = TempFolder::Create("sandbox");
  REQUIRE(allowed.ok());
  CHECK(NamespaceAdvice("bwrap: something else", allowed->path()).empty());
}

}  // namespace
}  // namespace hone::verifier
