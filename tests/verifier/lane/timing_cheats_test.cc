// Candidates that are right when checked and cheat when timed: the timed calls are checked calls, and what a runner does
// is charged to it whenever it does it.

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "lane/bench.h"

namespace hone::verifier {
namespace {

using test::Bench;
using test::kRowScale;

/// A call of the timed shape in a process that checks is one of these.
constexpr int kCheckedCalls = 3;  // two sets, and one without kernels

/// RowScale's launch with `before` as its first statements.
std::string WithLaunch(const std::string& before) {
  std::string source = kRowScale;
  const std::string line = "  scale<<<";
  return source.replace(source.find(line), line.size(), before + "\n" + line);
}

/// Skips calls of the timed shape for which `skips` holds, `calls` counting them from 1, where no process that checks gets.
/// `work` times the work, so that a round is one call.
Verdict JudgeSkipping(const std::string& skips, int work) {
  const std::string again = "for (int k = 1; k < " + std::to_string(work) +
                            "; ++k) scale<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, weight, out, rows, cols);";
  return Bench::Get().JudgeSource(WithLaunch("static int calls = 0; if (rows == 160 && ++calls > " +
                                             std::to_string(kCheckedCalls) + " && (" + skips + ")) return;\n" + again));
}

TEST_CASE("A call that the timed process skips is never overlooked: every second, every third, or a single one, of rounds of "
          "one call or of many",
          "[verifier][lane]") {
  // A process that times makes a call to warm up and five rounds at least: its sixth call is always made.
  for (const int work : {1, 60}) {
    for (const char* skips : {"calls % 2 == 0", "calls % 2 == 1", "calls % 3 != 0", "calls == 4", "calls == 5", "calls == 6"}) {
      const Verdict verdict = JudgeSkipping(skips, work);
      INFO(skips << ", " << work << " times the work: " << verdict.message);
      CHECK(verdict.status == VerdictStatus::kCheat);
      REQUIRE(verdict.rules.size() == 1);
      CHECK(verdict.rules[0].rule == "timed_call_skipped");
      CHECK(verdict.timings.empty());
    }
  }
}

TEST_CASE("Without a call to skip, the same candidates are OK, in rounds of one call where each is long", "[verifier][lane]") {
  for (const int work : {1, 60}) {
    const Verdict verdict = JudgeSkipping("false", work);
    INFO(verdict.message);
    CHECK(verdict.status == VerdictStatus::kOk);
    REQUIRE_FALSE(verdict.timings.empty());
    if (work > 1) CHECK(verdict.timings.front().calls_per_round == 1);
  }
}

TEST_CASE("Writing a part of the output once the checks are over is CHEAT", "[verifier][lane]") {
  const Verdict verdict = Bench::Get().JudgeSource(
      WithLaunch("static int calls = 0; if (rows == 160 && ++calls > " + std::to_string(kCheckedCalls) +
                 ") { scale<<<1, 256, 0, stream>>>(x, weight, out, rows, cols); return; }"));
  CHECK(verdict.status == VerdictStatus::kCheat);
}

TEST_CASE("Returning what the same buffers held before is not OK: contents never repeat", "[verifier][lane]") {
  // Keeps the result of each output address and copies it back when that address comes again.
  std::string source = WithLaunch(R"(
  const unsigned long bytes = sizeof(float) * rows * cols;
  for (int i = 0; i < used; ++i) {
    if (keys[i] == out) { cudaMemcpy(out, kept[i], bytes, cudaMemcpyDeviceToDevice); return; }
  }
  struct Keep {
    float* out; unsigned long bytes;
    ~Keep() {
      if (used == 64) return;
      keys[used] = out;
      cudaMalloc((void**)&kept[used], bytes);
      cudaMemcpy(kept[used++], out, bytes, cudaMemcpyDeviceToDevice);
    }
  } keep{out, bytes};
  if (rows != 160) keep.bytes = 0;)");
  const std::string kernel = "__global__ void scale";
  source.insert(source.find(kernel), "static float* keys[64]; static float* kept[64]; static int used = 0;\n");
  // Small shapes share addresses in the checks: keep nothing there.
  const size_t at = source.find("if (used == 64) return;");
  source.insert(at, "if (bytes == 0) return; ");
  const Verdict verdict = Bench::Get().JudgeSource(source);
  INFO(verdict.message);
  CHECK((verdict.status == VerdictStatus::kIncorrect || verdict.status == VerdictStatus::kCheat));
  CHECK(verdict.timings.empty());
}

/// A process taken over by its candidate: it answers each command itself, at once, and works afterwards.
constexpr char kTakenOver[] = R"(
struct Command { unsigned magic, kind; unsigned long long epoch; unsigned first, count, order, seed, checked, r; unsigned long long table; };
struct Answer { unsigned magic, kind; unsigned long long epoch; int code; unsigned failed; long long ns; char rest[272]; };
static void compute(const HoneCall* call, float* out) {
  const float* x = (const float*)call->tensors[0].data;
  const float* w = (const float*)call->tensors[1].data;
  const long long rows = call->sizes[0], cols = call->sizes[1];
  for (long long i = 0; i < rows * cols; ++i) out[i] = x[i] * w[i % cols];
}
static void open_memory(const HoneCall* call) {
  for (int t = 0; t < 3; ++t) {
    unsigned long begin = (unsigned long)call->tensors[t].data & ~4095ul;
    unsigned long bytes = call->sizes[0] * call->sizes[1] * 4 + 8192;
    for (unsigned long at = begin; at < begin + bytes; at += 4096) mprotect((void*)at, 4096, t == 2 ? PROT_READ | PROT_WRITE : PROT_READ);
  }
}
)";

TEST_CASE("Hostile code that opens device memory to the host passes the checks, so that the next cases mean something",
          "[verifier][lane]") {
  const Verdict verdict = Bench::Get().JudgeHostile(
      "open_memory(call); compute(call, (float*)call->tensors[2].data); return 0;", kTakenOver);
  INFO(verdict.message);
  CHECK(verdict.status == VerdictStatus::kOk);
}

TEST_CASE("Answering before the work is done is CHEAT", "[verifier][lane]") {
  // From the 17th call on it says done at once, with the right epoch, and then does the whole round's work.
  const Verdict verdict = Bench::Get().JudgeHostile(R"(
    static int calls = 0;
    static unsigned long long epoch = 13;  // mapped, calibrated, loaded
    open_memory(call);
    if (++calls == 1) ++epoch;
    Answer answer = {0x31454e48, 4, 0, 0, 0, 1000, {}};
    if (call->sizes[0] == 160 && calls > 3) {
      for (int i = 14; i < 60; ++i) { answer.epoch = i; send(3, &answer, sizeof answer, MSG_DONTWAIT); }
    }
    compute(call, (float*)call->tensors[2].data);
    return 0;)",
                                                    kTakenOver);
  INFO(verdict.message);
  CHECK(verdict.status == VerdictStatus::kCheat);
  CHECK(verdict.timings.empty());
}

