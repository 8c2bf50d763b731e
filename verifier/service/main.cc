// hone-verifier: the verifier as a service of its own. `hone verifier` hands over to it.

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "verifier/queue/redis_connection.h"
#include "verifier/rules/rule.h"
#include "verifier/service/config.h"
#include "verifier/service/lane_process.h"
#include "verifier/service/server.h"

namespace hone::verifier {
namespace {

enum ExitCode { kDone = 0, kOurFault = 1, kUsersInput = 2 };

struct CommandLine {
  std::string config;
  std::vector<std::string> overrides;
  std::vector<std::string> listen;
  std::string queue;
  std::string role;
  bool print_config = false;
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "hone-verifier: %s\n", std::string(status.message()).c_str());
  const bool users = absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsFailedPrecondition(status) ||
                     absl::IsPermissionDenied(status);
  return users ? kUsersInput : kOurFault;
}

absl::StatusOr<ServerConfig> ReadConfig(const CommandLine& line) {
  HONE_ASSIGN_OR_RETURN(const ConfigFile file, line.config.empty()
                                                   ? ConfigFile::Parse("{}", "command line", line.overrides)
                                                   : ConfigFile::Load(line.config, line.overrides));
  ServerConfig config;
  HONE_RETURN_IF_ERROR(file.Read(config));
  if (!line.listen.empty()) config.listen = line.listen;
  if (!line.queue.empty()) config.queue = line.queue;
  if (!line.role.empty()) config.role = line.role;
  HONE_RETURN_IF_ERROR(Resolve(config));
  return config;
}

/// The signals that end the service, blocked here and in every thread started later, so that one thread takes them.
sigset_t BlockEndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

/// Without its queue a part of a farm can do nothing: it waits, and says for what. A signal ends it here as anywhere.
absl::Status WaitForQueue(const ServerConfig& config, const Logger& log) {
  if (config.queue.empty()) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const RedisAddress address, ParseRedisUrl(config.queue));
  for (int seconds = 0;; ++seconds) {
    const absl::Status status = RedisConnection::Open(address, absl::Seconds(2)).status();
    if (!absl::IsUnavailable(status)) return status;
    if (seconds % 10 == 0) log.Warning("waiting for the queue", {{"error", status.message()}, {"waited_s", seconds}});
    absl::SleepFor(absl::Seconds(1));
  }
}

/// Drains in peace after the first signal; a second one ends the process where it stands.
void DrainOnSignal(Server& server, const Logger& log, const sigset_t& signals, absl::Duration patience) {
  int signal = 0;
  sigwait(&signals, &signal);
  log.Info("draining", {{"signal", signal}, {"at_most_s", absl::ToDoubleSeconds(patience)}});
  absl::Notification drained;
  std::thread drain([&] {
    server.Drain(SteadyTime::Now() + patience);
    drained.Notify();
  });
  while (!drained.HasBeenNotified()) {
    const timespec moment = {0, 50'000'000};
    if (sigtimedwait(&signals, nullptr, &moment) > 0) std::_Exit(kOurFault);
  }
  drain.join();
}

int Serve(const CommandLine& line) {
  const absl::StatusOr<ServerConfig> config = ReadConfig(line);
  if (!config.ok()) return Fail(config.status());
  if (line.print_config) {
    std::fputs(ToYaml(*config).c_str(), stdout);
    return kDone;
  }
  const Logger log = Logger::ToStderr("verifier", *ParseLogLevel(config->log_level));
  if (const absl::Status status = WaitForQueue(*config, log); !status.ok()) return Fail(status);
  const sigset_t signals = BlockEndSignals();
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(*config, log);
  if (!server.ok()) return Fail(server.status());
  DrainOnSignal(**server, log, signals, absl::Seconds(config->drain_s));
  server->reset();
  log.Info("stopped");
  return kDone;
}

int Main(int argc, char** argv) {
  CLI::App app{"hone-verifier judges GPU kernels: candidates in over gRPC, verdicts out.\n"
               "Example: hone-verifier --listen 127.0.0.1:50151 --set build_slots=4"};
  app.set_version_flag("--version", "hone-verifier " HONE_VERSION);
  CommandLine line;
  app.add_option("--config", line.config, "YAML file; --print-config shows all keys");
  app.add_option("--set", line.overrides, "key=value over the file; may be repeated")->type_size(1)->allow_extra_args(false);
  app.add_option("--listen", line.listen, "host:port or unix:/path over the file; may be repeated")
      ->type_size(1)->allow_extra_args(false);
  app.add_option("--queue", line.queue, "redis://host:port/db that the processes of a farm share, over the file");
  app.add_option("--role", line.role, "part in a farm, over the file")->check(CLI::IsMember({"all", "front", "build", "lane"}));
  bool rules = false;
  app.add_flag("--rules", rules, "print the rules for candidates, as docs/rules.md has them, and end");
  app.add_flag("--print-config", line.print_config, "print the resolved configuration and end");

  int fd = -1;
  LaneOptions lane;
  CLI::App* lane_command = app.add_subcommand("lane", "one lane, started by the service")->group("");
  lane_command->add_option("--fd", fd)->required();
  lane_command->add_option("--device", lane.device);
  lane_command->add_option("--python", lane.python);
  lane_command->add_option("--sandbox", lane.sandbox);
  lane_command->add_option("--runners-ahead", lane.runners_ahead);
  lane_command->add_option("--task-memory-share", lane.task_memory_share);
  lane_command->add_option("--cpu-core", lane.cpu_core);
  std::string lane_log_level = "info";
  lane_command->add_option("--log-level", lane_log_level)->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return Fail(absl::InvalidArgumentError(absl::StrCat(error.what(), " (hone-verifier --help shows all)")));
  }
  if (rules) {
    std::fputs(RulesMarkdown().c_str(), stdout);
    return kDone;
  }
  if (!lane_command->parsed()) return Serve(line);
  lane.log = Logger::ToStderr(absl::StrCat("lane ", lane.device), *ParseLogLevel(lane_log_level));
  return ServeLane(fd, lane);
}

}  // namespace
}  // namespace hone::verifier

int main(int argc, char** argv) { return hone::verifier::Main(argc, argv); }
