// `hone`: a git-style front over the commands in this folder.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/command.h"

int main(int argc, char** argv) {
  CLI::App app{"hone post-trains language models to write fast GPU kernels with execution rewards."};
  app.set_version_flag("--version", "hone " HONE_VERSION);
  app.require_subcommand(1);
  hone::cli::Action action;
  hone::cli::AddConvert(app, action);
  hone::cli::AddLab(app, action);
  hone::cli::AddTasks(app, action);
  hone::cli::AddVerifier(app, action);
  hone::cli::AddVerify(app, action);
#ifdef HONE_WITH_TORCH
  hone::cli::AddQuickstart(app, action);
#endif
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? hone::cli::kDone : hone::cli::kUsersInput;
  }
  return action ? action() : hone::cli::kUsersInput;
}
