// hone-runner: the process that a candidate runs in. It starts once, inside the sandbox, as a zygote that forks one runner
// for each candidate; a runner loads one artefact, makes the calls it is told to, and is killed. Everything in here after
// the artefact is loaded shares its address space with untrusted code, and nothing it says is believed (protocol.h).
//
// usage: hone-runner ZYGOTE_SOCKET [--core N] [--gpu DIALECT DRIVER.so] [RUNTIME.so ...]
//        hone-runner --once FOLDER [--gpu DIALECT DRIVER.so] [RUNTIME.so ...]
//   ZYGOTE_SOCKET  number of the inherited socket to the judge
//   --once         makes one call and ends: for tools that look into a process (verifier/lane/observer.h). FOLDER holds
//                  artefact.so, table.bin, and inputs.bin, in which the table's addresses are offsets
//   --gpu          runners open the one visible device of this dialect ("cuda", "musa-compat/cuda"), each for itself and before its hello
//   RUNTIME.so     libraries loaded before the first fork, with their symbols visible to artefacts

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <type_traits>
#include <unistd.h>
#include <vector>

#include "base/descriptor_message.h"
#include "verifier/device/cpu/runtime.h"
#include "verifier/device/musa/dialect.h"
#include "verifier/runner/abi.h"
#include "verifier/runner/gpu.h"
#include "verifier/runner/protocol.h"
#include "verifier/sandbox/seccomp.h"

namespace hone::verifier {
namespace {

// ---- Messages. ----

template <class Message>
bool Send(int socket, const Message& message) {
  return SendMessage(socket, &message, sizeof message) == static_cast<ssize_t>(sizeof message);
}

/// One message and its descriptors. False at the end of the conversation.
template <class Message>
bool Receive(int socket, Message* message, std::vector<int>* fds) {
  const ReceivedMessage got = ReceiveMessage(socket, message, sizeof *message);
  fds->assign(got.fds, got.fds + got.count);
  return got.bytes == static_cast<ssize_t>(sizeof *message) && message->magic == kRunnerMagic;
}

// ---- Scratch memory for candidates. ----

/// Hands out parts of one growing block; all of it is free again after each call. To the emulated device it is memory like
/// any other: `tell` hears of each block.
class Workspace {
 public:
  using Tell = void (*)(void* begin, uint64_t bytes);
  void TellOf(Tell tell) { tell_ = tell; }
  void TellAll() const {
    for (const Block& block : blocks_) Say(block);
  }
  void* Take(uint64_t bytes) {
    if (apart_) return Allocate(bytes);
    const uint64_t rounded = (bytes + 255) / 256 * 256;
    if (rounded < bytes || rounded > UINT64_MAX - used_ || !Reserve(used_ + rounded)) {
      failed_ = true;
      return nullptr;
    }
    void* result = blocks_.back().data + used_;
    used_ += rounded;
    return result;
  }
  void Reset() { used_ = 0; }
  bool failed() const { return failed_; }
  void UseMemoryOf(GpuRunner* gpu) { gpu_ = gpu; }
  /// Every part becomes an allocation of its own size, so that a memory checker knows where it ends.
  void KeepApart() { apart_ = true; }

 private:
  struct Block {
    char* data;
    uint64_t bytes;
  };
  char* Allocate(uint64_t bytes) {
    if (gpu_ != nullptr) return static_cast<char*>(gpu_->Allocate(bytes));
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return data == MAP_FAILED ? nullptr : static_cast<char*>(data);
  }
  /// A block in which the next part ends at `end`; memory already handed out stays where it is.
  bool Reserve(uint64_t end) {
    if (!blocks_.empty() && end <= blocks_.back().bytes) return true;
    uint64_t bytes = blocks_.empty() ? 1 << 20 : 2 * blocks_.back().bytes;
    while (bytes < end) bytes *= 2;
    char* data = Allocate(bytes);
    if (data == nullptr) return false;
    blocks_.push_back({data, bytes});
    used_ = 0;
    Say(blocks_.back());
    return true;
  }
  void Say(const Block& block) const {
    if (tell_ != nullptr) tell_(block.data, block.bytes);
  }

