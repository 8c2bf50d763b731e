#include "lane/torch_candidates.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>

#include "lane/bench.h"
#include "verifier/build/torch_builder.h"

namespace hone::verifier::test {

TorchCandidates& TorchCandidates::Get() {
  static TorchCandidates candidates;
  return candidates;
}

TorchCandidates::TorchCandidates() {
  store_ = ArtefactStore::Create({HONE_BINARY_DIR "/torch-test-artefacts"}).value();
  const char* python = std::getenv("HONE_PYTHON");
  TorchBuilderOptions options;
  options.python = PythonEnvironment::Probe(python != nullptr ? python : "python3").value();
  options.niceness = 0;  // nothing is timed while the test waits for it
  builder_ = CreateTorchBuilder(options, store_.get()).value();
}

namespace {

BuildRequest RequestFor(const Task& task, const std::string& source, Format format) {
  BuildRequest request;
  request.candidate.format = format;
  request.candidate.source = source;
  request.legality = task.legality;
  return request;
}

}  // namespace

BuildResult TorchCandidates::Build(const Task& task, const std::string& source, Format format) {
  const absl::StatusOr<BuildResult> result = builder_->Build(RequestFor(task, source, format));
  INFO(result.status());
  REQUIRE(result.ok());
  return *result;
}

std::optional<BuildResult> TorchCandidates::RejectUnbuilt(const Task& task, const std::string& source, Format format) {
  const absl::StatusOr<std::optional<BuildResult>> result = builder_->RejectUnbuilt(RequestFor(task, source, format));
  INFO(result.status());
  REQUIRE(result.ok());
  return *result;
}

Verdict TorchCandidates::Judge(const Task& task, const std::string& source, Format format) {
  const BuildResult build = Build(task, source, format);
  if (build.status != VerdictStatus::kOk) {
    Verdict verdict;
    verdict.status = build.status;
    verdict.message = build.message;
    verdict.rules = build.rules;
    verdict.compiler_output = build.compiler_output;
    return verdict;
  }
  Protocol protocol = QuickEager();
  protocol.run_timeout_ms = 20'000;
  return Bench::Get().Judge(task, build, protocol);
}

}  // namespace hone::verifier::test
