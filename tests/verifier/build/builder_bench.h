#pragma once

// A builder with a store of its own, and runs of what it builds in every order of threads.

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "base/file.h"
#include "native_run.h"
#include "verifier/build/cpu_builder.h"

namespace hone::test {

class BuilderBench {
 public:
  BuilderBench() : folder_(TempFolder::Create("builder").value()) {
    store_ = verifier::ArtefactStore::Create({folder_.path()}).value();
    auto builder = verifier::CreateCpuBuilder({}, store_.get());
    REQUIRE(builder.ok());
    builder_ = *std::move(builder);
  }
  verifier::BuildResult Build(const std::string& source, const Signature& signature) {
    verifier::BuildRequest request;
    request.candidate.source = source;
    request.signature = signature;
    auto result = builder_->Build(request);
    REQUIRE(result.ok());
    return *result;
  }
  /// Builds, runs the timed and the checked artefact forwards and shuffled; all must agree on the outputs.
  Outcome Run(const std::string& source, const Signature& signature, const Call& call) {
    const verifier::BuildResult build = Build(source, signature);
    INFO(build.message << "\n" << build.compiler_output);
    REQUIRE(build.status == VerdictStatus::kOk);
    const Outcome fast = RunArtefact(build.artefact, signature, call, {HONE_CPU_FORWARD, 0, 0});
    const Outcome checked = RunArtefact(build.checked_artefact, signature, call, {HONE_CPU_FORWARD, 0, 1});
    const Outcome reverse = RunArtefact(build.checked_artefact, signature, call, {HONE_CPU_REVERSE, 0, 1});
    const Outcome shuffled = RunArtefact(build.checked_artefact, signature, call, {HONE_CPU_SHUFFLED, 7, 1});
    INFO(fast.fault << checked.fault << reverse.fault << shuffled.fault);
    CHECK(fast.signal == 0);
    CHECK(fast.code == 0);
    CHECK(fast.tensors == checked.tensors);
    CHECK(fast.tensors == reverse.tensors);
    CHECK(fast.tensors == shuffled.tensors);
    return fast;
  }

 private:
  TempFolder folder_;
  std::unique_ptr<verifier::ArtefactStore> store_;
  std::unique_ptr<verifier::Builder> builder_;
};

}  // namespace hone::test
