#include "lane/artefacts.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/subprocess.h"

namespace hone::verifier {

Artefacts::Artefacts() : folder_(*TempFolder::Create("lane-test")) {}

BuildResult Artefacts::Compile(const std::string& body, const std::string& globals) {
  const std::string stem = absl::StrCat(folder_.path(), "/a", count_++);
  const std::string source = absl::StrCat(
      "#include \"", HONE_SOURCE_DIR, "/verifier/runner/abi.h\"\n",
      "#define floats(i) (static_cast<float*>(call->tensors[i].data))\n", globals,
      "\nextern \"C\" int hone_call(const HoneCall* call) {\n", body, "\n}\n");
  HONE_CHECK(WriteFileAtomically(stem + ".cc", source).ok());
  SpawnOptions spawn;
  spawn.argv = {"g++", "-O2", "-shared", "-fPIC", "-o", stem + ".so", stem + ".cc"};
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

}  // namespace hone::verifier
