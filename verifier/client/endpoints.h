#pragma once

// How hone's own commands reach a verifier that somebody else runs.

#include "absl/strings/string_view.h"
#include "verifier/client/client.h"

namespace hone::verifier {

/// `endpoints` are those of one service or farm, separated by commas; load is spread over them. Secrets stay off the command line and
/// out of settings that a run writes down: $HONE_TOKEN is the bearer token, $HONE_TLS_CA the PEM file of who signs the servers'
/// certificates, $HONE_TLS_CERTIFICATE and $HONE_TLS_KEY what a server that asks for a certificate is shown. The rest is as in `other`.
ClientOptions OptionsFor(absl::string_view endpoints, ClientOptions other = {});

}  // namespace hone::verifier
