// `hone verifier`: serves. A front for hone-verifier, which is a program of its own so that it ships without torch.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "cli/verifier_top.h"

namespace hone::cli {
namespace {

int ExecVerifier(const std::vector<std::string>& arguments) {
  const std::string program = ProgramFolder() + "/hone-verifier";
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return Report(ErrnoStatus(errno, "starting " + program));
}

}  // namespace

void AddVerifier(CLI::App& app, Action& action) {
  CLI::App* verifier = app.add_subcommand("verifier", "Serves verdicts over gRPC");
  verifier->footer("Everything after `verifier` goes to hone-verifier; its own --help lists it. `hone verifier top` shows\n"
                   "what a running one does.\n"
                   "Example:\n  hone verifier --listen 127.0.0.1:50151 --set build_slots=4");
  verifier->set_help_flag();
  verifier->prefix_command();
  verifier->callback([verifier, &action] {
    action = [verifier] {
      std::vector<std::string> arguments = verifier->remaining();
      if (arguments.empty() || arguments.front() != "top") return ExecVerifier(arguments);
      arguments.erase(arguments.begin());
      return VerifierTop(arguments);
    };
  });
}

}  // namespace hone::cli
