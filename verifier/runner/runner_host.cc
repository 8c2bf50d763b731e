#include "verifier/runner/runner_host.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/descriptor_message.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "verifier/lane/affinity.h"
#include "verifier/sandbox/bubblewrap.h"
#include "verifier/sandbox/seccomp.h"

namespace hone::verifier {
namespace {

constexpr absl::Duration kProcessEnd = absl::Seconds(10);
constexpr absl::Duration kDyingTime = absl::Seconds(5);  // between the end of a socket and that of its process: a driver takes its time

absl::StatusOr<std::array<UniqueFd, 2>> SocketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return ErrnoStatus(errno, "making sockets");
  return std::array<UniqueFd, 2>{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// The filter that runners of an interpreter install, as a file at its begin: the one, or that of candidates which compile
/// as they run.
absl::StatusOr<UniqueFd> InterpreterFilter(FilterFor purpose, bool compiling) {
  std::vector<sock_filter> program;
  std::string error;
  const bool assembled = compiling ? AssembleCompilingInterpreterFilter(&program, &error)
                                   : AssembleInterpreterFilter(purpose, &program, &error);
  if (!assembled) return absl::InternalError(error);
  UniqueFd file(memfd_create("filter", MFD_CLOEXEC));
  const auto bytes = static_cast<ssize_t>(program.size() * sizeof(sock_filter));
  if (!file || write(file.get(), program.data(), static_cast<size_t>(bytes)) != bytes ||
      lseek(file.get(), 0, SEEK_SET) != 0) {
    return ErrnoStatus(errno, "writing the system-call filter");
  }
  return file;
}

/// Waits for something to read. False at the deadline.
bool AwaitReadable(int fd, SteadyTime deadline) {
  while (true) {
    const absl::Duration left = deadline - SteadyTime::Now();
    const int64_t ms = absl::ToInt64Milliseconds(absl::Ceil(std::max(left, absl::ZeroDuration()), absl::Milliseconds(1)));
    pollfd item = {fd, POLLIN, 0};
    const int ready = poll(&item, 1, static_cast<int>(std::min<int64_t>(ms, 1 << 30)));
    if (ready > 0) return true;
    if (ready == 0 && SteadyTime::Now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

/// Names a command: nobody can know it before the command is given.
absl::StatusOr<uint64_t> DrawEpoch() {
  uint64_t epoch = 0;
  if (getrandom(&epoch, sizeof epoch, 0) != sizeof epoch) return ErrnoStatus(errno, "drawing random numbers");
  return epoch;
}

/// Waits awake for something to read, for as long as a timed round usually takes: on a GPU waking up is part of what the
/// clock sees.
void LookForAnswer(int fd) {
  constexpr absl::Duration kLook = absl::Milliseconds(50);
  pollfd item = {fd, POLLIN, 0};
  for (const SteadyTime until = SteadyTime::Now() + kLook; poll(&item, 1, 0) == 0 && SteadyTime::Now() < until;) {
  }
}

bool SendBytes(int socket, const void* data, size_t bytes, const std::vector<int>& fds) {
  return SendMessage(socket, data, bytes, fds.data(), static_cast<int>(fds.size())) == static_cast<ssize_t>(bytes);
}

/// One message of exactly this type: 1, 0 at the end of the stream, -1 for anything else.
template <class Message>
int ReceiveExactly(int socket, Message* message, ucred* sender = nullptr) {
  // No room for descriptors: with any, a candidate could fill the judge's table of open files.
  const ReceivedMessage got = ReceiveMessage(socket, message, sizeof *message, {.wait = false, .descriptors = 0, .sender = sender});
  if (got.bytes < 0 && errno == ECONNRESET) return 0;
  if (got.bytes == 0) {  // the end, or a message without bytes
    pollfd item = {socket, POLLRDHUP, 0};
    poll(&item, 1, 0);
    return (item.revents & (POLLHUP | POLLRDHUP)) != 0 ? 0 : -1;
  }
  const bool whole = got.bytes == static_cast<ssize_t>(sizeof *message) && !got.truncated && !got.dropped;
  return whole && message->magic == kRunnerMagic ? 1 : -1;
}

/// Whether the sandbox shows it anyway.
bool IsSystemLibrary(const std::string& path) {
  return absl::StartsWith(path, "/usr/lib/") || absl::StartsWith(path, "/lib/") || absl::StartsWith(path, "/lib64/") ||
         path.find('/') == std::string::npos;
}

}  // namespace

RunnerReport ReportOf(const Command& command, const Answer* answer) {
  RunnerReport report;
  const bool runs = command.kind == CommandKind::kRun || command.kind == CommandKind::kPrepare;
  const AnswerKind expected = runs ? AnswerKind::kDone : AnswerKind::kLoaded;
  const bool known = answer != nullptr && answer->magic == kRunnerMagic && answer->epoch == command.epoch &&
                     (answer->kind == expected || answer->kind == AnswerKind::kFault ||
                      (answer->kind == AnswerKind::kLoadFailed && command.kind != CommandKind::kRun));
  if (!known) {
    report.kind = RunnerReport::Kind::kGarbage;
    report.text = answer == nullptr ? "a message of the wrong form"
                                    : absl::StrCat("message ", static_cast<uint32_t>(answer->kind), " of epoch ", answer->epoch,
                                                   " where ", static_cast<uint32_t>(expected), " of ", command.epoch, " belongs");
    return report;
  }
  report.code = answer->code;
  report.failed_call = answer->failed_call;
  report.process_ns = answer->process_ns;
  report.workspace_failed = answer->workspace_failed != 0;
  report.custom_calls = answer->custom_calls;
  report.library_calls = answer->library_calls;
  report.launches = answer->launches;
  report.text.assign(answer->text, strnlen(answer->text, sizeof answer->text));
  if (answer->kind == AnswerKind::kFault) {
    report.kind = RunnerReport::Kind::kFault;
    report.signal = answer->signal;
    report.system_call = answer->system_call;
    report.address = answer->address;
    return report;
  }
  report.kind = answer->kind == AnswerKind::kLoadFailed ? RunnerReport::Kind::kLoadFailed : RunnerReport::Kind::kDone;
  return report;
}

// ---- Runner ----

Runner::~Runner() { Kill(); }

void Runner::Kill() {
  if (pid_fd_) {
    Signal(SIGKILL);
    host_->dying_.push_back(std::move(pid_fd_));
    if (host_->options_.gpu_backend.empty()) host_->AwaitGone();
  }
  socket_.Reset();
}

absl::Status Runner::AwaitHello(SteadyTime deadline) {
  if (pid_fd_) {  // it was ready before; is it still?
    const bool ended = AwaitReadable(pid_fd_.get(), SteadyTime::InfinitePast());
    return ended ? absl::UnavailableError("a candidate runner ended while it waited") : absl::OkStatus();
  }
  Answer answer;
  ucred sender = {};
  if (!AwaitReadable(socket_.get(), deadline)) return absl::UnavailableError("a candidate runner does not start");
  if (ReceiveExactly(socket_.get(), &answer, &sender) != 1 || answer.kind != AnswerKind::kHello || sender.pid <= 0) {
    return absl::UnavailableError("a candidate runner ended at its start");
  }
  if (answer.code != 0) {
    return absl::UnavailableError(absl::StrCat("a candidate runner cannot open its device: ",
                                               std::string(answer.text, strnlen(answer.text, sizeof answer.text)), " (",
                                               answer.code, ")"));
  }
  const int off = 0;  // later messages need no credentials, and carry none for speed
  setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &off, sizeof off);
  pid_ = sender.pid;
  pid_fd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!pid_fd_) return absl::UnavailableError("a candidate runner ended at its start");
  return AwaitHello(deadline);  // its hello may be older than its end
}

absl::StatusOr<RunnerReport> Runner::Map(int table_fd, uint64_t table_bytes, int inputs_fd, int outputs_fd,
                                         SteadyTime deadline) {
  Command command;
  command.kind = CommandKind::kMap;
  command.table_bytes = table_bytes;
  return Do(command, {table_fd, inputs_fd, outputs_fd}, deadline);
}

absl::StatusOr<RunnerReport> Runner::Load(int artefact_fd, SteadyTime deadline) {
  Command command;
  command.kind = CommandKind::kLoad;
  return Do(command, {artefact_fd}, deadline);
}

absl::StatusOr<RunnerReport> Runner::Prepare(uint32_t call_count, bool fresh, SteadyTime deadline) {
  Command command;
  command.kind = CommandKind::kPrepare;
  command.call_count = call_count;
  command.fresh = fresh;
  return Do(command, {}, deadline);
}

absl::StatusOr<RunnerReport> Runner::Run(uint32_t call_count, SteadyTime deadline, uint32_t behind_mb) {
  Command command;
  command.kind = CommandKind::kRun;
  command.call_count = call_count;
  command.behind_mb = behind_mb;
  return Do(command, {}, deadline);
}

absl::StatusOr<RunnerReport> Runner::Wake(SteadyTime deadline) {
  Command command;
  command.kind = CommandKind::kRun;
  return Do(command, {}, deadline, /*stop=*/false);
}

absl::StatusOr<RunnerReport> Runner::RunChecked(ThreadOrder order, uint32_t order_seed, bool kernels_off,
                                                SteadyTime deadline) {
  Command command;
  command.kind = CommandKind::kRun;
  command.call_count = 1;
  command.order = order;
  command.order_seed = order_seed;
  command.checked = 1;
  command.kernels_off = kernels_off ? 1 : 0;
  return Do(command, {}, deadline);
}

absl::StatusOr<RunnerReport> Runner::Do(Command command, std::vector<int> fds, SteadyTime deadline, bool stop) {
  HONE_ASSIGN_OR_RETURN(command.epoch, DrawEpoch());
  // A message that waits already is an answer to a command that was not yet given: it cannot know the epoch.
  if (host_->options_.pause) Signal(SIGCONT);
  if (SendBytes(socket_.get(), &command, sizeof command, fds)) {
    absl::StatusOr<RunnerReport> report = ReadAnswer(command, deadline);
    if (host_->options_.pause && stop) Signal(SIGSTOP);
    return report;
  }
  RunnerReport report;
  report.kind = RunnerReport::Kind::kEnded;
  return End(std::move(report));
}

void Runner::Signal(int number) {
  if (pid_fd_) syscall(SYS_pidfd_send_signal, pid_fd_.get(), number, nullptr, 0);
}

absl::StatusOr<RunnerReport> Runner::ReadAnswer(const Command& command, SteadyTime deadline) {
  RunnerReport report;
  if (command.kind == CommandKind::kRun && !host_->options_.gpu_backend.empty()) LookForAnswer(socket_.get());
  if (!AwaitReadable(socket_.get(), deadline)) {
    report.kind = RunnerReport::Kind::kTimeout;
    return report;
  }
  Answer answer;
  const int got = ReceiveExactly(socket_.get(), &answer);
  if (got == 0) {
    report.kind = RunnerReport::Kind::kEnded;
    return End(std::move(report));
  }
  return ReportOf(command, got == 1 ? &answer : nullptr);
}

absl::StatusOr<RunnerReport> Runner::End(RunnerReport report) {
  if (!AwaitReadable(pid_fd_.get(), SteadyTime::Now() + kDyingTime)) {
    report.kind = RunnerReport::Kind::kGarbage;
    report.text = "it closed its channel and goes on";
    return report;
  }
  HONE_ASSIGN_OR_RETURN(const RunnerEnded ended, host_->AwaitEnded(id_, SteadyTime::Now() + kProcessEnd));
  report.exited = ended.exited != 0;
  report.status = ended.status;
  return report;
}

std::string Runner::TakeOutput() {
  std::string text;
  std::array<char, 4096> buffer;
  while (text.size() < (64 << 10)) {
    const ssize_t got = read(output_.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

// ---- RunnerHost ----

absl::StatusOr<std::unique_ptr<RunnerHost>> RunnerHost::Create(RunnerHostOptions options) {
  if (!FileExists(options.program)) return absl::NotFoundError(absl::StrCat("no runner at ", options.program));
  std::unique_ptr<RunnerHost> host(new RunnerHost(std::move(options)));
  HONE_ASSIGN_OR_RETURN(host->sandbox_, ChooseSandbox(host->options_.sandbox));
  HONE_RETURN_IF_ERROR(host->StartZygote());
  return host;
}

RunnerHost::~RunnerHost() {
  prepared_.clear();
  AwaitGone();
  control_.Reset();  // the zygote ends by itself; the sandbox with it
}

void RunnerHost::Interrupt() {
  interrupted_ = true;
  if (const pid_t pid = interruptible_; pid > 0) kill(pid, SIGKILL);
}

absl::Status RunnerHost::StartZygote() {
  if (interrupted_) return absl::CancelledError("the candidate runners were interrupted");
  interruptible_ = -1;
  prepared_.clear();
  ended_.clear();
  HONE_ASSIGN_OR_RETURN(auto ends, SocketPair());
  SpawnOptions spawn;
  spawn.argv = {options_.program, "3"};
  spawn.environment = options_.environment;
  UniqueFd filter, compiling_filter;
  if (!options_.interpreter.empty()) {
    const FilterFor purpose = options_.gpu_backend.empty() ? FilterFor::kHost : FilterFor::kGpu;
    HONE_ASSIGN_OR_RETURN(filter, InterpreterFilter(purpose, /*compiling=*/false));
    HONE_ASSIGN_OR_RETURN(compiling_filter, InterpreterFilter(purpose, /*compiling=*/true));
    spawn.argv = {options_.interpreter, "-I", options_.program, "3", "--filter", "4", "--compiling-filter", "5"};
    spawn.pass_fds.emplace_back(filter.get(), 4);
    spawn.pass_fds.emplace_back(compiling_filter.get(), 5);
  }
  if (options_.cpu_core >= 0) spawn.argv.insert(spawn.argv.end(), {"--core", absl::StrCat(options_.cpu_core)});
  if (!options_.gpu_backend.empty()) {
    spawn.argv.insert(spawn.argv.end(), {"--gpu", options_.gpu_backend, options_.gpu_driver});
  }
  spawn.argv.insert(spawn.argv.end(), options_.libraries.begin(), options_.libraries.end());
  if (sandbox_ == "bubblewrap") {
    SandboxSpec box;
    box.first_process = true;  // bwrap's would be readable, and on a GPU writable, through /proc, and has no filter
    for (const std::string& library : options_.libraries) {
      if (!IsSystemLibrary(library)) box.read_only.push_back(library);
    }
    if (!options_.gpu_driver.empty() && !IsSystemLibrary(options_.gpu_driver)) {
      box.read_only.push_back(options_.gpu_driver);
    }
    box.devices = options_.devices;
    box.sys = !options_.gpu_backend.empty();
    box.read_only.insert(box.read_only.end(), options_.folders.begin(), options_.folders.end());
    box.environment = options_.environment;
    if (options_.interpreter.empty()) {
      box.read_only.push_back(options_.program);
    } else {
      box.read_only.push_back(options_.program.substr(0, options_.program.rfind('/')));
    }
    spawn.argv = InSandbox(box, spawn.argv);
  }
  spawn.inherit_environment = false;
  spawn.pass_fds.emplace_back(ends[1].get(), 3);
  spawn.pass_fds.emplace_back(2, 2);
  HONE_ASSIGN_OR_RETURN(Child child, [&] {
    const ScopedCores cores(options_.cores);
    return Child::Spawn(spawn);
  }());
  ends[1].Reset();
  ZygoteReady ready;
  if (!AwaitReadable(ends[0].get(), SteadyTime::Now() + options_.start_timeout) ||
      ReceiveExactly(ends[0].get(), &ready) != 1) {
    return absl::UnavailableError("the candidate runners' zygote does not start");
  }
  if (ready.message[0] != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the candidate runner: ", std::string(ready.message, strnlen(ready.message, sizeof ready.message))));
  }
  zygote_ = std::move(child);
  interruptible_ = zygote_->pid();
  control_ = std::move(ends[0]);
  lost_ = false;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Runner>> RunnerHost::Fork() {
  ReadEnded();
  HONE_ASSIGN_OR_RETURN(auto ends, SocketPair());
  const int on = 1;
  setsockopt(ends[0].get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  int pipe_ends[2];
  // Both ends do not block: a runner that floods loses its output, and cannot wait for a reader.
  if (pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK) != 0) return ErrnoStatus(errno, "making a pipe");
  UniqueFd reader(pipe_ends[0]);
  UniqueFd writer(pipe_ends[1]);
  ForkRequest request;
  request.id = next_id_++;
  request.data_limit_bytes = static_cast<uint64_t>(options_.memory_limit_bytes);
  if (!SendBytes(control_.get(), &request, sizeof request, {ends[1].get(), writer.get()})) {
    return absl::UnavailableError("the candidate runners' zygote is gone");
  }
  return std::unique_ptr<Runner>(new Runner(this, request.id, std::move(ends[0]), std::move(reader)));
}

void RunnerHost::Prepare(int runners, int least) {
  if (prepared_.size() >= static_cast<size_t>(least)) return;
  while (prepared_.size() < static_cast<size_t>(runners)) {
    auto runner = Fork();
    if (!runner.ok()) return;  // Start will see why
    prepared_.push_back(*std::move(runner));
  }
}

bool RunnerHost::ReadyOneMore(int runners) {
  const size_t ready = prepared_.size();
  if (ready >= static_cast<size_t>(runners)) return false;
  Prepare(static_cast<int>(ready) + 1);
  if (prepared_.size() == ready) return false;  // Start will see why
  if (prepared_.back()->AwaitHello(SteadyTime::Now() + kProcessEnd).ok()) return true;
  prepared_.pop_back();  // most likely the device's memory is somebody else's
  return false;
}

absl::Status RunnerHost::AwaitReady(Runner& runner) {
  const SteadyTime start = SteadyTime::Now();
  const absl::Status ready = runner.AwaitHello(start + kProcessEnd);
  waited_ += SteadyTime::Now() - start;
  return ready;
}

void RunnerHost::AwaitGone() {
  const SteadyTime start = SteadyTime::Now();
  for (const UniqueFd& process : dying_) AwaitReadable(process.get(), SteadyTime::Now() + kProcessEnd);
  dying_.clear();
  waited_ += SteadyTime::Now() - start;
}

void RunnerHost::AwaitQuiet() {
  AwaitGone();
  for (auto& runner : prepared_) {
    if (!AwaitReady(*runner).ok()) break;  // Start will see why
  }
}

absl::StatusOr<std::unique_ptr<Runner>> RunnerHost::Start() {
  absl::Status last = absl::UnavailableError("the candidate runners' zygote does not stay up");
  ReadEnded();
  bool spent = lost_;  // the zygote, for all we know
  for (int attempt = 0; attempt < 4; ++attempt) {
    if (spent) HONE_RETURN_IF_ERROR(StartZygote());
    spent = prepared_.empty();  // a runner that is forked now and fails is its fault; one that waited may have been killed
    Prepare(1);
    while (!prepared_.empty()) {
      std::unique_ptr<Runner> runner = std::move(prepared_.front());
      prepared_.pop_front();
      last = AwaitReady(*runner);
      if (last.ok()) return runner;
    }
  }
  return last;
}

void RunnerHost::ReadEnded() {
  constexpr size_t kRemembered = 1024;  // far more than runners live at a time
  RunnerEnded ended;
  while (ReceiveExactly(control_.get(), &ended) == 1) ended_.push_back(ended);
  if (ended_.size() > kRemembered) ended_.erase(ended_.begin(), ended_.end() - kRemembered);
}

absl::StatusOr<RunnerEnded> RunnerHost::AwaitEnded(uint32_t id, SteadyTime deadline) {
  while (true) {
    for (size_t i = 0; i < ended_.size(); ++i) {
      if (ended_[i].id != id) continue;
      const RunnerEnded found = ended_[i];
      ended_.erase(ended_.begin() + static_cast<std::ptrdiff_t>(i));
      return found;
    }
    RunnerEnded ended;
    if (!AwaitReadable(control_.get(), deadline)) return absl::UnavailableError("the runners' zygote does not answer");
    if (ReceiveExactly(control_.get(), &ended) != 1) {
      lost_ = true;
      return absl::UnavailableError("the runners' zygote is gone");
    }
    ended_.push_back(ended);
  }
}

}  // namespace hone::verifier
