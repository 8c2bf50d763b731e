// Candidates that compile on a GPU keep what they compile in folders of their own: what one writes is never run as another's.

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/subprocess.h"
#include "tests/support/test_programs.h"

namespace hone::verifier {
namespace {

/// Two processes as runners make them, each with its own folder; `victim` waits until `attacker` has ended.
constexpr char kHarness[] = R"python(
import os, signal, subprocess, sys, tempfile, traceback
import torch_runner as runner

base = tempfile.mkdtemp()
runner.own_folder = lambda pid: f"{base}/candidate-{pid}"


def start(body):
    pid = os.fork()
    if pid == 0:
        try:
            body()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return pid


def refused(change):
    try:
        change()
    except OSError:
        return
    raise AssertionError("allowed")


ready, go = os.pipe(), os.pipe()


def victim():
    folder = runner.use_own_folder()
    os.makedirs(folder + "/triton/key")
    with open(folder + "/triton/key/kernel.cubin", "w") as kernel:
        kernel.write("mine")
    confined = runner.write_only_below(folder)
    os.write(ready[1], b"1" if confined else b"0")
    os.read(go[0], 1)
    assert open(folder + "/triton/key/kernel.cubin").read() == "mine" and os.listdir(folder + "/triton") == ["key"]


victim_pid = start(victim)
if os.read(ready[0], 1) == b"0":
    os.kill(victim_pid, signal.SIGKILL)
    print("no Landlock")
    sys.exit(0)
theirs = f"{base}/candidate-{victim_pid}/triton"
)python";

std::string RunScript(const std::string& script) {
  if (TestPython().empty()) SKIP("HONE_PYTHON names no Python");
  SpawnOptions spawn;
  spawn.argv = {TestPython(), "-c", absl::StrCat("import sys\nsys.path.insert(0, '", HONE_SOURCE_DIR, "/verifier/runner')\n", kHarness, script)};
  const auto run = Run(spawn, absl::Seconds(60));
  REQUIRE(run.ok());
  INFO(run->output);
  CHECK(run->exit_code == 0);
  if (absl::StrContains(run->output, "no Landlock")) SKIP("this kernel has no Landlock of 5.19");
  return run->output;
}

TEST_CASE("A candidate that compiles can change nothing of what another one compiled, nor can what it starts", "[verifier][torch]") {
  RunScript(R"python(
def attacker():
    folder = runner.use_own_folder()
    runner.write_only_below(folder)
    kernel = theirs + "/key/kernel.cubin"
    refused(lambda: open(kernel, "w"))
    refused(lambda: os.truncate(kernel, 0))
    refused(lambda: os.unlink(kernel))
    refused(lambda: os.rename(theirs + "/key", folder + "/key"))
    refused(lambda: open(theirs + "/new", "w"))
    refused(lambda: os.symlink(folder, theirs + "/link"))
    refused(lambda: os.mkdir(base + "/candidate-999999"))  # of whoever comes next
    refused(lambda: open(f"/proc/{victim_pid}/mem", "r+b"))
    shell = subprocess.run(["/bin/sh", "-c", f"echo poison > {theirs}/new"], stderr=subprocess.DEVNULL)
    assert shell.returncode != 0
    os.makedirs(folder + "/triton/part")  # what Triton itself does
    with open(folder + "/triton/part/kernel", "w") as kernel:
        kernel.write("own")
    os.replace(folder + "/triton/part/kernel", folder + "/triton/kernel")
    open("/dev/null", "w").close()


assert os.waitpid(start(attacker), 0)[1] == 0
os.write(go[1], b"x")
assert os.waitpid(victim_pid, 0)[1] == 0
)python");
}

TEST_CASE("What a candidate leaves is gone, however deep, closed or linked it is, and nothing else is", "[verifier][torch]") {
  RunScript(R"python(
def attacker():
    os.chdir(runner.use_own_folder())
    os.symlink(theirs, "link")
    os.mkdir("closed")
    open("closed/file", "w").close()
    os.chmod("closed", 0)
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")


pid = start(attacker)
assert os.waitpid(pid, 0)[1] == 0
runner.remove_folder(runner.own_folder(pid))
assert os.listdir(base) == [f"candidate-{victim_pid}"]
os.write(go[1], b"x")
assert os.waitpid(victim_pid, 0)[1] == 0
runner.remove_folder(runner.own_folder(victim_pid))
assert os.listdir(base) == []
)python");
}

}  // namespace
}  // namespace hone::verifier
