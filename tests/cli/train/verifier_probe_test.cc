#include "cli/train/verifier_probe.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace hone::cli {
namespace {

// Answers with what it is told, the right candidate's verdict first.
class ToldClient final : public verifier::Client {
 public:
  ToldClient(VerdictStatus right, VerdictStatus empty) : statuses_{right, empty} {}
  absl::StatusOr<Verdict> Verify(const VerifyRequest&) override { return absl::UnimplementedError("one by one"); }
  absl::Status VerifyAll(absl::Span<const VerifyRequest> requests,
                         const std::function<void(size_t index, const Verdict& verdict)>& on_verdict) override {
    asked.assign(requests.begin(), requests.end());
    for (size_t i = asked.size(); i-- > 0;) {
      Verdict verdict;
      verdict.status = statuses_[i];
      verdict.message = "as told";
      on_verdict(i, verdict);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<Signature> DescribeTask(const Task&) override { return absl::UnimplementedError("not asked for"); }
  absl::StatusOr<Capabilities> GetCapabilities() override { return absl::UnimplementedError("not asked for"); }

  std::vector<VerifyRequest> asked;

 private:
  VerdictStatus statuses_[2];
};

std::string Probe(VerdictStatus right, VerdictStatus empty) {
  ToldClient client(right, empty);
  return std::string(ProbeVerifier(client, {}).message());
}

TEST_CASE("A verifier that tells right from wrong passes, whatever it calls the wrong one, and is asked afresh", "[cli][train]") {
  CHECK(Probe(VerdictStatus::kOk, VerdictStatus::kIncorrect).empty());
  CHECK(Probe(VerdictStatus::kOk, VerdictStatus::kForbidden).empty());
  ToldClient client(VerdictStatus::kOk, VerdictStatus::kIncorrect);
  REQUIRE(ProbeVerifier(client, {Format::kNative, Backend::kCpu, {}}).ok());
  REQUIRE(client.asked.size() == 2);
  CHECK_FALSE(client.asked[0].use_cache);
  CHECK(client.asked[1].candidate.backend == Backend::kCpu);
  CHECK(client.asked[0].candidate.source != client.asked[1].candidate.source);
}

TEST_CASE("A verifier that fails what is right, passes what is wrong or cannot judge is refused by what it said", "[cli][train]") {
  CHECK(Probe(VerdictStatus::kCompile, VerdictStatus::kCompile) ==
        "self-test: the verifier is the side that is off: a right kernel is COMPILE: as told");
  CHECK(Probe(VerdictStatus::kOk, VerdictStatus::kOk) == "self-test: the verifier is the side that is off: a wrong kernel is OK: as told");
  CHECK(absl::StrContains(Probe(VerdictStatus::kOk, VerdictStatus::kInfra), "a wrong kernel is INFRA"));
}

}  // namespace
}  // namespace hone::cli