  GpuRunner* gpu_ = nullptr;  // whose memory it is; null: the host's
  Tell tell_ = nullptr;
  std::vector<Block> blocks_;  // the last is the largest, and the only one that is handed out
  uint64_t used_ = 0;
  bool failed_ = false;
  bool apart_ = false;
};

// ---- The emulated device, where the zygote loaded its runtime (verifier/device/cpu/runtime.h). ----

struct EmulatedDevice {
  decltype(&hone_cpu_set_mode) set_mode = nullptr;
  decltype(&hone_cpu_register_buffer) register_buffer = nullptr;
  decltype(&hone_cpu_unregister_buffers) unregister_buffers = nullptr;
  decltype(&hone_cpu_first_error) first_error = nullptr;
  decltype(&hone_cpu_fault) fault = nullptr;
  decltype(&hone_cpu_explain_address) explain_address = nullptr;
  decltype(&hone_cpu_allocate) allocate = nullptr;
  decltype(&hone_cpu_launches) launches = nullptr;

  /// Whether all of it is there; else artefacts run without a device, as plain code.
  bool Find() {
    const auto find = [](const char* name, auto& function) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
      return function != nullptr;
    };
    present = find("hone_cpu_set_mode", set_mode) && find("hone_cpu_register_buffer", register_buffer) &&
              find("hone_cpu_unregister_buffers", unregister_buffers) && find("hone_cpu_first_error", first_error) &&
              find("hone_cpu_fault", fault) && find("hone_cpu_explain_address", explain_address) &&
              find("hone_cpu_allocate", allocate) && find("hone_cpu_launches", launches);
    return present;
  }
  bool present = false;
};

/// What C callbacks and signal handlers of this process must reach.
struct Process {
  int socket = -1;
  uint64_t epoch = 0;
  Workspace workspace;
  EmulatedDevice device;
};
Process* g_process = nullptr;

// ---- Faults. ----

/// Tells the judge what happened, as a courtesy, and ends the process.
void OnFault(int number, siginfo_t* info, void*) {
  Answer answer;
  answer.kind = AnswerKind::kFault;
  answer.epoch = g_process->epoch;
  answer.signal = number;
  answer.address = reinterpret_cast<uint64_t>(info->si_addr);
  if (number == SIGSYS) {
    answer.address = 0;
    answer.system_call = info->si_syscall;
  }
  answer.workspace_failed = g_process->workspace.failed();
  if (g_process->device.present) {
    const char* why = g_process->device.fault();
    if (why[0] == 0 && number != SIGSYS) why = g_process->device.explain_address(info->si_addr);
    std::strncpy(answer.text, why, sizeof answer.text - 1);
  }
  Send(g_process->socket, answer);
  _exit(128 + number);
}

void CatchFaults() {
  constexpr size_t kStackBytes = 64 << 10;
  stack_t stack = {};
  stack.ss_sp = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack.ss_size = kStackBytes;
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
    sigaction(number, &action, nullptr);
  }
}

// ---- One runner. ----

int64_t ProcessNs() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int64_t WallNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

class Runner {
 public:
  /// `gpu` null: artefacts run on the host.
  Runner(int socket, const SystemCallFilters* filters, GpuRunner* gpu) : socket_(socket), filters_(filters), gpu_(gpu) {}

  int Loop() {
    Answer hello;
    hello.kind = AnswerKind::kHello;
    if (!Send(socket_, hello)) return 1;
    Command command;
    std::vector<int> fds;
    while (Receive(socket_, &command, &fds)) {
      g_process->epoch = command.epoch;
      if (!Send(socket_, Obey(command, fds))) return 1;
      if (gpu_ != nullptr && command.kind == CommandKind::kRun && command.call_count == 0) LookForNext();
    }
    return 0;
  }

