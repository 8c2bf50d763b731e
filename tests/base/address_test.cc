#include "base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace hone {
namespace {

TEST_CASE("An address is a host and a port in range", "[base][address]") {
  CHECK(ParseHostPort("http", "0.0.0.0:8151")->host == "0.0.0.0");
  CHECK(ParseHostPort("http", "0.0.0.0:8151")->port == 8151);
  CHECK(ParseHostPort("http", "[::1]:0")->host == "::1");
  CHECK(ParseHostPort("http", "host:65535").ok());
  CHECK(ParseHostPort("http", "host:65536").status().message() == "http: 'host:65536': port 65536 is no number in [0, 65535]");
  CHECK(ParseHostPort("http", "host:-1").status().message() == "http: 'host:-1': port -1 is no number in [0, 65535]");
  CHECK(ParseHostPort("http", "host:http").status().message() == "http: 'host:http': port http is no number in [0, 65535]");
  CHECK(ParseHostPort("http", "host").status().message() == "http: 'host' is not host:port");
  CHECK(ParseHostPort("http", ":80").status().message() == "http: ':80' is not host:port");
  CHECK(ParseHostPort("listen", "host", "unix:/path").status().message() == "listen: 'host' is neither host:port nor unix:/path");
}

TEST_CASE("A port that a process listens on is not free, even if that process would share it", "[base][address]") {
  const UniqueFd holder(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  REQUIRE(setsockopt(holder.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  REQUIRE(bind(holder.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(listen(holder.get(), 1) == 0);
  REQUIRE(getsockname(holder.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);

  const std::string taken = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  const absl::Status status = CheckAddressFree("metrics", taken);
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(status.message() == absl::StrCat("metrics: ", taken, ": Address already in use"));
  CHECK(CheckAddressFree("metrics", "127.0.0.1:0").ok());
  CHECK(CheckAddressFree("metrics", "no.such.host.invalid:80").code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hone
