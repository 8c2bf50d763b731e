#include "base/address.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace hone {
namespace {

constexpr int kLargestPort = 65535;

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view setting, absl::string_view address, absl::string_view or_else) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        setting, ": '", address, "' is ", or_else.empty() ? "not host:port" : absl::StrCat("neither host:port nor ", or_else)));
  }
  HostPort parsed;
  parsed.host = std::string(absl::StripSuffix(absl::StripPrefix(address.substr(0, colon), "["), "]"));
  const absl::string_view port = address.substr(colon + 1);
  if (!absl::SimpleAtoi(port, &parsed.port) || parsed.port < 0 || parsed.port > kLargestPort) {
    return absl::InvalidArgumentError(
        absl::StrCat(setting, ": '", address, "': port ", port, " is no number in [0, ", kLargestPort, "]"));
  }
  return parsed;
}

absl::Status CheckAddressFree(absl::string_view setting, absl::string_view address, absl::string_view or_else) {
  HONE_ASSIGN_OR_RETURN(const HostPort wanted, ParseHostPort(setting, address, or_else));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(wanted.host.c_str(), absl::StrCat(wanted.port).c_str(), &hints, &found);
  if (error != 0) return absl::InvalidArgumentError(absl::StrCat(setting, ": ", address, ": ", gai_strerror(error)));
  const UniqueFd probe(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  TakePortAlone(probe.get());
  const int bound = bind(probe.get(), found->ai_addr, found->ai_addrlen);
  const int bind_error = errno;
  freeaddrinfo(found);
  if (bound == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(setting, ": ", address, ": ", std::strerror(bind_error)));
}

void TakePortAlone(int socket) {
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

}  // namespace hone
