#include "lane/artefacts.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/subprocess.h"

namespace hone::verifier::test {

Artefacts::Artefacts() : folder_(TempFolder::Create("lane-test").value()) {
  store_ = ArtefactStore::Create({folder_.path() + "/store"}).value();
  builder_ = CreateCpuBuilder({}, store_.get()).value();
}

BuildResult Artefacts::Build(const std::string& source, const Signature& signature) {
  BuildRequest request;
  request.candidate.source = source;
  request.signature = signature;
  return builder_->Build(request).value();
}

BuildResult Artefacts::Hostile(const std::string& body, const std::string& globals) {
  const std::string stem = absl::StrCat(folder_.path(), "/hostile", count_++);
  const std::string source = absl::StrCat(
      "#include <cerrno>\n#include <csignal>\n#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n#include <fcntl.h>\n"
      "#include <sys/mman.h>\n#include <sys/socket.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n",
      "#include \"", HONE_SOURCE_FOLDER, "/verifier/runner/abi.h\"\n", globals,
      "\nextern \"C\" int hone_call(const HoneCall* call) {\n", body, "\n}\n");
  HONE_CHECK(WriteFileAtomically(stem + ".cc", source).ok());
  SpawnOptions spawn;
  spawn.argv = {"g++", "-O1", "-shared", "-fPIC", "-o", stem + ".so", stem + ".cc"};
  const absl::StatusOr<RunResult> run = Run(spawn, absl::Seconds(60));
  BuildResult result;
  if (!run.ok() || run->exit_code != 0) {
    result.status = VerdictStatus::kCompile;
    result.message = run.ok() ? run->output : std::string(run.status().message());
    return result;
  }
  result.artefact = stem + ".so";
  result.checked_artefact = result.artefact;
  result.toolchain = "g++ (test)";
  return result;
}

}  // namespace hone::verifier::test
