#include "cli/train/problems.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <map>
#include <set>

#include "base/file.h"

namespace hone::cli {
namespace {

using Catch::Matchers::ContainsSubstring;

/// Knows the entry point of every task.
class DescribingClient final : public verifier::Client {
 public:
  absl::StatusOr<Verdict> Verify(const VerifyRequest&) override { return absl::UnimplementedError("not asked"); }
  absl::Status VerifyAll(absl::Span<const VerifyRequest>, const std::function<void(size_t, const Verdict&)>&) override {
    return absl::UnimplementedError("not asked");
  }
  absl::StatusOr<Signature> DescribeTask(const Task&) override {
    ++described;
    return Signature{};
  }
  absl::StatusOr<Capabilities> GetCapabilities() override { return Capabilities{}; }
  int described = 0;
};

struct Tasks {
  TempFolder folder = *TempFolder::Create("problems");
  TaskSettings settings;

  Tasks() {
    settings.from = folder.path();
    for (const char* id : {"a", "b", "c"}) Write(id, "split: train");
    Write("h", "split: held_out");
    Write("w", "split: train\n# weak: true");
  }
  void Write(const std::string& id, const std::string& header) {
    REQUIRE(WriteFileAtomically(folder.path() + "/" + id + ".py",
                                "# ---\n# id: " + id + "\n# " + header +
                                    "\n# ---\nimport torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
                                    "        return x\ndef get_inputs():\n    return [torch.zeros(4)]\n"
                                    "def get_init_inputs():\n    return []\n")
                .ok());
  }
};

std::string NextId(ProblemSource& source) { return source.Next().value().task.id; }

TEST_CASE("Every train task comes once before any comes again; held-out and weak ones never", "[cli][train]") {
  Tasks tasks;
  DescribingClient client;
  const auto source = CollectedProblems(tasks.settings, 3, client).value();
  for (int round = 0; round < 4; ++round) {
    std::set<std::string> seen;
    for (int i = 0; i < 3; ++i) seen.insert(NextId(*source));
    CHECK(seen == std::set<std::string>{"a", "b", "c"});
  }
  CHECK(client.described == 3);  // once a task
  const std::vector<Problem> held_out = source->Listed(Split::kHeldOut).value();
  REQUIRE(held_out.size() == 1);
  CHECK(held_out[0].task.id == "h");
  CHECK_THAT(held_out[0].text, ContainsSubstring("void launch("));
  CHECK(source->ById("b").value().task.id == "b");
  CHECK(source->ById("h").status().code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("A weak task is trained on when it is allowed by name", "[cli][train]") {
  Tasks tasks;
  DescribingClient client;
  tasks.settings.allow_weak = {"w"};
  const auto source = CollectedProblems(tasks.settings, 3, client).value();
  std::set<std::string> seen;
  for (int i = 0; i < 4; ++i) seen.insert(NextId(*source));
  CHECK(seen.count("w") == 1);
  tasks.settings.allow_weak = {"x"};
  CHECK_THAT(std::string(CollectedProblems(tasks.settings, 3, client).status().message()), ContainsSubstring("no task x"));
}

TEST_CASE("A task whose answers were all right or all wrong comes in a share of the rounds, and in all again once they differ",
          "[cli][train]") {
  Tasks tasks;
  DescribingClient client;
  tasks.settings.settled_share = 0.25;
  const auto source = CollectedProblems(tasks.settings, 3, client).value();
  const auto count = [&](int draws) {
    std::map<std::string, int> times;
    for (int i = 0; i < draws; ++i) ++times[NextId(*source)];
    return times;
  };
  source->Report("a", /*settled=*/true);
  std::map<std::string, int> times = count(900);  // a quarter of a round's weight for a: 100, 400, 400 of 900 in the mean
  CHECK(times["a"] > 60);
  CHECK(times["a"] < 140);
  CHECK(times["b"] > 360);
  const auto resumed = CollectedProblems(tasks.settings, 4, client).value();
  REQUIRE(resumed->Restore(source->Save()).ok());
  for (int i = 0; i < 50; ++i) CHECK(NextId(*resumed) == NextId(*source));
  source->Report("a", /*settled=*/false);
  count(3);  // what is left of a round
  times = count(300);
  CHECK(times["a"] >= 99);
  CHECK(times["a"] <= 101);
  for (const char* id : {"a", "b", "c"}) source->Report(id, true);
  CHECK(!NextId(*source).empty());  // all settled: they come all the same
}

TEST_CASE("A source goes on from its saved state, whatever kind it is", "[cli][train]") {
  Tasks tasks;
  DescribingClient client;
  for (const bool generated : {false, true}) {
    const auto make = [&] {
      return generated ? GeneratedProblems(5, 0.2) : CollectedProblems(tasks.settings, 5, client).value();
    };
    const auto source = make();
    for (int i = 0; i < 5; ++i) NextId(*source);
    const auto resumed = make();
    REQUIRE(resumed->Restore(source->Save()).ok());
    for (int i = 0; i < 10; ++i) CHECK(NextId(*resumed) == NextId(*source));
    CHECK(resumed->Restore("{}").code() == absl::StatusCode::kDataLoss);
    CHECK(resumed->Restore("nonsense").code() == absl::StatusCode::kDataLoss);
  }
}

TEST_CASE("A collection without a task to train on is refused, and says what it has", "[cli][train]") {
  Tasks tasks;
  DescribingClient client;
  for (const char* id : {"a", "b", "c"}) tasks.Write(id, "split: held_out");
  const absl::Status status = CollectedProblems(tasks.settings, 3, client).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), ContainsSubstring("4 held out, 1 weak"));
}

}  // namespace
}  // namespace hone::cli
