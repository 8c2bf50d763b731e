// Candidates that attack the lane, past every static rule: each gets its verdict and the next one is unaffected.

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "lane/bench.h"

namespace hone::verifier {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::Bench;
using test::kRowScale;

/// The next candidate after an attack.
void CheckUnaffected() {
  const Verdict verdict = Bench::Get().JudgeSource(kRowScale);
  INFO(verdict.message);
  CHECK(verdict.status == VerdictStatus::kOk);
}

void CheckForbidden(const std::string& body, const std::string& call) {
  const Verdict verdict = Bench::Get().JudgeHostile(body);
  INFO(call << ": " << verdict.message);
  CHECK(verdict.status == VerdictStatus::kCheat);
  REQUIRE(verdict.rules.size() == 1);
  CHECK(verdict.rules[0].rule == "forbidden_system_call");
  CHECK_THAT(verdict.rules[0].evidence, ContainsSubstring(call));
}

TEST_CASE("Creating processes and threads, sockets, files, signals and memory of code is caught", "[verifier][lane]") {
  CheckForbidden("fork(); return 0;", "clone");
  CheckForbidden("return syscall(SYS_clone3, nullptr, 0);", "clone3");
  CheckForbidden("execl(\"/bin/sh\", \"sh\", nullptr); return 0;", "execve");
  CheckForbidden("socket(AF_INET, SOCK_STREAM, 0); return 0;", "socket");
  CheckForbidden("open(\"/tmp/left\", O_WRONLY | O_CREAT, 0600); return 0;", "open");
  CheckForbidden("open(\"/etc/passwd\", O_RDONLY); return 0;", "open");
  CheckForbidden("kill(-1, SIGKILL); return 0;", "kill");
  CheckForbidden("return syscall(SYS_ptrace, 16, 1, 0, 0);", "ptrace");
  CheckForbidden("mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); return 0;", "mmap");
  CheckForbidden("return syscall(SYS_io_uring_setup, 1, nullptr);", "io_uring_setup");
  CheckForbidden("alarm(1); return 0;", "alarm");
  CheckForbidden("return syscall(SYS_process_vm_writev, 1, nullptr, 0, nullptr, 0, 0);", "process_vm_writev");
  CheckUnaffected();
}

TEST_CASE("Code that runs while the artefact loads is caught as well", "[verifier][lane]") {
  const Verdict verdict =
      Bench::Get().JudgeHostile("return 0;", "__attribute__((constructor)) void early() { socket(AF_INET, SOCK_STREAM, 0); }");
  CHECK(verdict.status == VerdictStatus::kCheat);
  const Verdict writer = Bench::Get().JudgeHostile(
      "return 0;", "__attribute__((constructor)) void early() { open(\"/tmp/x\", O_RDWR | O_CREAT, 0600); }");
  CHECK(writer.status == VerdictStatus::kCheat);
  CheckUnaffected();
}

TEST_CASE("A crash, an abort, an early exit and a division by zero are RUNTIME", "[verifier][lane]") {
  Bench& bench = Bench::Get();
  CHECK(bench.JudgeHostile("*(volatile int*)8 = 1; return 0;").status == VerdictStatus::kRuntime);
  const Verdict abort = bench.JudgeHostile("fprintf(stderr, \"gave up\\n\"); abort();");
  CHECK(abort.status == VerdictStatus::kRuntime);
  CHECK_THAT(abort.message, ContainsSubstring("abort()") && ContainsSubstring("gave up"));
  const Verdict exit = bench.JudgeHostile("_exit(0);");
  CHECK(exit.status == VerdictStatus::kRuntime);
  CHECK_THAT(exit.message, ContainsSubstring("exit code 0"));
  CHECK_THAT(bench.JudgeHostile("volatile int z = 0; return 7 / z;").message, ContainsSubstring("division by zero"));
  CHECK(bench.JudgeHostile("return 0;", "int f(int n) { volatile char a[4096]; a[0] = 1; return f(n + 1) + a[0]; }\n"
                                        "__attribute__((constructor)) void early() { f(0); }")
            .status == VerdictStatus::kRuntime);
  CheckUnaffected();
}

TEST_CASE("Sleeping and looping for ever are TIMEOUT", "[verifier][lane]") {
  Bench& bench = Bench::Get();
  CHECK(bench.JudgeHostile("while (1) usleep(1000); return 0;").status == VerdictStatus::kTimeout);
  CHECK(bench.JudgeHostile("for (volatile int i = 0;; ++i) {} return 0;").status == VerdictStatus::kTimeout);
  CheckUnaffected();
}

TEST_CASE("A flood of output neither blocks nor fills anything", "[verifier][lane]") {
  const Verdict verdict =
      Bench::Get().JudgeHostile("for (int i = 0; i < 200000; ++i) fprintf(stderr, \"%d flood flood flood\\n\", i); return 7;");
  CHECK(verdict.status == VerdictStatus::kRuntime);
  CHECK(verdict.message.size() < 1000);
  CheckUnaffected();
}

TEST_CASE("A forged answer is CHEAT, whatever its form", "[verifier][lane]") {
  Bench& bench = Bench::Get();
  const Verdict noise = bench.JudgeHostile("char noise[100] = {1, 2, 3}; send(3, noise, sizeof noise, 0); while (1) usleep(1000);");
  CHECK(noise.status == VerdictStatus::kCheat);
  CHECK(noise.rules[0].rule == "forged_answer");
  const Verdict big = bench.JudgeHostile("static char big[60000]; send(3, big, sizeof big, 0); return 0;");
  CHECK(big.status == VerdictStatus::kCheat);
  const Verdict empty = bench.JudgeHostile("send(3, \"\", 0, 0); return 0;");
  CHECK(empty.status == VerdictStatus::kCheat);
  const Verdict closed = bench.JudgeHostile("close(3); while (1) usleep(1000);");
  CHECK(closed.status == VerdictStatus::kCheat);
  CheckUnaffected();
}

TEST_CASE("A true-looking answer sent before the work is done convinces nobody", "[verifier][lane]") {
  // The runner's own answer with the right magic and epoch, while the outputs stay poisoned.
  const Verdict verdict = Bench::Get().JudgeHostile(R"(
    struct { unsigned magic, kind; unsigned long long epoch; char rest[400]; } answer = {0x31454e48, 4, 0, {}};
    static unsigned long long epoch = 2; answer.epoch = ++epoch;
    send(3, &answer, 296, 0);
    while (1) usleep(1000);)");
  CHECK(verdict.status != VerdictStatus::kOk);
  CheckUnaffected();
}

TEST_CASE("Inputs cannot be written, not even by mapping or opening them anew", "[verifier][lane]") {
  Bench& bench = Bench::Get();
  const Verdict store = bench.JudgeHostile("*(float*)call->tensors[0].data = 1; return 0;");
  CHECK(store.status == VerdictStatus::kRuntime);
  const Verdict protect = bench.JudgeHostile(
      "unsigned long at = (unsigned long)call->tensors[0].data & ~4095ul;"
      "if (mprotect((void*)at, 4096, PROT_READ | PROT_WRITE) == 0) return 0; return 77;");
  CHECK(protect.status == VerdictStatus::kRuntime);
  CHECK_THAT(protect.message, ContainsSubstring("77"));
  CheckUnaffected();
}

TEST_CASE("Memory beyond the limit is refused by the system and costs only the candidate", "[verifier][lane]") {
  const Verdict verdict = Bench::Get().JudgeHostile(
      "for (int i = 0; i < 64; ++i) { char* p = (char*)malloc(1 << 28); if (!p) return 2; memset(p, 1, 4096); } return 0;");
  CHECK(verdict.status == VerdictStatus::kOom);
  CheckUnaffected();
}

}  // namespace
}  // namespace hone::verifier
