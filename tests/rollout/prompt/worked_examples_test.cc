#include "rollout/prompt/worked_examples.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "rollout/prompt/skeleton.h"
#include "tests/support/test_programs.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace hone::rollout {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("A skeleton gives the flat index of every tensor and the headers that answers forget", "[prompt]") {
  Signature signature;
  signature.tensors = {{TensorArgument::Role::kInput, {}, {"batch", "channels", "length"}},
                       {TensorArgument::Role::kOutput, {}, {"batch", "7"}}};
  signature.tensors[0].spec.name = "x";
  signature.tensors[1].spec.name = "out";
  signature.sizes = {{"batch", 2, false}, {"channels", 3, false}, {"length", 4, false}};
  const std::string text = Skeleton(signature);
  CHECK_THAT(text, ContainsSubstring("#include <float.h>"));
  CHECK_THAT(text, ContainsSubstring("// x [batch, channels, length]: x[(i * channels + j) * length + k]\n"));
  CHECK_THAT(text, ContainsSubstring("// out [batch, 7]: out[i * 7 + j]\n"));
  CHECK_THAT(text, ContainsSubstring(signature.Declaration() + " {\n}\n"));
}

TEST_CASE("A task's launch shape follows its family, else the operators that its reference calls", "[prompt]") {
  Task task;
  task.family = "softmax";
  task.reference = "torch.matmul";
  CHECK(ShapeOf(task) == LaunchShape::kRows);
  task.family = "";
  CHECK(ShapeOf(task) == LaunchShape::kTiles);
  task.reference = "self.conv = nn.Conv2d(3, 4, 5)\nreturn torch.matmul(x, y).sum(dim=1)";
  CHECK(ShapeOf(task) == LaunchShape::kOutputs);
  task.reference = "torch.mean(x, dim=1)";
  CHECK(ShapeOf(task) == LaunchShape::kRows);
  task.reference = "torch.relu(x)";
  CHECK(ShapeOf(task) == LaunchShape::kElements);
}

TEST_CASE("Every worked example is a right answer to its own task, under the entry point that the verifier derives", "[prompt]") {
  verifier::LocalServerOptions options;
  options.program = TestProgram("hone-verifier");
  options.extra_args = {"--set", "build_slots=1", "--set", "lanes=1"};
  const auto server = verifier::LocalServer::Start(options);
  REQUIRE(server.ok());
  verifier::ClientOptions client_options;
  client_options.endpoints = {(*server)->endpoint()};
  const auto client = verifier::Client::Create(client_options).value();
  for (const LaunchShape shape : kLaunchShapes) {
    const WorkedExample example = ExampleOf(shape);
    INFO(example.task.id);
    const absl::StatusOr<Signature> signature = client->DescribeTask(example.task);
    INFO(signature.status());
    REQUIRE(signature.ok());
    CHECK(Skeleton(*signature) == example.skeleton);
    VerifyRequest request;
    request.task = example.task;
    request.candidate = {Format::kNative, Backend::kCpu, example.source};
    request.protocol.baselines.clear();
    const absl::StatusOr<Verdict> verdict = client->Verify(request);
    REQUIRE(verdict.ok());
    INFO(verdict->message << verdict->compiler_output);
    CHECK(verdict->ok());
  }
}

}  // namespace
}  // namespace hone::rollout