 private:
  /// A timed round follows at once on the empty one that wakes this process: waiting awake spares the round the waking.
  void LookForNext() const {
    constexpr int64_t kLookNs = 300'000;
    pollfd item = {socket_, POLLIN, 0};
    for (const int64_t start = WallNs(); poll(&item, 1, 0) == 0 && WallNs() - start < kLookNs;) {
    }
  }

  Answer Obey(const Command& command, const std::vector<int>& fds) {
    switch (command.kind) {
      case CommandKind::kMap:
        return Map(command, fds);
      case CommandKind::kLoad:
        return Load(command, fds);
      case CommandKind::kRun:
        return Run(command);
      case CommandKind::kPrepare:
        break;  // of Python candidates
    }
    return Failed(Begin(AnswerKind::kLoadFailed, command), "unknown command");
  }

  template <class Item>
  const Item* InTable(uint64_t offset) const {
    return reinterpret_cast<const Item*>(table_ + offset);
  }

  Answer Map(const Command& command, const std::vector<int>& fds) {
    Answer answer = Begin(AnswerKind::kLoadFailed, command);
    if (fds.size() != 3) return Failed(answer, "expected 3 descriptors");
    void* mapped = mmap(nullptr, command.table_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fds[0], 0);
    if (mapped == MAP_FAILED) return Failed(answer, strerror(errno));
    const int error = MapRegions(static_cast<const char*>(mapped), fds[1], fds[2]);
    for (const int fd : fds) close(fd);
    if (error != 0) return Failed(answer, gpu_ != nullptr ? GpuErrorName(gpu_->dialect(), error) : strerror(error));
    answer.kind = AnswerKind::kLoaded;
    return answer;
  }

  Answer Load(const Command& command, const std::vector<int>& fds) {
    Answer answer = Begin(AnswerKind::kLoadFailed, command);
    if (fds.size() != 1) return Failed(answer, "expected 1 descriptor");
    if (filters_ != nullptr && InstallFilter(filters_->loading) != 0) return Failed(answer, "cannot filter system calls");
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", fds[0]);
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    entry_ = library != nullptr ? reinterpret_cast<HoneEntry>(dlsym(library, HONE_ENTRY_SYMBOL)) : nullptr;
    if (entry_ == nullptr) {
      const char* why = dlerror();
      return Failed(answer, why != nullptr ? why : "no entry point");
    }
    close(fds[0]);
    if (filters_ != nullptr && InstallFilter(filters_->running) != 0) return Failed(answer, "cannot filter system calls");
    answer.kind = AnswerKind::kLoaded;
    return answer;
  }

  static Answer Begin(AnswerKind kind, const Command& command) {
    Answer answer;
    answer.kind = kind;
    answer.epoch = command.epoch;
    return answer;
  }
  static Answer Failed(Answer answer, const char* why) {
    std::snprintf(answer.text, sizeof answer.text, "%s", why);
    return answer;
  }

  /// 0, or errno or the device's error.
  int MapRegions(const char* table, int inputs, int outputs) {
    table_ = table;
    if (gpu_ != nullptr) gpu_->BeginMapping();
    const auto& header = *InTable<TableHeader>(0);
    const auto* regions = InTable<TableRegion>(header.regions);
    for (uint32_t i = 0; i < header.region_count; ++i) {
      const TableRegion& region = regions[i];
      if (gpu_ != nullptr) {
        if (const int error = gpu_->Map(region, region.writable != 0 ? outputs : inputs); error != 0) return error;
        continue;
      }
      void* wanted = reinterpret_cast<void*>(region.address);
      const int protection = PROT_READ | (region.writable ? PROT_WRITE : 0);
      void* got = mmap(wanted, region.bytes, protection, MAP_SHARED | MAP_POPULATE | MAP_FIXED_NOREPLACE,
                       region.writable ? outputs : inputs, static_cast<off_t>(region.offset));
      if (got != wanted) return errno != 0 ? errno : EEXIST;
    }
    return 0;
  }

