// `hone`: a git-style front over the commands in this folder.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "cli/command.h"

namespace {

// Torch's threads wait for one another by spinning, which starves the verifier on the same cores. Their library reads the
// policy when it is loaded, before main, hence the second start.
void WaitPassively(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv("/proc/self/exe", argv);  // on failure the program goes on as it is
}

}  // namespace

int main(int argc, char** argv) {
  WaitPassively(argv);
  CLI::App app{"hone post-trains language models to write fast GPU kernels with execution rewards."};
  app.set_version_flag("--version", "hone " HONE_VERSION);
  app.require_subcommand(1);
  hone::cli::Action action;
  hone::cli::AddConvert(app, action);
  hone::cli::AddDemonstrations(app, action);
  hone::cli::AddDoctor(app, action);
  hone::cli::AddEval(app, action);
  hone::cli::AddLab(app, action);
  hone::cli::AddMusify(app, action);
  hone::cli::AddTasks(app, action);
  hone::cli::AddVerifier(app, action);
  hone::cli::AddVerify(app, action);
#ifdef HONE_WITH_TORCH
  hone::cli::AddGenerate(app, action);
  hone::cli::AddQuickstart(app, action);
  hone::cli::AddReport(app, action);
  hone::cli::AddRollout(app, action);
  hone::cli::AddRft(app, action);
  hone::cli::AddSft(app, action);
  hone::cli::AddServe(app, action);
  hone::cli::AddTrain(app, action);
#endif
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? hone::cli::kDone : hone::cli::kUsersInput;
  }
  return action ? action() : hone::cli::kUsersInput;
}
