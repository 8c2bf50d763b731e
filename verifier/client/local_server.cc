#include "verifier/client/local_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "verifier/client/client.h"

namespace hone::verifier {
namespace {

// Lanes import torch before the service answers; from a cold disk that takes its time.
constexpr absl::Duration kStartTimeout = absl::Minutes(3);
constexpr absl::Duration kStopTimeout = absl::Seconds(10);

bool Listens(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

/// Why the server ended: its own words where it left any.
absl::Status EndOf(int exit_code, const std::string& log_path) {
  const absl::StatusOr<std::string> log = ReadFile(log_path);
  std::string reason = absl::StrCat("hone-verifier ended with exit code ", exit_code, "; its log is ", log_path);
  for (absl::string_view line : absl::StrSplit(log.ok() ? *log : "", '\n')) {
    if (absl::ConsumePrefix(&line, "hone-verifier: ")) reason = std::string(line);
  }
  return exit_code == 2 ? absl::FailedPreconditionError(reason) : absl::InternalError(reason);
}

absl::Status AwaitService(Child& child, const std::string& socket_path, const std::string& log_path) {
  const SteadyTime deadline = SteadyTime::Now() + kStartTimeout;
  while (!Listens(socket_path)) {
    const absl::StatusOr<int> code = child.Wait(SteadyTime::Now() + absl::Milliseconds(10));
    if (code.ok()) return EndOf(*code, log_path);
    if (SteadyTime::Now() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("hone-verifier is not ready after ", absl::FormatDuration(kStartTimeout)));
    }
  }
  ClientOptions options;
  options.endpoints = {absl::StrCat("unix:", socket_path)};
  options.deadline = absl::Seconds(30);
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Client::Create(options));
  return client->GetCapabilities().status();
}

}  // namespace

struct LocalServer::State {
  TempFolder folder;  // goes after the child
  Child child;
};

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start(const LocalServerOptions& options) {
  HONE_ASSIGN_OR_RETURN(TempFolder folder, TempFolder::Create("hone-verifier"));
  const std::string socket_path = folder.path() + "/socket";
  if (socket_path.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::FailedPreconditionError(
        absl::StrCat(socket_path, ": too long for a socket; set TMPDIR to a shorter path"));
  }
  const std::string log_path = options.log_path.empty() ? folder.path() + "/log" : options.log_path;
  const UniqueFd log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  if (!log) return ErrnoStatus(errno, log_path);
  SpawnOptions spawn;
  spawn.argv = {options.program.empty() ? ProgramFolder() + "/hone-verifier" : options.program,
                absl::StrCat("--listen=unix:", socket_path), absl::StrCat("--set=folder=", folder.path(), "/state")};
  if (!options.python.empty()) spawn.argv.push_back(absl::StrCat("--set=python=", options.python));
  spawn.argv.insert(spawn.argv.end(), options.extra_args.begin(), options.extra_args.end());
  spawn.pass_fds = {{log.get(), 2}};
  HONE_ASSIGN_OR_RETURN(Child child, Child::Spawn(spawn));
  HONE_RETURN_IF_ERROR(AwaitService(child, socket_path, log_path));
  std::unique_ptr<LocalServer> server(new LocalServer());
  server->endpoint_ = absl::StrCat("unix:", socket_path);
  server->state_.reset(new State{std::move(folder), std::move(child)});
  return server;
}

LocalServer::~LocalServer() {
  if (!state_) return;
  state_->child.Terminate();
  if (!state_->child.Wait(SteadyTime::Now() + kStopTimeout).ok()) state_->child.Kill();
}

}  // namespace hone::verifier
