// The table's native candidates on the CPU: the same code but for the device.

#include "device/verdicts.h"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/memory_folder.h"
#include "tests/support/test_programs.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace hone::device_tests {
namespace {

TEST_CASE("A kernel with one plain mistake gets a verdict that names the mistake", "[device][verifier]") {
  if (TestProgram("hone-verifier").empty() || TestProgram("hone-runner").empty()) SKIP("the verifier's programs are not built");
  std::vector<Case> cases;
  std::vector<VerifyRequest> requests;
  for (const Case& one : AllCases()) {
    if (!one.on_cpu) continue;
    cases.push_back(one);
    requests.push_back(RequestOf(one, Backend::kCpu));
    requests.back().protocol.baselines.clear();  // what is right need not be timed
  }
  REQUIRE(cases.size() > 10);
  const TempFolder folder = MemoryFolder("verdicts");
  verifier::LocalServerOptions options;
  options.program = TestProgram("hone-verifier");
  options.extra_args = {"--set=lanes=1", "--set=folder=" + folder.path()};
  const auto server = verifier::LocalServer::Start(options);
  INFO(server.status());
  REQUIRE(server.ok());
  verifier::ClientOptions client_options;
  client_options.endpoints = {(*server)->endpoint()};
  const auto client = verifier::Client::Create(client_options).value();
  std::vector<Verdict> verdicts(cases.size());
  REQUIRE(client->VerifyAll(requests, [&](size_t index, const Verdict& verdict) { verdicts[index] = verdict; }).ok());
  for (size_t i = 0; i < cases.size(); ++i) {
    INFO(cases[i].name << ": " << Name(verdicts[i].status) << ": " << SaidBy(verdicts[i]));
    CHECK(Holds(cases[i], verdicts[i], Backend::kCpu));
  }
}

}  // namespace
}  // namespace hone::device_tests
