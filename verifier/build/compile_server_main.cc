// hone-compile-server: runs the CPU toolchain over untrusted sources, one after the other, inside a sandbox that was set up
// once. Each job gets fresh processes with limits and a system-call filter, memory files for all it reads and writes, and
// nothing of an earlier job; what a job started is gone before its reply.
//
// usage: hone-compile-server SOCKET SNAPSHOT.so SCRATCH as ARG... -- ld ARG... -- (HEADER,HEADER cc1plus ARG... --)...
//   SOCKET       number of the inherited SOCK_SEQPACKET socket to the builder
//   SNAPSHOT.so  preloaded into compilers (compile_snapshot.cc)
//   SCRATCH      an empty writable folder for precompiled headers
//   HEADER,...   what the compile command that follows has read before the source

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/descriptor_message.h"
#include "verifier/build/compile_protocol.h"
#include "verifier/sandbox/seccomp.h"

namespace hone::verifier {
namespace {

using Words = std::vector<std::string>;

constexpr ToolLimits kLimits = {uint64_t{2} << 30, uint64_t{64} << 20, 600};
constexpr int kSnapshotStartMs = 20'000;

int64_t NowMs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

bool Send(int socket, const void* data, size_t bytes, const std::vector<int>& fds) {
  return SendMessage(socket, data, bytes, fds.data(), static_cast<int>(fds.size())) == static_cast<ssize_t>(bytes);
}

/// One message with at most one descriptor; false at the end of the conversation.
template <class Type>
bool Receive(int socket, Type* message, int* fd) {
  const ReceivedMessage got = ReceiveMessage(socket, message, sizeof *message);
  for (int i = 1; i < got.count; ++i) close(got.fds[i]);
  *fd = got.count > 0 ? got.fds[0] : -1;
  return got.bytes == static_cast<ssize_t>(sizeof *message) && message->magic == kCompileMagic;
}

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  void Take(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_;
};

std::vector<char*> Pointers(const Words& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

void Limit(__rlimit_resource resource, uint64_t value) {
  const rlimit limit = {value, value};
  setrlimit(resource, &limit);
}

/// Waits for one child to end; at the deadline it is killed and `timed_out` set. SIGCHLD must be blocked.
int WaitFor(pid_t pid, int64_t deadline_ms, bool* timed_out) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    const int64_t left = deadline_ms - NowMs();
    if (left <= 0) {
      *timed_out = true;
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return status;
    }
    const timespec wait = {left / 1000, left % 1000 * 1'000'000};
    sigtimedwait(&child, nullptr, &wait);
  }
  return status;
}

/// Starts a tool with descriptor 3 to read, 4 to write, and its words to `messages`.
pid_t StartTool(const Words& command, int in, int out, int messages, const std::vector<sock_filter>& filter) {
  const std::vector<char*> argv = Pointers(command);
  static char language[] = "LC_ALL=C";
  char* environment[] = {language, nullptr};
  const pid_t pid = fork();
  if (pid != 0) return pid;
  // Copies above all targets first, so that no target overwrites a source.
  const int sources[] = {fcntl(in, F_DUPFD, 10), fcntl(out, F_DUPFD, 10), fcntl(messages, F_DUPFD, 10)};
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDIN_FILENO);
  dup2(sources[2], STDOUT_FILENO);
  dup2(sources[2], STDERR_FILENO);
  dup2(sources[0], 3);
  dup2(sources[1], 4);
  syscall(SYS_close_range, 5u, ~0u, 0u);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Limit(RLIMIT_AS, kLimits.memory_bytes);
  Limit(RLIMIT_FSIZE, kLimits.file_bytes);
  Limit(RLIMIT_CPU, kLimits.cpu_seconds);
  if (!filter.empty() && InstallFilter(filter) != 0) _exit(126);
  execve(argv[0], argv.data(), environment);
  _exit(127);
}

/// One command of a job: reads a file, writes a file. It runs as a child of a snapshot of itself (compile_snapshot.cc)
/// where that works, else from its start.
class Tool {
 public:
  /// `unit`: what the command reads that in turn includes the source; empty: the source itself.
  Tool(Words command, std::string folder, std::string snapshot, std::string unit)
      : command_(std::move(command)), folder_(std::move(folder)), snapshot_(std::move(snapshot)), unit_(std::move(unit)) {}

  void SetFilters(std::vector<sock_filter> forked, std::vector<sock_filter> whole) {
    forked_filter_ = std::move(forked);
    whole_filter_ = std::move(whole);
  }