  Answer Run(const Command& command) {
    const auto& header = *InTable<TableHeader>(0);
    const auto* described = InTable<TableTensor>(header.tensors);
    tensors_.resize(header.tensor_count);
    for (uint32_t i = 0; i < header.tensor_count; ++i) {
      static_assert(sizeof(long long) == sizeof(int64_t));
      tensors_[i] = {nullptr, reinterpret_cast<const long long*>(described[i].shape),
                     reinterpret_cast<const long long*>(described[i].strides), described[i].ndim, described[i].dtype};
    }
    HoneCall call = {};
    call.tensors = tensors_.data();
    call.tensor_count = static_cast<int>(header.tensor_count);
    call.sizes = reinterpret_cast<const long long*>(InTable<int64_t>(header.sizes));
    call.size_count = static_cast<int>(header.size_count);
    call.scalars = InTable<double>(header.scalars);
    call.scalar_count = static_cast<int>(header.scalar_count);

    PrepareDevice(command, header, described);
    Answer answer = Begin(AnswerKind::kDone, command);
    const auto* addresses = InTable<uint64_t>(header.addresses) + uint64_t{command.first_call} * header.tensor_count;
    const uint64_t launches = Launches();
    if (gpu_ != nullptr) gpu_->SwitchKernels(command.kernels_off == 0);
    answer.code = Begin(command.behind_mb);
    for (uint32_t i = 0; answer.code == 0 && i < command.call_count; ++i, addresses += header.tensor_count) {
      for (uint32_t t = 0; t < header.tensor_count; ++t) tensors_[t].data = Here(addresses[t]);
      answer.code = entry_(&call);
      g_process->workspace.Reset();
      if (answer.code != 0) answer.failed_call = command.first_call + i;
    }
    const int ended = End(&answer.process_ns);
    if (answer.code == 0) answer.code = ended;
    answer.launches = Launches() - launches;
    if (answer.code == 0 && device().present) answer.code = device().first_error();  // a launch nobody asked about
    answer.workspace_failed = g_process->workspace.failed();
    return answer;
  }

  static const EmulatedDevice& device() { return g_process->device; }
  uint64_t Launches() const {
    if (gpu_ != nullptr) return gpu_->Launches();
    return device().present ? device().launches() : 0;
  }

  int Begin(uint32_t behind_mb) {
    if (gpu_ != nullptr) return gpu_->Begin(behind_mb);
    start_ns_ = ProcessNs();
    return 0;
  }
  int End(int64_t* ns) {
    if (gpu_ != nullptr) return gpu_->End(ns);
    *ns = ProcessNs() - start_ns_;
    return 0;
  }
  void* Here(uint64_t address) const {
    return reinterpret_cast<void*>(gpu_ != nullptr ? gpu_->Translate(address) : address);
  }

  /// Tells the emulated device what memory there is: for a checked call the very tensors, so that a fault can be put in
  /// words, else the mapped regions.
  void PrepareDevice(const Command& command, const TableHeader& header, const TableTensor* described) {
    if (!device().present || command.call_count == 0) return;
    if (command.checked == 0) {
      if (registered_) return;
      registered_ = true;
      for (uint32_t i = 0; i < header.region_count; ++i) {
        const TableRegion& region = InTable<TableRegion>(header.regions)[i];
        device().register_buffer(reinterpret_cast<void*>(region.address), region.bytes, static_cast<int>(region.writable));
      }
      const HoneCpuMode mode = {HONE_CPU_FORWARD, 0, 0, 0};
      device().set_mode(&mode);
      return;
    }
    device().unregister_buffers();
    g_process->workspace.TellAll();
    const auto* addresses = InTable<uint64_t>(header.addresses) + uint64_t{command.first_call} * header.tensor_count;
    for (uint32_t i = 0; i < header.tensor_count; ++i) {
      if (described[i].bytes == 0) continue;
      device().register_buffer(reinterpret_cast<void*>(addresses[i]), static_cast<uint64_t>(described[i].bytes),
                               described[i].writable);
    }
    const HoneCpuMode mode = {static_cast<int>(command.order), command.order_seed, 1, static_cast<int>(command.kernels_off)};
    device().set_mode(&mode);
  }

