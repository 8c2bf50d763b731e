// `hone train` with `hone worker` processes as a user starts them, some of which are killed, told to leave, or join late; the
// learner, too, is killed and goes on.

#include "tests/support/catch_torch.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/journal.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "policy/model/hf_folder.h"
#include "tests/cli/train/kernel_model.h"
#include "tests/support/free_port.h"
#include "tests/support/process_tree.h"
#include "tests/support/test_programs.h"
#include "verifier/client/local_server.h"

namespace hone {
namespace {

// Rewards do not depend on measured time: runs of one seed are equal to the bit.
constexpr char kTrain[] = R"(
threads: 1
engine: {max_running: 16}
rl:
  steps: 6
  groups: 4
  group_size: 4
  turns: 2
  max_tokens: 8
  learning_rate: 0.001
  checkpoint_every: 1
  retry: {probability: 0.5}
  exemplars: {enabled: false}
evaluation: {before: false, after: false}
rewards:
  terms:
    - {name: correct}
  turns: {name: single_score}
)";

constexpr absl::Duration kPatience = absl::Minutes(2);

/// One for all runs of this program: verdicts are cached, and do not depend on who asked first.
const std::string& Verifier() {
  static const std::unique_ptr<verifier::LocalServer> server = [] {
    verifier::LocalServerOptions options;
    options.program = TestProgram("hone-verifier");
    options.extra_args = {"--set", "devices=[cpu]", "--set", "build_slots=2", "--set", "lanes=1"};
    auto started = verifier::LocalServer::Start(options);
    INFO(started.status().ToString());
    REQUIRE(started.ok());
    return *std::move(started);
  }();
  return server->endpoint();
}

struct Bench {
  TempFolder folder = *TempFolder::Create("workers-test");

  Bench() {
    if (TestProgram("hone").empty()) SKIP("HONE_TEST_BIN names no folder with hone");
    cli::WriteKernelModel(Path("model"));
    REQUIRE(MakeFolders(Path("tasks")).ok());
    cli::WriteTask(Path("tasks"), "negate", "-x", "train");
    cli::WriteTask(Path("tasks"), "double", "2 * x", "train");
    REQUIRE(WriteFileAtomically(Path("train.yaml"), kTrain).ok());
  }
  std::string Path(const std::string& name) const { return folder.path() + "/" + name; }
  std::string Socket() const { return "unix:" + Path("coordinator"); }