  /// Starts the command on descriptors; the child is ours to wait for. < 0: it does not start.
  pid_t Start(int source, int output, int messages) {
    if (!tried_) StartSnapshot();
    if (socket_.get() >= 0) {
      pid_t pid = Ask(source, output, messages);
      if (pid > 0) return pid;
      StartSnapshot();  // something ended it: one more
      if (socket_.get() >= 0 && (pid = Ask(source, output, messages)) > 0) return pid;
      socket_.Take(-1);
    }
    const std::string path = SourcePath();
    unlink(path.c_str());
    if (symlink("/proc/self/fd/3", path.c_str()) != 0) return -1;
    return StartTool(Command("/proc/self/fd/4"), source, output, messages, whole_filter_);
  }

  const Words& command() const { return command_; }
  const std::string& folder() const { return folder_; }

 private:
  std::string SourcePath() const { return folder_ + "/" + kSnapshotSource; }

  Words Command(const std::string& output) const {
    Words command = command_;
    command.insert(command.end(), {"-o", output, unit_.empty() ? SourcePath() : unit_});
    return command;
  }

  pid_t Ask(int source, int output, int messages) {
    SnapshotJob job;
    job.limits = kLimits;
    job.filter_count = static_cast<uint32_t>(forked_filter_.size());
    std::vector<char> bytes(sizeof job + forked_filter_.size() * sizeof(sock_filter));
    std::memcpy(bytes.data(), &job, sizeof job);
    if (job.filter_count > 0) std::memcpy(bytes.data() + sizeof job, forked_filter_.data(), bytes.size() - sizeof job);
    SnapshotStarted started;
    int none;
    if (!Send(socket_.get(), bytes.data(), bytes.size(), {source, output, messages}) ||
        !Receive(socket_.get(), &started, &none)) {
      return -1;
    }
    return started.pid;
  }

  /// Leaves socket_ at -1 when the command does not become a snapshot.
  void StartSnapshot() {
    tried_ = true;
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
    socket_.Take(-1);
    unlink(SourcePath().c_str());
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
    Fd theirs(ends[1]);
    Fd ours(ends[0]);
    const std::string output = folder_ + "/unused";
    const Words command = Command(output);
    const std::vector<char*> argv = Pointers(command);
    const std::string settings[] = {"LC_ALL=C", "LD_PRELOAD=" + snapshot_, std::string(kSnapshotSocket) + "=3",
                                    std::string(kSnapshotOutput) + "=" + output};
    std::vector<char*> environment;
    for (const std::string& setting : settings) environment.push_back(const_cast<char*>(setting.c_str()));
    environment.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      const int socket = fcntl(theirs.get(), F_DUPFD, 10);
      const int nothing = open("/dev/null", O_RDWR);
      for (int fd = 0; fd < 3; ++fd) dup2(nothing, fd);
      dup2(socket, 3);
      syscall(SYS_close_range, 4u, ~0u, 0u);
      sigset_t none;
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, nullptr);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execve(argv[0], argv.data(), environment.data());
      _exit(127);
    }
    theirs.Take(-1);  // so that its death shows as the end of the conversation
    SnapshotStarted started;
    int none;
    pollfd item = {ours.get(), POLLIN, 0};
    const bool ready = pid > 0 && poll(&item, 1, kSnapshotStartMs) == 1 && Receive(ours.get(), &started, &none) &&
                       started.pid == 0;
    if (ready) {
      pid_ = pid;
      socket_.Take(dup(ours.get()));
    } else if (pid > 0) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  const Words command_;
  const std::string folder_;
  const std::string snapshot_;
  const std::string unit_;
  std::vector<sock_filter> forked_filter_;  // of a child of the snapshot: it has its files open
  std::vector<sock_filter> whole_filter_;   // of a command run from its start
  Fd socket_;
  pid_t pid_ = -1;
  bool tried_ = false;
};

class Server {
 public:
  Server(int builder, std::string snapshot, std::string scratch) : builder_(builder), snapshot_(std::move(snapshot)), scratch_(std::move(scratch)) {}

  /// The assembler first, then the linker, then compile commands with their headers.
  void AddTool(Words command) { tools_.push_back(Make(std::move(command), "")); }
  void AddCompiler(std::string headers, Words command) {
    tools_.push_back(Make(std::move(command), "/unit.cc"));
    headers_.push_back(std::move(headers));
  }