  const int socket_;
  const SystemCallFilters* filters_;
  GpuRunner* gpu_;
  int64_t start_ns_ = 0;
  bool registered_ = false;
  const char* table_ = nullptr;
  HoneEntry entry_ = nullptr;
  std::vector<HoneTensor> tensors_;
};

void Limit(int resource, uint64_t value) {
  const rlimit limit = {value, value};
  setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
}

/// What RLIMIT_DATA counts of this process.
uint64_t PrivateBytes() {
  unsigned long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%*u %*u %*u %*u %*u %lu", &pages) != 1) pages = 0;
  std::fclose(file);
  return uint64_t{pages} * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// How runners open their device.
struct GpuChoice {
  const GpuDialect* dialect = nullptr;  // null: none
  std::string driver_library;
};

/// The forked process, to its end.
[[noreturn]] void BecomeRunner(int socket, int output, const ForkRequest& request, const SystemCallFilters* filters,
                               const GpuChoice& choice) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(output, 1);
  dup2(output, 2);
  dup2(socket, 3);
  if (syscall(SYS_close_range, 4u, ~0u, 0u) != 0) {
    for (int fd = 4; fd < 1024; ++fd) close(fd);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  Limit(RLIMIT_CORE, 0);
  Limit(RLIMIT_FSIZE, 0);
  Limit(RLIMIT_NOFILE, choice.dialect != nullptr ? 256 : 64);
  if (request.data_limit_bytes > 0 && choice.dialect == nullptr) Limit(RLIMIT_DATA, request.data_limit_bytes);
  if (request.cpu_limit_s > 0) Limit(RLIMIT_CPU, request.cpu_limit_s);
  Process process;
  process.socket = 3;
  process.device.Find();
  g_process = &process;
  if (process.device.present) {
    process.workspace.TellOf([](void* begin, uint64_t bytes) { g_process->device.register_buffer(begin, bytes, 1); });
  }
  CatchFaults();
  GpuRunner gpu;
  if (choice.dialect != nullptr) {
    Answer refusal;
    std::string error;
    refusal.code = gpu.Open(*choice.dialect, choice.driver_library, &error);
    if (refusal.code != 0) {
      std::snprintf(refusal.text, sizeof refusal.text, "%s", error.c_str());
      Send(3, refusal);
      _exit(1);
    }
    process.workspace.UseMemoryOf(&gpu);
    if (request.data_limit_bytes > 0) Limit(RLIMIT_DATA, PrivateBytes() + request.data_limit_bytes);  // beyond the driver's
  }
  _exit(Runner(3, filters, choice.dialect != nullptr ? &gpu : nullptr).Loop());
}

// ---- The zygote. ----

class Zygote {
 public:
  Zygote(int control, const SystemCallFilters* filters, GpuChoice gpu)
      : control_(control), filters_(filters), gpu_(std::move(gpu)) {}

  int Loop() {
    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_signal, nullptr);
    struct sigaction quiet = {};
    quiet.sa_handler = SIG_DFL;
    quiet.sa_flags = SA_NOCLDSTOP;  // the judge stops and continues runners all the time
    sigaction(SIGCHLD, &quiet, nullptr);
    const int ended = signalfd(-1, &child_signal, SFD_CLOEXEC | SFD_NONBLOCK);
    pollfd items[2] = {{control_, POLLIN, 0}, {ended, POLLIN, 0}};
    while (true) {
      if (poll(items, 2, -1) < 0 && errno != EINTR) return 1;
      if (items[1].revents != 0) {
        signalfd_siginfo dropped;
        while (read(ended, &dropped, sizeof dropped) > 0) {
        }
        ReportEnded();
      }
      if (items[0].revents != 0 && !Fork()) return 0;  // the judge is gone
    }
  }

 private:
  bool Fork() {
    ForkRequest request;
    std::vector<int> fds;
    if (!Receive(control_, &request, &fds)) return false;
    pid_t pid = -1;
    errno = EINVAL;
    if (fds.size() == 2) pid = fork();
    if (pid == 0) BecomeRunner(fds[0], fds[1], request, filters_, gpu_);
    if (pid < 0) {
      RunnerEnded ended;
      ended.id = request.id;
      ended.fork_error = errno;
      Send(control_, ended);
    } else {
      runners_.push_back({pid, request.id});
    }
    for (const int fd : fds) close(fd);
    return true;
  }

  void ReportEnded() {
    int status = 0;
    rusage usage;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
      for (size_t i = 0; i < runners_.size(); ++i) {
        if (runners_[i].pid != pid) continue;
        RunnerEnded ended;
        ended.id = runners_[i].id;
        ended.exited = WIFEXITED(status);
        ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
        ended.peak_rss_kb = static_cast<uint64_t>(usage.ru_maxrss);
        Send(control_, ended);
        runners_.erase(runners_.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      }
    }
  }

  struct Entry {
    pid_t pid;
    uint32_t id;
  };
  const int control_;
  const SystemCallFilters* filters_;
  const GpuChoice gpu_;
  std::vector<Entry> runners_;
};

