// `hone`: a git-style front over the commands in this folder.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/strings.h"
#include "cli/command.h"

namespace {

// Torch's threads wait for one another by spinning, which starves the verifier on the same cores; and it prints a stack where
// another process has ended, which we say in a line. Its libraries read both when they are loaded, before main, hence the
// second start.
void SettleTorch(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*replace=*/0);
  execv("/proc/self/exe", argv);  // on failure the program goes on as it is
}

/// The nearest command when it is near enough, else all of them.
std::string Suggestion(const std::string& word, const std::vector<std::string>& names) {
  const std::string nearest = hone::NearestWord(word, names);
  if (hone::EditDistance(word, nearest) <= std::max<size_t>(2, word.size() / 3)) return absl::StrCat("did you mean '", nearest, "'?");
  return absl::StrCat("there are ", absl::StrJoin(names, ", "));
}

/// Empty, or why the first words of the command line name no command.
std::string UnknownCommand(CLI::App& app, int argc, char** argv) {
  CLI::App* command = &app;
  for (int i = 1; i < argc && command->get_require_subcommand_min() > 0; ++i) {
    const std::string word = argv[i];
    std::vector<std::string> names;
    CLI::App* named = nullptr;
    for (CLI::App* each : command->get_subcommands({})) {
      names.push_back(each->get_name());
      if (names.back() == word) named = each;
    }
    if (named == nullptr && word.substr(0, 1) == "-") return "";
    if (named == nullptr) return absl::StrCat("no command '", word, "'; ", Suggestion(word, names));
    command = named;
  }
  return "";
}

/// What is wrong with the words behind the chosen command, in one line.
std::string UsageError(CLI::App& app, const CLI::ParseError& error) {
  std::string name = "hone";
  CLI::App* command = &app;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    absl::StrAppend(&name, " ", command->get_name());
  }
  std::string what = error.what();
  const bool unknown = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  if (const std::vector<std::string> extra = command->remaining(); unknown && !extra.empty()) {
    std::vector<std::string> options;
    for (const CLI::Option* option : command->get_options()) {
      if (!option->get_lnames().empty()) options.push_back(absl::StrCat("--", option->get_lnames().front()));
    }
    what = extra.front().substr(0, 2) == "--"
               ? absl::StrCat("no option '", extra.front(), "'; did you mean '", hone::NearestWord(extra.front(), options), "'?")
               : absl::StrCat("one argument too many: '", extra.front(), "'");
  }
  std::replace(what.begin(), what.end(), '\n', ' ');
  return absl::StrCat(name, ": ", what, " (", name, " --help shows all)");
}

}  // namespace

int main(int argc, char** argv) {
  SettleTorch(argv);
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
  hone::cli::AddWorker(app, action);
#endif
  if (const std::string unknown = UnknownCommand(app, argc, argv); !unknown.empty()) {
    std::fprintf(stderr, "hone: %s\n", unknown.c_str());
    return hone::cli::kUsersInput;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::fprintf(stderr, "%s\n", UsageError(app, error).c_str());
    return hone::cli::kUsersInput;
  }
  return action ? action() : hone::cli::kUsersInput;
}
