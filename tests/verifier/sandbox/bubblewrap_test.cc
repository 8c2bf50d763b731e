#include "verifier/sandbox/bubblewrap.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/subprocess.h"

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

TEST_CASE("A sandboxed program's temporary files are private and gone with it", "[verifier][sandbox]") {
  if (!SandboxAvailable().ok()) SKIP(SandboxAvailable().ToString());
  CHECK(RunInside(WithShell(), "echo x > /tmp/left && cat /tmp/left").output == "x\n");
  CHECK(RunInside(WithShell(), "test -e /tmp/left").exit_code == 1);
  CHECK_FALSE(FileExists("/tmp/left"));
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

}  // namespace
}  // namespace hone::verifier