/// Loads what artefacts find in the process, and reads which device it is for. "" or what is wrong.
std::string ReadOptions(int argc, char** argv, int first, GpuChoice* choice) {
  std::string error;
  GpuChoice& gpu = *choice;
  // Artefacts name no libraries of their own: the C library's mathematics must be there when they are opened.
  if (dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL) == nullptr) return dlerror();
  dlopen("libmvec.so.1", RTLD_NOW | RTLD_GLOBAL);  // vector forms; not on every machine
  for (int i = first; i < argc && error.empty(); ++i) {
    if (std::strcmp(argv[i], "--core") == 0 && i + 1 < argc) {
      cpu_set_t cores;
      CPU_ZERO(&cores);
      CPU_SET(static_cast<size_t>(std::atoi(argv[++i])), &cores);
      if (sched_setaffinity(0, sizeof cores, &cores) != 0) error = std::string("--core: ") + strerror(errno);
    } else if (std::strcmp(argv[i], "--gpu") == 0 && i + 2 < argc) {
      ++i;
      for (const GpuDialect* known : {&kCudaDialect, &kMusaDialect, &kMusaOnCudaDialect}) {
        if (std::strcmp(argv[i], known->name) == 0) gpu.dialect = known;
      }
      if (gpu.dialect == nullptr) error = std::string("--gpu: no backend ") + argv[i];
      gpu.driver_library = argv[++i];
    } else if (dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      error = dlerror();
    }
  }
  return error;
}

int ZygoteMain(int argc, char** argv) {
  const int control = argc > 1 ? std::atoi(argv[1]) : -1;
  ZygoteReady ready;
  SystemCallFilters filters;
  GpuChoice gpu;
  std::string error;
  // A runner of the same user could otherwise read this process's memory.
  if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) error = strerror(errno);
  if (error.empty()) error = ReadOptions(argc, argv, 2, &gpu);
  const FilterFor purpose = gpu.dialect != nullptr ? FilterFor::kGpu : FilterFor::kHost;
  if (error.empty()) ready.seccomp = AssembleFilters(purpose, &filters, &error);
  std::snprintf(ready.message, sizeof ready.message, "%s", error.c_str());
  if (!Send(control, ready) || !error.empty()) return 1;
  return Zygote(control, &filters, std::move(gpu)).Loop();
}

// ---- One call, for a tool to watch. ----

/// A file's bytes; empty where it cannot be read.
std::vector<char> Contents(const std::string& path) {
  std::vector<char> bytes;
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return bytes;
  std::fseek(file, 0, SEEK_END);
  bytes.resize(static_cast<size_t>(std::max(0L, std::ftell(file))));
  std::rewind(file);
  if (std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size()) bytes.clear();
  std::fclose(file);
  return bytes;
}

