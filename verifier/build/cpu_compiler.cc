#include "verifier/build/cpu_compiler.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/descriptor_message.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "verifier/build/compile_protocol.h"
#include "verifier/sandbox/bubblewrap.h"

namespace hone::verifier {
namespace {

constexpr int64_t kMessageBytes = 256 << 10;
constexpr int64_t kArtefactBytes = 64 << 20;
constexpr int64_t kAssemblyBytes = 64 << 20;
constexpr absl::Duration kServerSlack = absl::Seconds(45);  // beyond a job's limit: a first job prepares the compiler
constexpr char kRescueHeaders[] = "hone/prelude.h,cfloat,hone/relaxed_constexpr.h";
constexpr char kBareHeaders[] = "hone/prelude.h";

/// Contents of a memory file, up to a limit.
absl::StatusOr<std::string> Contents(int fd, int64_t limit_bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "reading a compile server's answer");
  std::string bytes(static_cast<size_t>(std::min<int64_t>(info.st_size, limit_bytes)), '\0');
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = pread(fd, bytes.data() + have, bytes.size() - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return ErrnoStatus(errno, "reading a compile server's answer");
    have += static_cast<size_t>(got);
  }
  return bytes;
}

absl::StatusOr<UniqueFd> MemoryFile(absl::string_view bytes) {
  UniqueFd fd(memfd_create("source", MFD_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, "making a memory file");
  while (!bytes.empty()) {
    const ssize_t written = write(fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return ErrnoStatus(errno, "writing a memory file");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  lseek(fd.get(), 0, SEEK_SET);
  return fd;
}

}  // namespace

/// One compile server and the socket to it.
class CpuCompiler::Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Start(const CpuToolchain& toolchain, const std::string& sandbox) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return ErrnoStatus(errno, "making a socket pair");
    UniqueFd ours(ends[0]);
    const UniqueFd theirs(ends[1]);
    const std::filesystem::path prefix = std::filesystem::path(ProgramFolder()).parent_path();
    const std::string program = (prefix / "libexec" / "hone" / "hone-compile-server").string();
    const std::string snapshot = (prefix / "libexec" / "hone" / "libhone_compile_snapshot.so").string();
    for (const std::string& file : {program, snapshot}) {
      if (!FileExists(file)) return absl::FailedPreconditionError(absl::StrCat("no ", file, " beside the program"));
    }
    std::optional<TempFolder> scratch;
    std::string scratch_path = "/tmp";
    if (sandbox == "none") {
      HONE_ASSIGN_OR_RETURN(scratch, TempFolder::Create("hone-compile"));
      scratch_path = scratch->path();
    }
    std::vector<std::string> command = {program, "3", snapshot, scratch_path};
    const auto add = [&command](const std::vector<std::string>& words) {
      command.insert(command.end(), words.begin(), words.end());
      command.push_back("--");
    };
    add(toolchain.assemble);
    add(toolchain.link);
    for (const char* headers : {kRescueHeaders, kBareHeaders}) {
      for (const auto* compile : {&toolchain.quick, &toolchain.full, &toolchain.checked}) {
        command.push_back(headers);
        add(*compile);
      }
    }
    SpawnOptions spawn;
    spawn.argv = command;
    if (sandbox == "bubblewrap") {
      SandboxSpec spec;
      spec.read_only = toolchain.folders;
      spec.read_only.insert(spec.read_only.end(), {program, snapshot});
      spec.environment = {"LC_ALL=C"};
      spawn.argv = InSandbox(spec, command);
    }
    spawn.environment = {"LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin"};
    spawn.inherit_environment = false;
    spawn.pass_fds = {{theirs.get(), 3}, {2, 2}};
    HONE_ASSIGN_OR_RETURN(Child child, Child::Spawn(spawn));
    return std::unique_ptr<Server>(new Server(std::move(child), std::move(ours), std::move(scratch)));
  }

  /// kUnavailable when the server is gone or does not answer.
  absl::StatusOr<CompileOutput> Compile(absl::string_view source, uint32_t variant, absl::Duration timeout) {
    HONE_ASSIGN_OR_RETURN(const UniqueFd file, MemoryFile(source));
    CompileRequest request;
    request.variant = variant;
    request.timeout_ms = static_cast<uint32_t>(absl::ToInt64Milliseconds(timeout));
    CompileReply reply;
    UniqueFd messages, artefact, assembly;
    if (!Ask(request, file.get()) || !Await(timeout + kServerSlack, &reply, &messages, &artefact, &assembly)) {
      return absl::UnavailableError("a compile server ended or does not answer");
    }
    if (reply.stage == CompileStage::kServer) return ErrnoStatus(reply.status, "a compile server cannot run its job");
    CompileOutput output;
    output.timed_out = reply.timed_out != 0;
    output.ok = reply.stage == CompileStage::kDone && !output.timed_out;
    HONE_ASSIGN_OR_RETURN(output.messages, Contents(messages.get(), kMessageBytes));
    if (!output.ok) return output;
    HONE_ASSIGN_OR_RETURN(output.artefact, Contents(artefact.get(), kArtefactBytes));
    HONE_ASSIGN_OR_RETURN(output.assembly, Contents(assembly.get(), kAssemblyBytes));
    return output;
  }

 private:
  Server(Child child, UniqueFd socket, std::optional<TempFolder> scratch)
      : scratch_(std::move(scratch)), child_(std::move(child)), socket_(std::move(socket)) {}

  bool Ask(const CompileRequest& request, int fd) {
    return SendMessage(socket_.get(), &request, sizeof request, &fd, 1) == static_cast<ssize_t>(sizeof request);
  }

  bool Await(absl::Duration limit, CompileReply* reply, UniqueFd* messages, UniqueFd* artefact, UniqueFd* assembly) {
    pollfd item = {socket_.get(), POLLIN, 0};
    int ready;
    do {
      ready = poll(&item, 1, static_cast<int>(absl::ToInt64Milliseconds(limit)));
    } while (ready < 0 && errno == EINTR);
    if (ready != 1) return false;
    const ReceivedMessage got = ReceiveMessage(socket_.get(), reply, sizeof *reply);
    std::array<UniqueFd, kMaxDescriptors> fds;
    for (int i = 0; i < got.count; ++i) fds[i] = UniqueFd(got.fds[i]);
    *messages = std::move(fds[0]);
    *artefact = std::move(fds[1]);
    *assembly = std::move(fds[2]);
    return got.count == 3 && got.bytes == static_cast<ssize_t>(sizeof *reply) && reply->magic == kCompileMagic;
  }

  std::optional<TempFolder> scratch_;  // outlives the process that writes there
  Child child_;
  UniqueFd socket_;
};

CpuCompiler::CpuCompiler(CpuToolchain toolchain, std::string sandbox)
    : toolchain_(std::move(toolchain)), sandbox_(std::move(sandbox)) {}
CpuCompiler::~CpuCompiler() = default;

absl::StatusOr<std::unique_ptr<CpuCompiler>> CpuCompiler::Create(CpuToolchain toolchain, const std::string& sandbox) {
  HONE_ASSIGN_OR_RETURN(std::string chosen, ChooseSandbox(sandbox));
  std::unique_ptr<CpuCompiler> compiler(new CpuCompiler(std::move(toolchain), std::move(chosen)));
  HONE_ASSIGN_OR_RETURN(auto first, Server::Start(compiler->toolchain_, compiler->sandbox_));
  absl::MutexLock lock(&compiler->mutex_);
  compiler->idle_.push_back(std::move(first));
  return compiler;
}

absl::StatusOr<std::unique_ptr<CpuCompiler::Server>> CpuCompiler::Take() {
  {
    absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Server> server = std::move(idle_.back());
      idle_.pop_back();
      return server;
    }
  }
  return Server::Start(toolchain_, sandbox_);
}

absl::StatusOr<CompileOutput> CpuCompiler::Compile(absl::string_view source, const CompileOptions& options,
                                                   absl::Duration timeout) {
  const uint32_t variant = (options.rescue_flags ? 0 : 3) + static_cast<uint32_t>(options.level);
  absl::Status last;
  for (int attempt = 0; attempt < 3; ++attempt) {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<Server> server, Take());
    absl::StatusOr<CompileOutput> output = server->Compile(source, variant, timeout);
    if (output.ok()) {
      if (!output->timed_out) {
        absl::MutexLock lock(&mutex_);
        idle_.push_back(std::move(server));
      }
      return output;
    }
    last = output.status();
    if (!absl::IsUnavailable(last)) return last;
  }
  return last;
}

}  // namespace hone::verifier
