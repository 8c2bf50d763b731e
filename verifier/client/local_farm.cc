#include "verifier/client/local_farm.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/subprocess.h"

namespace hone::verifier {
namespace {

constexpr absl::Duration kJoinTimeout = absl::Minutes(3);  // a cold torch import
constexpr char kJoined[] = "joined the farm";

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

absl::StatusOr<int> FreePort() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return ErrnoStatus(errno, "looking for a free port");
  }
  return ntohs(address.sin_port);
}

/// Whether Redis there answers, with its file read.
bool Answers(int port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience = {1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const sockaddr_in address = Loopback(port);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return false;
  char reply[8] = {};
  return send(fd.get(), "PING\r\n", 6, MSG_NOSIGNAL) == 6 && recv(fd.get(), reply, 5, MSG_WAITALL) == 5 &&
         absl::string_view(reply, 5) == "+PONG";
}

size_t CountLines(const std::string& log, absl::string_view words) {
  size_t count = 0;
  for (absl::string_view line : absl::StrSplit(log, '\n')) count += absl::StrContains(line, words);
  return count;
}

}  // namespace

struct LocalFarm::State {
  struct Part {
    std::string role;
    std::string folder;
    std::optional<Child> child;
  };

  explicit State(TempFolder temporary) : folder(std::move(temporary)) {}

  LocalFarmOptions options;
  TempFolder folder;  // goes after the children
  int port = 0;
  std::optional<Child> redis;
  std::vector<Part> parts;

  std::string LogPath(const Part& part) const { return part.folder + "/log"; }
  absl::Status StartRedis();
  absl::Status Start(Part& part);
};

absl::Status LocalFarm::State::StartRedis() {
  SpawnOptions spawn;
  spawn.argv = {options.redis, "--port", absl::StrCat(port), "--bind", "127.0.0.1", "--dir", folder.path(),
                "--appendonly", "yes", "--save", "", "--loglevel", "warning"};
  HONE_ASSIGN_OR_RETURN(Child child, Child::Spawn(spawn));
  redis = std::move(child);
  const SteadyTime deadline = SteadyTime::Now() + absl::Seconds(30);
  while (!Answers(port)) {
    if (redis->Ended() || SteadyTime::Now() > deadline) return absl::InternalError("redis-server does not answer");
    absl::SleepFor(absl::Milliseconds(5));
  }
  return absl::OkStatus();
}

absl::Status LocalFarm::State::Start(Part& part) {
  const std::string log_path = LogPath(part);
  const absl::StatusOr<std::string> before = ReadFile(log_path);
  const size_t joined = before.ok() ? CountLines(*before, kJoined) : 0;
  const UniqueFd log(open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log) return ErrnoStatus(errno, log_path);
  SpawnOptions spawn;
  spawn.argv = {options.program.empty() ? ProgramFolder() + "/hone-verifier" : options.program,
                absl::StrCat("--listen=unix:", part.folder, "/socket"), absl::StrCat("--set=folder=", part.folder, "/state"),
                absl::StrCat("--queue=redis://127.0.0.1:", port, "/0"), absl::StrCat("--role=", part.role)};
  if (!options.python.empty()) spawn.argv.push_back(absl::StrCat("--set=python=", options.python));
  spawn.argv.insert(spawn.argv.end(), options.args.begin(), options.args.end());
  spawn.pass_fds = {{log.get(), 2}};
  HONE_ASSIGN_OR_RETURN(Child child, Child::Spawn(spawn));
  part.child = std::move(child);
  const SteadyTime deadline = SteadyTime::Now() + kJoinTimeout;
  while (true) {
    const absl::StatusOr<std::string> now = ReadFile(log_path);
    if (now.ok() && CountLines(*now, kJoined) > joined) return absl::OkStatus();
    if (part.child->Ended() || SteadyTime::Now() > deadline) {
      const std::vector<std::string> lines = absl::StrSplit(now.ok() ? *now : "", '\n', absl::SkipEmpty());
      return absl::InternalError(absl::StrCat(part.role, " did not join: ", lines.empty() ? "it said nothing" : lines.back()));
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
}

LocalFarm::LocalFarm(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<LocalFarm>> LocalFarm::Start(LocalFarmOptions options) {
  HONE_ASSIGN_OR_RETURN(TempFolder folder, TempFolder::Create("farm"));
  auto state = std::make_unique<State>(std::move(folder));
  state->options = std::move(options);
  HONE_ASSIGN_OR_RETURN(state->port, FreePort());
  HONE_RETURN_IF_ERROR(state->StartRedis());
  for (const std::string& role : state->options.roles) {
    State::Part part;
    part.role = role;
    part.folder = absl::StrCat(state->folder.path(), "/", state->parts.size());
    HONE_RETURN_IF_ERROR(MakeFolders(part.folder));
    state->parts.push_back(std::move(part));
  }
  for (State::Part& part : state->parts) HONE_RETURN_IF_ERROR(state->Start(part));
  return std::unique_ptr<LocalFarm>(new LocalFarm(std::move(state)));
}

LocalFarm::~LocalFarm() {
  for (size_t i = 0; i < size(); ++i) Kill(i);
  KillRedis();
}

std::vector<std::string> LocalFarm::endpoints() const {
  std::vector<std::string> endpoints;
  for (const State::Part& part : state_->parts) {
    if (part.role == "front" || part.role == "all") endpoints.push_back(absl::StrCat("unix:", part.folder, "/socket"));
  }
  return endpoints;
}

size_t LocalFarm::size() const { return state_->parts.size(); }
const std::string& LocalFarm::role(size_t part) const { return state_->parts.at(part).role; }
pid_t LocalFarm::pid(size_t part) const {
  const State::Part& it = state_->parts.at(part);
  return it.child ? it.child->pid() : -1;
}

void LocalFarm::Kill(size_t part) {
  State::Part& it = state_->parts.at(part);
  if (it.child) it.child->Kill();
  it.child.reset();
}

absl::Status LocalFarm::Restart(size_t part) {
  Kill(part);
  return state_->Start(state_->parts.at(part));
}

void LocalFarm::Terminate(size_t part) {
  State::Part& it = state_->parts.at(part);
  if (it.child) it.child->Terminate();
}

absl::StatusOr<int> LocalFarm::Wait(size_t part) {
  State::Part& it = state_->parts.at(part);
  if (!it.child) return absl::FailedPreconditionError("it does not run");
  return it.child->Wait(SteadyTime::Now() + absl::Minutes(1));
}

std::string LocalFarm::Log(size_t part) const {
  return ReadFile(state_->LogPath(state_->parts.at(part))).value_or("");
}

void LocalFarm::KillRedis() {
  if (state_->redis) state_->redis->Kill();
  state_->redis.reset();
}

absl::Status LocalFarm::StartRedis() { return state_->StartRedis(); }

}  // namespace hone::verifier