/// The call that a folder describes, every tensor in memory of its own. Returns the code of the call, or -1 with `error`.
int CallOnce(const std::string& folder, GpuRunner* gpu, std::string* error) {
  const std::vector<char> table = Contents(folder + "/table.bin"), inputs = Contents(folder + "/inputs.bin");
  if (table.size() < sizeof(TableHeader)) return *error = "no table", -1;
  const auto in_table = [&table](uint64_t offset) { return table.data() + offset; };
  const auto& header = *reinterpret_cast<const TableHeader*>(table.data());
  const auto* described = reinterpret_cast<const TableTensor*>(in_table(header.tensors));
  const auto* offsets = reinterpret_cast<const uint64_t*>(in_table(header.addresses));
  Workspace& memory = g_process->workspace;
  std::vector<HoneTensor> tensors;
  for (uint32_t i = 0; i < header.tensor_count; ++i) {
    const TableTensor& tensor = described[i];
    const auto bytes = static_cast<uint64_t>(tensor.bytes);
    void* data = bytes > 0 ? memory.Take(bytes) : nullptr;
    if (bytes > 0 && data == nullptr) return *error = "not enough memory", -1;
    if (tensor.writable == 0 && bytes > 0) {
      if (offsets[i] > inputs.size() || inputs.size() - offsets[i] < bytes) return *error = "inputs are missing", -1;
      const char* from = inputs.data() + offsets[i];
      if (gpu == nullptr) std::memcpy(data, from, bytes);
      if (gpu != nullptr && gpu->CopyIn(data, from, bytes) != 0) return *error = "copying the inputs", -1;
    }
    tensors.push_back({data, reinterpret_cast<const long long*>(tensor.shape),
                       reinterpret_cast<const long long*>(tensor.strides), tensor.ndim, tensor.dtype});
  }
  void* library = dlopen((folder + "/artefact.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto entry = library != nullptr ? reinterpret_cast<HoneEntry>(dlsym(library, HONE_ENTRY_SYMBOL)) : nullptr;
  if (entry == nullptr) return *error = dlerror(), -1;
  HoneCall call = {};
  call.tensors = tensors.data();
  call.tensor_count = static_cast<int>(tensors.size());
  call.sizes = reinterpret_cast<const long long*>(in_table(header.sizes));
  call.size_count = static_cast<int>(header.size_count);
  call.scalars = reinterpret_cast<const double*>(in_table(header.scalars));
  call.scalar_count = static_cast<int>(header.scalar_count);
  const int code = entry(&call);
  int64_t ns = 0;
  const int ended = gpu != nullptr ? gpu->End(&ns) : 0;
  return code != 0 ? code : ended;
}

/// Exit code 0: the call returned and its kernels ended well; 1: they did not, said on standard error; 2: it was not made.
int OnceMain(int argc, char** argv) {
  GpuChoice choice;
  std::string error = ReadOptions(argc, argv, 3, &choice);
  Process process;
  g_process = &process;
  process.device.Find();
  process.workspace.KeepApart();
  GpuRunner gpu;
  const bool on_gpu = choice.dialect != nullptr;
  if (error.empty() && on_gpu) {
    gpu.Open(*choice.dialect, choice.driver_library, &error);
    process.workspace.UseMemoryOf(&gpu);
  }
  const int code = error.empty() ? CallOnce(argv[2], on_gpu ? &gpu : nullptr, &error) : -1;
  if (!error.empty()) std::fprintf(stderr, "hone-runner: %s\n", error.c_str());
  if (!error.empty()) return 2;
  if (code != 0) std::fprintf(stderr, "the call returned %s\n", on_gpu ? GpuErrorName(*choice.dialect, code) : "an error");
  return code == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hone::verifier

extern "C" __attribute__((visibility("default"))) void* hone_workspace(unsigned long long bytes) {
  hone::verifier::Process& process = *hone::verifier::g_process;
  return process.workspace.Take(bytes);
}

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], "--once") == 0) return hone::verifier::OnceMain(argc, argv);
  return hone::verifier::ZygoteMain(argc, argv);
}
