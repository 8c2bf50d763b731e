#pragma once

// The verifier that a command asks: one that runs already, or one of its own for as long as the command lasts.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace CLI {
class App;
}

namespace hone::cli {

/// What the command line says about it.
struct VerifierChoice {
  std::string server;  // host:port or unix:/path, several with commas; empty: one of its own, to which the others apply
  std::string python;
  std::string sandbox;
  std::string log;
};

/// Adds --server, --python, --sandbox and --log.
void AddVerifierChoice(CLI::App& command, VerifierChoice& choice);

struct VerifierAccess {
  std::unique_ptr<verifier::LocalServer> own;  // null: it runs elsewhere
  std::unique_ptr<verifier::Client> client;
};

/// Starts a verifier where none was chosen, with `settings` ("lanes=1") over its defaults, and connects. `client`: but for its
/// endpoints.
absl::StatusOr<VerifierAccess> OpenVerifier(const VerifierChoice& choice, const std::vector<std::string>& settings,
                                            verifier::ClientOptions client = {});

}  // namespace hone::cli
