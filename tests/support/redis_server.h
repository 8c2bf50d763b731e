#pragma once

// A redis-server of the test's own on a free port, with an append-only file, to be killed and started again.

#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "tests/support/free_port.h"
#include "tests/support/memory_folder.h"

namespace hone {

class RedisServer {
 public:
  /// Skips the test where there is no redis-server.
  RedisServer() { Start(); }
  ~RedisServer() { Kill(); }

  std::string url() const { return absl::StrCat("redis://127.0.0.1:", port_, "/0"); }
  int port() const { return port_; }

  void Start() {
    SpawnOptions spawn;
    spawn.argv = {"redis-server", "--port", absl::StrCat(port_), "--bind", "127.0.0.1", "--dir", folder_.path(),
                  "--appendonly", "yes", "--save", "", "--loglevel", "warning"};
    absl::StatusOr<Child> child = Child::Spawn(spawn);
    if (absl::IsNotFound(child.status())) SKIP("redis-server is not installed");
    REQUIRE(child.ok());
    child_ = *std::move(child);
    for (int i = 0; i < 2000 && !Answers(); ++i) absl::SleepFor(absl::Milliseconds(5));
    REQUIRE(Answers());
  }
  /// As kill -9 does.
  void Kill() {
    if (child_) kill(child_->pid(), SIGKILL);
    if (child_) child_->Wait(SteadyTime::InfiniteFuture()).IgnoreError();
    child_.reset();
  }
  /// Loses all that it knew.
  void Forget() { RemoveTree(folder_.path() + "/appendonlydir").IgnoreError(); }

 private:
  bool Answers() const {
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return false;
    if (send(fd.get(), "PING\r\n", 6, MSG_NOSIGNAL) != 6) return false;
    char reply[8] = {};
    return recv(fd.get(), reply, 5, 0) == 5 && std::string(reply) == "+PONG";
  }

  TempFolder folder_ = MemoryFolder("redis");
  const int port_ = FreePort();
  std::optional<Child> child_;
};

}  // namespace hone