  int Loop() {
    SetFilters();
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, nullptr);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    CompileRequest request;
    int source = -1;
    while (Receive(builder_, &request, &source)) {
      const Fd owned(source);
      const Fd messages(memfd_create("messages", MFD_CLOEXEC));
      const Fd artefact(memfd_create("artefact", MFD_CLOEXEC));
      const Fd assembly(memfd_create("assembly", MFD_CLOEXEC));
      CompileReply reply;
      if (source < 0 || request.variant >= headers_.size() || messages.get() < 0 || artefact.get() < 0 || assembly.get() < 0) {
        reply.status = EINVAL;
      } else {
        Run(request, source, messages.get(), assembly.get(), artefact.get(), &reply);
      }
      if (!Send(builder_, &reply, sizeof reply, {messages.get(), artefact.get(), assembly.get()})) return 1;
    }
    return 0;
  }

 private:
  std::unique_ptr<Tool> Make(Words command, const std::string& unit) {
    const std::string folder = scratch_ + "/" + std::to_string(tools_.size());
    mkdir(folder.c_str(), 0700);
    return std::make_unique<Tool>(std::move(command), folder, snapshot_, unit.empty() ? "" : folder + unit);
  }

  void SetFilters() {
    std::vector<sock_filter> forked, whole;
    std::string error;
    if (!AssembleToolFilter(false, &forked, &error) || !AssembleToolFilter(true, &whole, &error)) {
      // Without libseccomp's help the namespaces and limits remain.
      std::fprintf(stderr, "hone-compile-server: %s\n", error.c_str());
      return;
    }
    for (const auto& tool : tools_) tool->SetFilters(forked, whole);
  }

  void Run(const CompileRequest& request, int source, int messages, int assembly, int artefact, CompileReply* reply) {
    Tool& compiler = *tools_[2 + request.variant];
    if (!headers_[request.variant].empty()) {
      Precompile(compiler, headers_[request.variant]);
      headers_[request.variant].clear();
    }
    const int64_t deadline = NowMs() + request.timeout_ms;
    const Fd object(memfd_create("object", MFD_CLOEXEC));
    const auto step = [&](CompileStage stage, Tool& tool, int in, int out) {
      lseek(in, 0, SEEK_SET);
      const pid_t pid = tool.Start(in, out, messages);
      bool timed_out = false;
      reply->stage = stage;
      reply->status = pid < 0 ? W_EXITCODE(127, 0) : WaitFor(pid, deadline, &timed_out);
      reply->timed_out = timed_out;
      return reply->status == 0 && !timed_out;
    };
    if (step(CompileStage::kCompile, compiler, source, assembly) &&
        step(CompileStage::kAssemble, *tools_[0], assembly, object.get()) &&
        step(CompileStage::kLink, *tools_[1], object.get(), artefact)) {
      reply->stage = CompileStage::kDone;
    }
  }

  /// Writes the unit that every job of the compiler compiles, and precompiles its headers. A compiler that refuses to do
  /// so reads them as text.
  static void Precompile(const Tool& compiler, const std::string& headers) {
    std::string includes;
    for (size_t begin = 0; begin < headers.size();) {
      const size_t end = std::min(headers.find(',', begin), headers.size());
      includes += "#include \"" + headers.substr(begin, end - begin) + "\"\n";
      begin = end + 1;
    }
    const std::string path = compiler.folder() + "/headers.h";
    if (!Write(path, includes) || !Write(compiler.folder() + "/unit.cc",
                                         std::string("#include \"headers.h\"\n#include \"") + kSnapshotSource + "\"\n")) {
      return;
    }
    Words command = compiler.command();
    command.insert(command.end(), {path, "-o", "/dev/null", "--output-pch=" + path + ".gch"});
    const Fd nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
    bool timed_out = false;
    const int status = WaitFor(StartTool(command, nothing.get(), nothing.get(), nothing.get(), {}), NowMs() + kSnapshotStartMs,
                               &timed_out);
    if (status != 0) unlink((path + ".gch").c_str());
  }

  static bool Write(const std::string& path, const std::string& text) {
    const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    return fd.get() >= 0 && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }

  const int builder_;
  const std::string snapshot_;
  const std::string scratch_;
  std::vector<std::unique_ptr<Tool>> tools_;
  std::vector<std::string> headers_;  // of each compiler; empty once they are precompiled
};

int Main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: hone-compile-server SOCKET SNAPSHOT.so SCRATCH as ... -- ld ... -- HEADERS cc1plus ... --\n");
    return 2;
  }
  std::vector<Words> groups(1);
  for (int i = 4; i < argc; ++i) {
    if (std::strcmp(argv[i], "--") == 0) {
      groups.emplace_back();
    } else {
      groups.back().push_back(argv[i]);
    }
  }
  if (groups.back().empty()) groups.pop_back();
  if (groups.size() < 3) return 2;
  Server server(std::atoi(argv[1]), argv[2], argv[3]);
  server.AddTool(groups[0]);
  server.AddTool(groups[1]);
  for (size_t i = 2; i < groups.size(); ++i) {
    server.AddCompiler(groups[i].front(), Words(groups[i].begin() + 1, groups[i].end()));
  }
  return server.Loop();
}

}  // namespace
}  // namespace hone::verifier

int main(int argc, char** argv) { return hone::verifier::Main(argc, argv); }
