#include "cli/verifier_access.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "base/status_macros.h"
#include "verifier/client/endpoints.h"

namespace hone::cli {

void AddVerifierChoice(CLI::App& command, VerifierChoice& choice) {
  command.add_option("--server", choice.server, "A running verifier, host:port or unix:/path, several of one farm with commas; default: one of its own");
  command.add_option("--python", choice.python, "Interpreter with torch; default: $HONE_PYTHON, else the build's");
  command.add_option("--sandbox", choice.sandbox, "Of the verifier of its own; default: $HONE_SANDBOX, else bubblewrap")
      ->check(CLI::IsMember({"bubblewrap", "none"}));
  command.add_option("--log", choice.log, "Where the verifier of its own logs; default: nowhere");
}

absl::StatusOr<VerifierAccess> OpenVerifier(const VerifierChoice& choice, const std::vector<std::string>& settings,
                                            verifier::ClientOptions client) {
  VerifierAccess access;
  if (!choice.server.empty()) {
    client = verifier::OptionsFor(choice.server, std::move(client));
  } else {
    verifier::LocalServerOptions options;
    options.python = choice.python;
    options.log_path = choice.log;
    for (const std::string& setting : settings) options.extra_args.push_back("--set=" + setting);
    if (!choice.sandbox.empty()) options.extra_args.push_back("--set=sandbox=" + choice.sandbox);
    HONE_ASSIGN_OR_RETURN(access.own, verifier::LocalServer::Start(options));
    client.endpoints = {access.own->endpoint()};
  }
  HONE_ASSIGN_OR_RETURN(access.client, verifier::Client::Create(std::move(client)));
  return access;
}

}  // namespace hone::cli
