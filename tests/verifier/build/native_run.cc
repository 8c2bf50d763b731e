#include "native_run.h"

#include <csignal>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verifier/runner/abi.h"

namespace hone::test {
namespace {

constexpr size_t kPage = 4096;
constexpr unsigned char kPoison = 0xff;  // NaN in every floating type

struct Report {
  int code;
  int done;
  char fault[256];
};
Report* g_report = nullptr;

void OnFault(int number, siginfo_t* info, void* context) {
  const char* why = hone_cpu_fault();
  if (why[0] == 0) why = hone_cpu_explain_fault(info->si_addr, context);
  std::strncpy(g_report->fault, why, sizeof g_report->fault - 1);
  signal(number, SIG_DFL);
  raise(number);
}

size_t RoundUp(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Shared pages between guards; the tensor ends at the second one.
unsigned char* Guarded(size_t bytes) {
  const size_t inner = RoundUp(bytes == 0 ? 1 : bytes);
  auto* mapping = static_cast<unsigned char*>(
      mmap(nullptr, inner + 2 * kPage, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  mprotect(mapping + kPage, inner, PROT_READ | PROT_WRITE);
  return mapping + kPage + inner - (bytes + 15) / 16 * 16;
}

void Child(const std::string& path, const Signature& signature, const Call& call, const HoneCpuMode& mode,
           const std::vector<unsigned char*>& data) {
  stack_t stack = {};
  stack.ss_sp = mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack.ss_size = 65536;
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigaction(number, &action, nullptr);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto entry = library == nullptr ? nullptr : reinterpret_cast<HoneEntry>(dlsym(library, HONE_ENTRY_SYMBOL));
  if (entry == nullptr) {
    std::strncpy(g_report->fault, dlerror(), sizeof g_report->fault - 1);
    _exit(3);
  }
  std::vector<HoneTensor> tensors(data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    tensors[i].data = data[i];
    const bool output = signature.tensors[i].role == TensorArgument::Role::kOutput;
    hone_cpu_register_buffer(data[i], call.tensors[i].size(), output);
  }
  std::vector<long long> sizes(call.sizes.begin(), call.sizes.end());
  HoneCall raw = {tensors.data(), static_cast<int>(tensors.size()), sizes.data(),       static_cast<int>(sizes.size()),
                  call.scalars.data(), static_cast<int>(call.scalars.size()), nullptr};
  hone_cpu_set_mode(&mode);
  g_report->code = entry(&raw);
  if (g_report->code == 0) g_report->code = hone_cpu_first_error();
  g_report->done = 1;
  _exit(0);
}

}  // namespace

Outcome RunArtefact(const std::string& path, const Signature& signature, const Call& call, const HoneCpuMode& mode,
                    int timeout_s) {
  std::vector<unsigned char*> data;
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    const auto& bytes = call.tensors[i];
    data.push_back(Guarded(bytes.size()));
    if (signature.tensors[i].role == TensorArgument::Role::kOutput) {
      std::memset(data.back(), kPoison, bytes.size());
    } else if (!bytes.empty()) {
      std::memcpy(data.back(), bytes.data(), bytes.size());
    }
  }
  g_report = static_cast<Report*>(mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = fork();
  if (child == 0) Child(path, signature, call, mode, data);
  Outcome outcome;
  int status = 0;
  const time_t deadline = time(nullptr) + timeout_s;
  pid_t ended = 0;
  while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
    if (time(nullptr) > deadline) {
      outcome.timed_out = true;
      kill(child, SIGKILL);
    }
    usleep(200);
  }
  outcome.signal = WIFSIGNALED(status) && !outcome.timed_out ? WTERMSIG(status) : 0;
  outcome.code = g_report->done ? g_report->code : -1;
  outcome.fault = g_report->fault;
  for (size_t i = 0; i < data.size(); ++i) {
    outcome.tensors.emplace_back(data[i], data[i] + call.tensors[i].size());
    const size_t inner = RoundUp(call.tensors[i].empty() ? 1 : call.tensors[i].size());
    unsigned char* end = data[i] + (call.tensors[i].size() + 15) / 16 * 16;
    munmap(end - inner - kPage, inner + 2 * kPage);
  }
  munmap(g_report, sizeof(Report));
  return outcome;
}

TensorArgument Input(const std::string& name, DType dtype) {
  TensorArgument argument;
  argument.spec.name = name;
  argument.spec.dtype = dtype;
  return argument;
}

TensorArgument Output(const std::string& name, DType dtype) {
  TensorArgument argument = Input(name, dtype);
  argument.role = TensorArgument::Role::kOutput;
  return argument;
}

Signature MakeSignature(std::vector<TensorArgument> tensors, const std::vector<std::string>& sizes,
                        const std::vector<std::string>& scalars) {
  Signature signature;
  signature.tensors = std::move(tensors);
  for (const std::string& name : sizes) signature.sizes.push_back({name, 0, false});
  for (const std::string& name : scalars) signature.scalars.push_back({name, false, 0});
  return signature;
}

std::vector<unsigned char> Bytes(const std::vector<float>& values) { return BytesOf(values); }
std::vector<float> Floats(const std::vector<unsigned char>& bytes) { return ValuesOf<float>(bytes); }

}  // namespace hone::test

extern "C" __attribute__((visibility("default"))) void* hone_workspace(unsigned long long bytes) {
  return hone_cpu_allocate(bytes);
}