  /// Standard output and error go to <name>.log.
  Child Start(const std::string& name, std::vector<std::string> arguments, std::vector<std::string> environment = {}) const {
    const int log = open(Path(name + ".log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    SpawnOptions options;
    options.argv = {TestProgram("hone")};
    options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
    options.environment = std::move(environment);
    options.pass_fds = {{log, 1}, {log, 2}};
    auto child = Child::Spawn(options);
    close(log);
    REQUIRE(child.ok());
    return *std::move(child);
  }
  std::vector<std::string> Train(const std::string& name, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"train", Path("train.yaml"), "--runs", folder.path(), "--name", name};
    for (const std::string& setting : {"policy.start=" + Path("model"), "tasks.from=" + Path("tasks"),
                                       "verifier.endpoint=" + Verifier()}) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
    for (const std::string& setting : more) arguments.insert(arguments.end(), {"--set", setting});
    return arguments;
  }
  std::vector<std::string> Listening(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> settings = {"workers.listen=" + Socket(), "workers.lease_s=2", "workers.count=2"};
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
  }
  Child Learner(const std::string& name, const std::vector<std::string>& more = {}) const {
    return Start(name, Train(name, Listening(more)));
  }
  Child Worker(const std::string& name) const {
    return Start(name, {"worker", "--coordinator", Socket(), "--name", name});
  }
  /// The ranks of one job, under torchrun's contract.
  std::vector<Child> Ranks(const std::string& name, int world, const std::vector<std::string>& arguments) const {
    const int port = FreePort();
    std::vector<Child> ranks;
    for (int rank = 0; rank < world; ++rank) {
      ranks.push_back(Start(rank == 0 ? name : absl::StrCat(name, "-rank", rank), arguments,
                            {absl::StrCat("RANK=", rank), absl::StrCat("WORLD_SIZE=", world), absl::StrCat("LOCAL_RANK=", rank),
                             "MASTER_ADDR=127.0.0.1", absl::StrCat("MASTER_PORT=", port)}));
    }
    return ranks;
  }
  std::string Log(const std::string& name) const { return ReadFile(Path(name + ".log")).value_or(""); }

  std::string Checkpoint(const std::string& run, int step) const {
    return Path(absl::StrCat(run, "/checkpoint/rl/step_", absl::Dec(step, absl::kZeroPad8)));
  }
  std::string Weights(const std::string& run, int step) const {
    return Sha256Hex(ReadFile(Checkpoint(run, step) + "/tensors.safetensors").value());
  }
  void Await(const std::string& run, int step, Child& learner) const {
    const SteadyTime deadline = SteadyTime::Now() + kPatience;
    while (!FileExists(Checkpoint(run, step) + "/COMMIT")) {
      INFO(Log(run));
      REQUIRE_FALSE(learner.Ended());
      REQUIRE(SteadyTime::Now() < deadline);
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  /// Until its log has the words.
  void AwaitWords(const std::string& name, const std::string& words) const {
    const SteadyTime deadline = SteadyTime::Now() + kPatience;
    while (!absl::StrContains(Log(name), words)) {
      INFO(Log(name));
      REQUIRE(SteadyTime::Now() < deadline);
      absl::SleepFor(absl::Milliseconds(10));
    }
  }
  int End(Child& child) const { return child.Wait(SteadyTime::Now() + kPatience).value_or(-1); }

  /// Nobody gets a verdict meanwhile: a group that is leased stays so.
  template <class Body>
  void WhileNothingIsJudged(const Body& body) const {
    const std::vector<pid_t> front = DescendantsWith(getpid(), "hone-verifier --");
    REQUIRE_FALSE(front.empty());
    for (pid_t pid : front) kill(pid, SIGSTOP);
    absl::SleepFor(absl::Milliseconds(500));
    body();
    for (pid_t pid : front) kill(pid, SIGCONT);
  }
};

std::vector<nlohmann::json> Metrics(const std::string& path) {
  std::vector<nlohmann::json> records;
  std::istringstream lines(ReadFile(path).value());
  for (std::string line; std::getline(lines, line);) records.push_back(nlohmann::json::parse(line));
  return records;
}

double Sum(const std::vector<nlohmann::json>& records, const std::string& name) {
  double sum = 0;
  for (const nlohmann::json& record : records) sum += record.value(name, 0.0);
  return sum;
}

TEST_CASE("Workers that are killed, leave and join, and a learner that is killed, end in the weights of one undisturbed process",
          "[integration][workers]") {
  const Bench bench;
  Child alone = bench.Start("whole", bench.Train("whole"));  // beside the others, of whom it knows nothing
  Child learner = bench.Learner("split");
  Child first = bench.Worker("first"), second = bench.Worker("second");
  bench.Await("split", 1, learner);
  bench.WhileNothingIsJudged([&] { first.Kill(); });
  Child third = bench.Worker("third");
  bench.Await("split", 3, learner);
  bench.WhileNothingIsJudged([&] {
    second.Terminate();
    absl::SleepFor(absl::Seconds(1));  // to give its leases back
  });
  CHECK(bench.End(second) == 0);
  INFO("split\n" << bench.Log("split") << "second\n" << bench.Log("second") << "third\n" << bench.Log("third"));
  bench.Await("split", 4, learner);
  learner.Kill();
  const std::vector<nlohmann::json> killed = Metrics(bench.Path("split/metrics.jsonl"));
  Child resumed = bench.Start("split", {"train", "--runs", bench.folder.path(), "--name", "split", "--resume"});
  const int ended = bench.End(resumed);
  INFO("split\n" << bench.Log("split") << "third\n" << bench.Log("third"));
  REQUIRE(ended == 0);
  CHECK(bench.End(third) == 0);
  const int whole = bench.End(alone);
  INFO("whole\n" << bench.Log("whole"));
  REQUIRE(whole == 0);

  for (int step = 1; step <= 6; ++step) {
    INFO("step " << step);
    if (FileExists(bench.Checkpoint("split", step) + "/COMMIT") && FileExists(bench.Checkpoint("whole", step) + "/COMMIT"))
      CHECK(bench.Weights("split", step) == bench.Weights("whole", step));
  }
  CHECK(FileExists(bench.Checkpoint("split", 6) + "/COMMIT"));
  CHECK(FileExists(bench.Path("split/policy/model.safetensors")));
  CHECK(Sum(killed, "workers/leases_lost") >= 1);
  CHECK(Sum(killed, "workers/leases_returned") >= 1);
  CHECK(Sum(killed, "weights/sent") >= 6);
  for (const nlohmann::json& record : killed) {
    CHECK(record["workers/alive"].get<double>() >= 1);
    CHECK(record.value("learn/staleness_max", 0.0) == 0);
  }
}

TEST_CASE("One step off, workers sample an adapter while the learner learns it, and no token is older than that",
          "[integration][workers]") {
  const Bench bench;
  Child early = bench.Worker("early");  // before there is anybody to work for
  bench.AwaitWords("early", "waiting for a coordinator");
  Child learner = bench.Learner("off", {"rl.lag=1", "lora.rank=4"});
  Child late = bench.Worker("late");
  const int ended = bench.End(learner);
  INFO("off\n" << bench.Log("off") << "early\n" << bench.Log("early") << "late\n" << bench.Log("late"));
  REQUIRE(ended == 0);
  CHECK(bench.End(early) == 0);
  CHECK(bench.End(late) == 0);
  const std::vector<nlohmann::json> records = Metrics(bench.Path("off/metrics.jsonl"));
  REQUIRE(records.size() == 6);
  double most = 0;
  for (const nlohmann::json& record : records) most = std::max(most, record.value("learn/staleness_max", 0.0));
  CHECK(most == 1);
  int groups = 0;
  REQUIRE(ReadJournal(bench.Path("off/journal.jsonl.zst"), [&](const Group&) {
            ++groups;
            return absl::OkStatus();
          }).ok());
  CHECK(groups == 6 * 4);
  CHECK(FileExists(bench.Path("off/adapter/adapter_model.safetensors")));
}

TEST_CASE("However many workers are killed, at whatever moment, the weights are those of one undisturbed process",
          "[integration][workers]") {
  const char* wanted = std::getenv("HONE_WORKER_KILLS");
  if (wanted == nullptr) SKIP("a nightly test: HONE_WORKER_KILLS says how many are killed");
  const Bench bench;
  const std::vector<std::string> steps = {"rl.steps=20"};
  Child alone = bench.Start("whole", bench.Train("whole", steps));
  REQUIRE(bench.End(alone) == 0);
  Child learner = bench.Learner("split", {"rl.steps=20", "workers.max_attempts=1000"});
  Child steady = bench.Worker("steady");
  std::mt19937 random(std::random_device{}());
  int killed = 0;
  for (; killed < std::atoi(wanted) && !learner.Ended(); ++killed) {
    Child victim = bench.Worker(absl::StrCat("victim-", killed));
    absl::SleepFor(absl::Milliseconds(500 + random() % 6000));
    victim.Kill();
  }
  const int ended = bench.End(learner);
  INFO(killed << " killed\n" << bench.Log("split") << "steady\n" << bench.Log("steady"));
  REQUIRE(ended == 0);
  CHECK(bench.Weights("split", 20) == bench.Weights("whole", 20));
}

at::Tensor TrainedWeights(const std::string& folder) {
  const auto decoder = policy::LoadHfFolder(folder, {}).value();
  return decoder->parameters().flat().clone();
}

TEST_CASE("Two ranks that learn from what a worker samples end where one does, and killed at where they were",
          "[integration][workers]") {
  const Bench bench;
  const std::vector<std::string> settings = bench.Listening({"rl.steps=2", "workers.count=1"});
  {
    Child alone = bench.Start("one", bench.Train("one", settings)), worker = bench.Worker("worker-of-one");
    const int code = bench.End(alone);
    INFO(bench.Log("one") << bench.Log("worker-of-one"));
    REQUIRE(code == 0);
  }
  {
    std::vector<Child> ranks = bench.Ranks("two", 2, bench.Train("two", settings));
    Child worker = bench.Worker("worker-of-two");
    const int leader = bench.End(ranks[0]), follower = bench.End(ranks[1]);
    INFO(bench.Log("two") << bench.Log("two-rank1") << bench.Log("worker-of-two"));
    REQUIRE(leader == 0);
    REQUIRE(follower == 0);
    CHECK(bench.End(worker) == 0);
  }
  const at::Tensor one = TrainedWeights(bench.Path("one/policy")), two = TrainedWeights(bench.Path("two/policy")),
                   start = TrainedWeights(bench.Path("model"));
  // Sums in another order; a step moves weights by the learning rate, 1e-3.
  CHECK((one - two).abs().max().item<double>() < 5e-5);
  CHECK((one - start).abs().max().item<double>() > 5e-4);

  std::vector<Child> killed = bench.Ranks("again", 2, bench.Train("again", settings));
  Child worker = bench.Worker("worker-of-again");
  const std::string commit = bench.Path("again/checkpoint/rl/rank_0_of_2/step_00000001/COMMIT");
  const SteadyTime deadline = SteadyTime::Now() + kPatience;
  while (!FileExists(commit) && SteadyTime::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  REQUIRE(FileExists(commit));
  for (Child& rank : killed) rank.Kill();
  std::vector<Child> resumed =
      bench.Ranks("again", 2, {"train", "--runs", bench.folder.path(), "--name", "again", "--resume"});
  const int leader = bench.End(resumed[0]), follower = bench.End(resumed[1]);
  INFO(bench.Log("again") << bench.Log("again-rank1") << bench.Log("worker-of-again"));
  REQUIRE(leader == 0);
  REQUIRE(follower == 0);
  CHECK(at::equal(TrainedWeights(bench.Path("again/policy")), two));
}

TEST_CASE("Several ranks without workers are refused, with the setting that is missing", "[integration][workers]") {
  const Bench bench;
  std::vector<Child> ranks = bench.Ranks("none", 2, bench.Train("none"));
  CHECK(bench.End(ranks[0]) == 2);
  CHECK(bench.End(ranks[1]) == 2);
  CHECK(absl::StrContains(bench.Log("none"), "workers.listen"));
}

TEST_CASE("The example for split placement is read without complaint", "[integration][workers]") {
  if (TestProgram("hone").empty()) SKIP("HONE_TEST_BIN names no folder with hone");
  SpawnOptions options;
  options.argv = {TestProgram("hone"), "train", std::string(HONE_SOURCE_DIR) + "/examples/train_8b_split.yaml", "--print-config"};
  const RunResult read = Run(options, absl::Seconds(60)).value();
  INFO(read.output);
  CHECK(read.exit_code == 0);
}

TEST_CASE("A worker says what is wrong with its settings, and that nobody answers", "[integration][workers]") {
  if (TestProgram("hone").empty()) SKIP("HONE_TEST_BIN names no folder with hone");
  const auto run = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {TestProgram("hone"), "worker"});
    SpawnOptions options;
    options.argv = std::move(arguments);
    return Run(options, absl::Seconds(60)).value();
  };
  const RunResult misspelt = run({"--coordinator", "unix:/nowhere/socket", "--set", "devise.device=cpu"});
  CHECK(misspelt.exit_code == 2);
  CHECK(absl::StrContains(misspelt.output, "unknown key 'devise'; did you mean 'device'?"));
  CHECK(run({}).exit_code == 2);
  const RunResult lonely = run({"--coordinator", "unix:/nowhere/socket", "--set", "patience_s=1"});
  CHECK(lonely.exit_code == 1);
  CHECK(absl::StrContains(lonely.output, "has not answered for 1s"));
}

}  // namespace
}  // namespace hone
