// What the README tells people to send, sent.

#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "hone/v1/verifier.grpc.pb.h"
#include "tests/support/test_programs.h"
#include "verifier/client/local_server.h"

namespace hone::verifier {
namespace {

/// The body of the README's grpcurl call of `method`, as the shell would hand it over.
std::string BodyOf(const std::string& method) {
  const std::string readme = ReadFile(HONE_SOURCE_FOLDER "/README.md").value();
  const size_t call = readme.find(absl::StrCat("grpcurl -plaintext -d @ 127.0.0.1:50151 ", method, " <<EOF\n"));
  REQUIRE(call != std::string::npos);
  const size_t begin = readme.find("<<EOF\n", call), end = readme.find("\nEOF\n", begin);
  REQUIRE(end != std::string::npos);
  SpawnOptions spawn;
  spawn.argv = {"bash", "-c", absl::StrCat("cd " HONE_SOURCE_FOLDER " && cat ", readme.substr(begin, end + 5 - begin))};
  const absl::StatusOr<RunResult> result = Run(spawn, absl::Seconds(10));
  REQUIRE(result.ok());
  REQUIRE(result->exit_code == 0);
  return result->output;
}

TEST_CASE("The README's grpcurl request is a request of the contract, and its kernel passes", "[verifier][docs]") {
  if (TestProgram("hone-verifier").empty() || TestPython().empty()) SKIP("needs the build's programs and its Python");
  v1::VerifyRequest request;
  // An unknown field or enum is an error here, as it is for grpcurl.
  const auto parsed = google::protobuf::util::JsonStringToMessage(BodyOf("hone.v1.Verifier/Verify"), &request);
  INFO(parsed.ToString());
  REQUIRE(parsed.ok());
  CHECK(request.task().id() == "tempered_softmax");

  LocalServerOptions options;
  options.program = TestProgram("hone-verifier");
  options.extra_args = {"--set=lanes=1"};
  const auto server = LocalServer::Start(options);
  REQUIRE(server.status().message() == "");
  const auto stub =
      v1::Verifier::NewStub(grpc::CreateChannel((*server)->endpoint(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::VerifyResponse response;
  const grpc::Status status = stub->Verify(&context, request, &response);
  CHECK(status.error_message() == "");
  REQUIRE(status.ok());
  CHECK(v1::VerdictStatus_Name(response.verdict().status()) == "VERDICT_STATUS_OK");
}

}  // namespace
}  // namespace hone::verifier
