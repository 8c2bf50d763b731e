#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <csignal>

#include <map>
#include <sstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/subprocess.h"
#include "tests/support/free_port.h"
#include "tests/support/memory_folder.h"
#include "trainer/comm/rank_environment.h"

namespace hone::trainer {
namespace {

// All ranks of a job, run to their ends.
std::vector<RunResult> RunRanks(int world, const std::string& what, const std::string& argument = "", int started = -1,
                                const std::string& further = "") {
  const int port = FreePort();
  std::vector<RunResult> results(world);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < (started < 0 ? world : started); ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = Run({.argv = {HONE_RANK_PROGRAM, what, argument, further},
                           .environment = {absl::StrCat("RANK=", rank), absl::StrCat("WORLD_SIZE=", world),
                                           absl::StrCat("LOCAL_RANK=", rank), "MASTER_ADDR=127.0.0.1",
                                           absl::StrCat("MASTER_PORT=", port)}},
                          absl::Seconds(60))
                          .value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Every number of the output in order, words aside.
std::vector<double> Numbers(const std::string& output) {
  std::vector<double> numbers;
  std::istringstream words(output);
  for (std::string word; words >> word;) {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (end != word.c_str() && *end == 0) numbers.push_back(value);
  }
  return numbers;
}

void CheckClose(const std::string& got, const std::string& want, double tolerance) {
  const std::vector<double> g = Numbers(got), w = Numbers(want);
  INFO("got\n" << got << "want\n" << want);
  REQUIRE(g.size() == w.size());
  REQUIRE(g.size() > 20);
  for (size_t i = 0; i < g.size(); ++i)
    CHECK_THAT(g[i], Catch::Matchers::WithinAbs(w[i], tolerance * (1 + std::abs(w[i]))));
}

TEST_CASE("Collectives between three processes give what their definitions say", "[trainer][comm]") {
  for (const RunResult& result : RunRanks(3, "collectives")) {
    INFO(result.output);
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("One rank and four learn the same from the same batch, to 1e-6", "[trainer][comm]") {
  for (const char* options : {"", "rl", "checkpointed", "lora", "lora replicated", "serial"}) {
    INFO(options);
    const std::string alone = RunRanks(1, "train", options)[0].output;
    const std::vector<RunResult> four = RunRanks(4, "train", options);
    for (const RunResult& result : four) {
      INFO(result.output);
      REQUIRE(result.exit_code == 0);
      CHECK(result.output == four[0].output);  // ranks agree to the bit
    }
    CheckClose(four[0].output, alone, 1e-6);
  }
}

TEST_CASE("A rank without sequences takes part with empty passes", "[trainer][comm]") {
  const std::string alone = RunRanks(1, "train", "uneven")[0].output;
  const std::vector<RunResult> two = RunRanks(2, "train", "uneven");
  for (const RunResult& result : two) REQUIRE(result.exit_code == 0);
  CheckClose(two[0].output, alone, 1e-6);
  const std::vector<RunResult> rl = RunRanks(2, "train", "rl uneven");
  for (const RunResult& result : rl) REQUIRE(result.exit_code == 0);
  CheckClose(rl[1].output, RunRanks(1, "train", "rl")[0].output, 1e-6);
}

TEST_CASE("Two ranks learn in bf16 what one does, up to its rounding", "[trainer][comm]") {
  const std::vector<RunResult> two = RunRanks(2, "train", "half");
  for (const RunResult& result : two) REQUIRE(result.exit_code == 0);
  CheckClose(two[1].output, RunRanks(1, "train", "half")[0].output, 2e-2);
}

// The lines of steps after `from`.
std::string After(const std::string& output, int from) {
  const size_t at = output.find(absl::StrCat("step ", from + 1, " "));
  return at == std::string::npos ? "" : output.substr(at);
}

TEST_CASE("A job goes on from its checkpoint to the bit, and with another number of ranks up to the order of sums",
          "[trainer][comm]") {
  for (const char* what : {"resume", "resume_half"}) {
    INFO(what);
    const TempFolder whole = MemoryFolder("whole"), cut = MemoryFolder("cut");
    const std::string straight = RunRanks(2, what, whole.path(), -1, "5")[0].output;
    REQUIRE(RunRanks(2, what, cut.path(), -1, "3")[0].exit_code == 0);
    const RunResult same = RunRanks(2, what, cut.path(), -1, "4")[1];
    CHECK(same.exit_code == 0);
    CHECK(same.output == After(straight, 3).substr(0, same.output.size()));
    CHECK(!same.output.empty());
    const RunResult three = RunRanks(3, what, cut.path(), -1, "5")[2];
    INFO(three.output);
    REQUIRE(three.exit_code == 0);
    const std::vector<double> got = Numbers(three.output), want = Numbers(After(straight, 4));
    REQUIRE(got.size() == 3);
    REQUIRE(want.size() == 3);
    for (size_t i = 0; i < got.size(); ++i)
      CHECK_THAT(got[i], Catch::Matchers::WithinRel(want[i], std::string(what) == "resume" ? 1e-5 : 2e-2));
  }
}

TEST_CASE("When a rank is killed the others end with its name", "[trainer][comm]") {
  const std::vector<RunResult> results = RunRanks(3, "die", "1");
  CHECK(results[1].exit_code == 128 + SIGKILL);
  for (int rank : {0, 2}) {
    INFO(results[rank].output);
    CHECK(results[rank].exit_code == 1);
    CHECK(absl::StrContains(results[rank].output, "rank 1 has not been heard of"));
    CHECK(results[rank].seconds < 60);
  }
}

TEST_CASE("When the rank that hosts the store is killed the others end and say so", "[trainer][comm]") {
  const std::vector<RunResult> results = RunRanks(2, "die", "0");
  INFO(results[1].output);
  CHECK(results[1].exit_code == 1);
  CHECK(absl::StrContains(results[1].output, "rank 0"));
}

TEST_CASE("An operation that a living rank does not join ends at its time-out and names the rank", "[trainer][comm]") {
  const std::vector<RunResult> results = RunRanks(2, "absent", "impatient");
  INFO(results[0].output);
  CHECK(absl::StrContains(results[0].output, "rank 1 did not come within 1s"));
}

TEST_CASE("A rendezvous that is not complete in time says who is missing", "[trainer][comm]") {
  const std::vector<RunResult> results = RunRanks(3, "collectives", "impatient", 1);
  INFO(results[0].output);
  CHECK(absl::StrContains(results[0].output, "after 1s ranks 1, 2 of 3 are missing"));
}

// Two learners and an engine.
std::vector<RunResult> RunWeights(const std::string& what) { return RunRanks(3, what, absl::StrCat(FreePort())); }

TEST_CASE("An engine holds what two learners hold after each update, to the bit, and samples by its version",
          "[trainer][comm]") {
  const std::vector<RunResult> results = RunWeights("weights");
  for (const RunResult& result : results) {
    INFO(result.output);
    REQUIRE(result.exit_code == 0);
  }
  const auto lines = [](const std::string& output, const char* without) {
    std::string kept;
    for (absl::string_view line : absl::StrSplit(output, '\n')) {
      if (!line.empty() && !absl::StrContains(line, without) && !absl::StrContains(line, "trained on"))
        absl::StrAppend(&kept, line, "\n");
    }
    return kept;
  };
  INFO(results[0].output << results[2].output);
  CHECK(absl::StrContains(results[0].output, "version 2 checksum"));
  CHECK(lines(results[0].output, "send:") == lines(lines(results[2].output, "sampled by"), "e: "));
  CHECK(absl::StrContains(results[2].output, "sampled by 1"));
  CHECK(absl::StrContains(results[2].output, "sampled by 2"));
  CHECK(absl::StrContains(results[0].output, "send: weights: member 1 has this version or a later one"));
}

TEST_CASE("An engine of another model refuses, before anything is sent", "[trainer][comm]") {
  const std::vector<RunResult> results = RunWeights("weights_other");
  INFO(results[0].output << results[2].output);
  CHECK(absl::StrContains(results[0].output, "send: weights: member 1 has another model"));
  CHECK(absl::StrContains(results[2].output, "receive: weights: member 1 has another model"));
}

TEST_CASE("An engine that is killed ends the transfer with its name, and training goes on", "[trainer][comm]") {
  const std::vector<RunResult> results = RunWeights("weights_dead");
  INFO(results[0].output << results[1].output);
  CHECK(results[2].exit_code == 128 + SIGKILL);
  CHECK(absl::StrContains(results[0].output, "send: rank 1 has not been heard of"));
  CHECK(absl::StrContains(results[0].output, "trained on"));
  CHECK(results[0].exit_code == 0);
  CHECK(absl::StrContains(results[1].output, "trained on"));
}

TEST_CASE("A transfer that is aborted ends on both sides with the reason, training goes on, and the engine refuses to "
          "sample",
          "[trainer][comm]") {
  const std::vector<RunResult> results = RunWeights("weights_abort");
  INFO(results[0].output << results[1].output << results[2].output);
  CHECK(absl::StrContains(results[0].output, "send: the learner has waited long enough"));
  CHECK(absl::StrContains(results[0].output, "trained on"));
  CHECK(absl::StrContains(results[1].output, "trained on"));
  CHECK(absl::StrContains(results[2].output, "the learner has waited long enough"));
  CHECK(absl::StrContains(results[2].output, "generate: engine: the weights are those of an update that failed"));
}

absl::StatusOr<RankEnvironment> Read(const std::map<std::string, std::string>& variables) {
  return ReadRankEnvironment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}

TEST_CASE("Ranks are read as torchrun and Slurm give them", "[trainer][comm]") {
  CHECK(Read({}).value().alone());
  const RankEnvironment torchrun = Read({{"RANK", "3"},
                                         {"WORLD_SIZE", "4"},
                                         {"LOCAL_RANK", "1"},
                                         {"MASTER_ADDR", "host"},
                                         {"MASTER_PORT", "1234"},
                                         {"TORCHELASTIC_USE_AGENT_STORE", "True"}})
                                       .value();
  CHECK(torchrun.rank == 3);
  CHECK(torchrun.world_size == 4);
  CHECK(torchrun.local_rank == 1);
  CHECK(torchrun.master_port == 1234);
  CHECK(torchrun.store_is_served);
  const RankEnvironment slurm = Read({{"SLURM_PROCID", "1"},
                                      {"SLURM_NTASKS", "2"},
                                      {"SLURM_LOCALID", "0"},
                                      {"MASTER_ADDR", "a"},
                                      {"MASTER_PORT", "7"}})
                                    .value();
  CHECK(slurm.rank == 1);
  CHECK_FALSE(slurm.store_is_served);
  CHECK(Read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).value().alone());  // a batch script's own environment
  CHECK(Read({{"RANK", "4"}, {"WORLD_SIZE", "4"}}).status().message() == "environment: RANK = \"4\", allowed [0, 3]");
  CHECK(Read({{"RANK", "0"}}).status().message() ==
        "environment: WORLD_SIZE is not set, an integer in [1, 1048576] is needed");
  CHECK(absl::StrContains(Read({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).status().message(), "MASTER_ADDR is not set"));
}

}  // namespace
}  // namespace hone::trainer