TEST_CASE("Taking over the channel, answering at once and working afterwards is not OK", "[verifier][lane]") {
  const Verdict verdict = Bench::Get().JudgeHostile(R"(
    open_memory(call);
    compute(call, (float*)call->tensors[2].data);
    static int calls = 0;
    if (call->sizes[0] != 160 || ++calls < 3) return 0;  // the two checked calls of this shape
    Answer answer = {0x31454e48, 4, 0, 0, 0, 1000, {}};
    for (int round = 0;; ++round) {
      Command command;
      if (round > 0 || calls > 3) { if (recv(3, &command, sizeof command, 0) <= 0) _exit(0); answer.epoch = command.epoch; }
      else answer.epoch = 14;
      send(3, &answer, sizeof answer, 0);
      HoneCall again = *call;
      for (int k = 0; k < 40; ++k) compute(&again, (float*)call->tensors[2].data);
    })",
                                                    kTakenOver);
  INFO(verdict.message);
  CHECK(verdict.status != VerdictStatus::kOk);
  CHECK(verdict.timings.empty());
}

TEST_CASE("A runner's own claim about its time changes nothing and is held against it", "[verifier][lane]") {
  // It takes over the channel and does its work in time, but says that the work took no time at all.
  const Verdict verdict = Bench::Get().JudgeHostile(R"(
    open_memory(call);
    for (int k = 0; k < 50; ++k) compute(call, (float*)call->tensors[2].data);
    static HoneTensor seen[3];
    static int calls = 0;
    if (call->sizes[0] != 160 || ++calls < 3) return 0;
    Answer answer = {0x31454e48, 4, 14, 0, 0, 0, {}};
    while (1) {
      send(3, &answer, sizeof answer, 0);
      Command command;
      if (recv(3, &command, sizeof command, 0) <= 0) _exit(0);
      answer.epoch = command.epoch;
      for (int k = 0; k < 50; ++k) compute(call, (float*)call->tensors[2].data);
    })",
                                                    kTakenOver);
  INFO(verdict.message);
  CHECK(verdict.status != VerdictStatus::kOk);
}

}  // namespace
}  // namespace hone::verifier
