#pragma once

// Addresses that a server listens on and a client connects to: "host:port", IPv6 hosts in brackets.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

struct HostPort {
  std::string host;  // without brackets
  int port = 0;      // 0: where one listens, whichever is free
};

/// kInvalidArgument, naming `setting` and the address, unless it is host:port with a port in [0, 65535]. `or_else` names what else
/// the setting may be, for the message ("unix:/path").
absl::StatusOr<HostPort> ParseHostPort(absl::string_view setting, absl::string_view address, absl::string_view or_else = "");

/// Binds the address for a moment, as a server that shares its port with nobody does. For the precise reason, before anything
/// expensive has started. kInvalidArgument: no address of this machine's; kFailedPrecondition: in use, or not allowed.
absl::Status CheckAddressFree(absl::string_view setting, absl::string_view address, absl::string_view or_else = "");

/// Lets a listening socket take a port that is in TIME_WAIT, and none that another process listens on.
void TakePortAlone(int socket);

}  // namespace hone
