// Preloaded into the compiler, the assembler and the linker: turns each into a snapshot of itself. The program starts, and
// when it opens `hone-candidate` (the compiler after the emulation's precompiled headers), that open() waits here for jobs.
// For each one the process forks, and in the child the open() returns the job's input: the child does its work as if it had
// just got there, and ends. What costs most of a small compilation, starts and headers, is paid once.
//
// The child belongs to the compile server (CLONE_PARENT), which waits for it and kills it. It runs with limits and a
// system-call filter, writes only to the descriptors it was given, and cannot reach this process.

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptor_message.h"
#include "verifier/build/compile_protocol.h"

namespace {

using hone::verifier::SnapshotJob;
using hone::verifier::SnapshotStarted;

int output_fd = -1;  // the program's own output stream

struct Message {
  SnapshotJob job;
  sock_filter filter[hone::verifier::kMaxFilter];
};

template <class Function>
Function Real(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void Limit(__rlimit_resource resource, uint64_t value) {
  if (value == 0) return;
  const rlimit limit = {value, value};
  setrlimit(resource, &limit);
}

// One job and its descriptors; false when the server is gone.
bool Receive(int socket, Message* message, int (&fds)[3]) {
  const hone::ReceivedMessage got = hone::ReceiveMessage(socket, message, sizeof *message);
  if (got.bytes < static_cast<ssize_t>(sizeof message->job) || message->job.magic != hone::verifier::kCompileMagic ||
      got.count != 3 ||
      static_cast<size_t>(got.bytes) != sizeof message->job + message->job.filter_count * sizeof(sock_filter)) {
    return false;
  }
  memcpy(fds, got.fds, sizeof fds);
  return true;
}

// The forked program: its streams are the job's, it can do little else than compute, and it goes on with the input.
int BecomeWorker(Message* message, const int (&fds)[3], int socket) {
  close(socket);
  dup2(fds[1], output_fd);
  dup2(fds[2], STDERR_FILENO);
  dup2(fds[2], STDOUT_FILENO);
  close(fds[1]);
  close(fds[2]);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Limit(RLIMIT_AS, message->job.limits.memory_bytes);
  Limit(RLIMIT_FSIZE, message->job.limits.file_bytes);
  Limit(RLIMIT_CPU, message->job.limits.cpu_seconds);
  if (message->job.filter_count > 0) {
    const sock_fprog program = {static_cast<unsigned short>(message->job.filter_count), message->filter};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
      dprintf(STDERR_FILENO, "error: cannot filter system calls: %s\n", strerror(errno));
      _exit(125);
    }
  }
  return fds[0];
}

// Serves jobs; returns only in children, with the source's descriptor.
int Serve(int socket) {
  // gcc initialises its back end with the first function it generates code for; where this compiler exports the function
  // that does so (for plug-ins), the children find it done.
  if (void* initialise = dlsym(RTLD_DEFAULT, "_Z14initialize_rtlv")) reinterpret_cast<void (*)()>(initialise)();
  prctl(PR_SET_DUMPABLE, 0);  // children of the same user cannot look into this process
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  SnapshotStarted started;
  static Message message;
  int fds[3];
  while (send(socket, &started, sizeof started, MSG_NOSIGNAL) == sizeof started && Receive(socket, &message, fds)) {
    const long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (pid == 0) return BecomeWorker(&message, fds, socket);
    started.pid = pid > 0 ? static_cast<int32_t>(pid) : -errno;
    for (const int fd : fds) close(fd);
  }
  _exit(0);
}

bool IsCandidate(const char* path) {
  const char* slash = strrchr(path, '/');
  return strcmp(slash != nullptr ? slash + 1 : path, hone::verifier::kSnapshotSource) == 0;
}

int Open(const char* path, int flags, int mode) {
  static const auto real = Real(static_cast<int (*)(const char*, int, ...)>(nullptr), "open64");
  const char* socket = getenv(hone::verifier::kSnapshotSocket);
  if (socket != nullptr && output_fd >= 0 && IsCandidate(path)) return Serve(atoi(socket));
  return real(path, flags, mode);
}

FILE* OpenStream(const char* path, const char* mode) {
  const char* socket = getenv(hone::verifier::kSnapshotSocket);
  if (socket != nullptr && output_fd >= 0 && IsCandidate(path)) return fdopen(Serve(atoi(socket)), mode);
  static const auto real = Real(static_cast<FILE* (*)(const char*, const char*)>(nullptr), "fopen64");
  FILE* stream = real(path, mode);
  const char* output = getenv(hone::verifier::kSnapshotOutput);
  if (stream != nullptr && output != nullptr && strcmp(path, output) == 0) output_fd = fileno(stream);
  return stream;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = va_arg(arguments, int);
  va_end(arguments);
  return Open(path, flags, mode);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = va_arg(arguments, int);
  va_end(arguments);
  return Open(path, flags, mode);
}

FILE* fopen64(const char* path, const char* mode) { return OpenStream(path, mode); }
FILE* fopen(const char* path, const char* mode) { return OpenStream(path, mode); }

}  // extern "C"
#pragma GCC visibility pop
