#include "verifier/sandbox/seccomp.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <memory>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <linux/sockios.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hone::verifier {
namespace {

using Context = std::unique_ptr<void, decltype(&seccomp_release)>;

constexpr int kAlwaysAllowed[] = {
    SCMP_SYS(read),          SCMP_SYS(readv),       SCMP_SYS(write),        SCMP_SYS(writev),
    SCMP_SYS(close),         SCMP_SYS(fstat),       SCMP_SYS(lseek),        SCMP_SYS(munmap),
    SCMP_SYS(mremap),        SCMP_SYS(brk),         SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),  SCMP_SYS(sigaltstack), SCMP_SYS(exit),         SCMP_SYS(exit_group),
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep), SCMP_SYS(getpid),    SCMP_SYS(gettid),       SCMP_SYS(getrandom),
    SCMP_SYS(recvfrom),      SCMP_SYS(recvmsg),     SCMP_SYS(sendto),       SCMP_SYS(sendmsg),
    SCMP_SYS(futex),         SCMP_SYS(sched_yield), SCMP_SYS(sysinfo),      SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getcpu),        SCMP_SYS(set_robust_list), SCMP_SYS(rseq),
};

/// What the loader needs besides.
constexpr int kAllowedWhileLoading[] = {
    SCMP_SYS(pread64), SCMP_SYS(newfstatat), SCMP_SYS(statx),      SCMP_SYS(stat),        SCMP_SYS(access),
    SCMP_SYS(faccessat), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(rt_sigaction), SCMP_SYS(mprotect),
};

/// Asked in passing by library code (isatty, uname), harmless to refuse.
constexpr int kRefused[] = {
    SCMP_SYS(ioctl),  SCMP_SYS(fcntl),   SCMP_SYS(uname),  SCMP_SYS(getuid),    SCMP_SYS(geteuid), SCMP_SYS(getgid),
    SCMP_SYS(getegid), SCMP_SYS(getppid), SCMP_SYS(getcwd), SCMP_SYS(getrusage), SCMP_SYS(times),
};

/// Adds rules, keeping the first error.
class Rules {
 public:
  explicit Rules(void* context) : context_(context) {}

  void Add(uint32_t action, int call, std::initializer_list<scmp_arg_cmp> conditions = {}) {
    const int result = seccomp_rule_add_array(context_, action, call, static_cast<unsigned>(conditions.size()),
                                              conditions.begin());
    if (result != 0 && result != -EDOM && error_ == 0) error_ = -result;  // EDOM: no such call on this machine
  }
  template <size_t kCount>
  void AddAll(uint32_t action, const int (&calls)[kCount]) {
    for (const int call : calls) Add(action, call);
  }
  int error() const { return error_; }

 private:
  void* context_;
  int error_ = 0;
};

/// Calls that name a process by their first argument, 0 for the caller. What one runner sets of the next one's limits or place
/// would be held against a candidate that did nothing.
constexpr int kCallsOnProcesses[] = {SCMP_SYS(prlimit64), SCMP_SYS(sched_setaffinity)};
void AllowForItself(Rules& rules, int call) { rules.Add(SCMP_ACT_ALLOW, call, {SCMP_A0(SCMP_CMP_EQ, 0)}); }
void RefuseForOthers(Rules& rules) {
  for (const int call : kCallsOnProcesses) rules.Add(SCMP_ACT_ERRNO(EPERM), call, {SCMP_A0(SCMP_CMP_NE, 0)});
}

/// Advice that concerns the caller's own memory alone: what is shared with others stays where it is.
void AllowMemoryAdvice(Rules& rules) {
  for (const int advice : {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED, MADV_FREE, MADV_DONTFORK,
                           MADV_DOFORK, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP}) {
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(madvise), {SCMP_A2(SCMP_CMP_EQ, static_cast<uint64_t>(advice))});
  }
}

/// Commands over descriptors, but for those that have the kernel send signals to a process of the caller's choice.
void AllowDescriptorCommands(Rules& rules) {
  for (const int command : {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW,
                            F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_GETPIPE_SZ, F_SETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS}) {
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(fcntl), {SCMP_A1(SCMP_CMP_EQ, static_cast<uint64_t>(command))});
  }
}

/// Device commands but those of sockets (0x89..), which set who gets signals: any that differs from them in some bit.
void AllowDeviceCommands(Rules& rules) {
  constexpr uint64_t kSockets = FIOSETOWN & 0xff00;
  for (uint64_t bit = 0x100; bit <= 0x8000; bit <<= 1) {
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(ioctl), {SCMP_A1(SCMP_CMP_MASKED_EQ, bit, ~kSockets & bit)});
  }
}

/// The assembled program, by way of a memory file: the library writes to descriptors only.
bool Export(void* context, std::vector<sock_filter>* program) {
  const int fd = memfd_create("filter", MFD_CLOEXEC);
  if (fd < 0) return false;
  bool good = seccomp_export_bpf(context, fd) == 0;
  const off_t bytes = lseek(fd, 0, SEEK_END);
  good = good && bytes > 0 && bytes % static_cast<off_t>(sizeof(sock_filter)) == 0;
  if (good) {
    program->resize(static_cast<size_t>(bytes) / sizeof(sock_filter));
    good = pread(fd, program->data(), static_cast<size_t>(bytes), 0) == bytes;
  }
  close(fd);
  return good;
}

bool Assemble(bool loading, std::vector<sock_filter>* program, std::string* error) {
  Context context(seccomp_init(SCMP_ACT_TRAP), &seccomp_release);
  if (context == nullptr) {
    *error = "libseccomp cannot start a filter";
    return false;
  }
  Rules rules(context.get());
  rules.AddAll(SCMP_ACT_ALLOW, kAlwaysAllowed);
  AllowMemoryAdvice(rules);
  rules.AddAll(SCMP_ACT_ERRNO(EPERM), kRefused);
  const scmp_arg_cmp private_mapping = SCMP_A3(SCMP_CMP_MASKED_EQ, 0x0f, MAP_PRIVATE);
  const scmp_arg_cmp no_code = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
  if (loading) {
    rules.AddAll(SCMP_ACT_ALLOW, kAllowedWhileLoading);
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(mmap), {private_mapping});
    constexpr uint64_t kWriting = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | __O_TMPFILE;
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(open), {SCMP_A1(SCMP_CMP_MASKED_EQ, kWriting, O_RDONLY)});
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(openat), {SCMP_A2(SCMP_CMP_MASKED_EQ, kWriting, O_RDONLY)});
    // The second filter, and nothing else of seccomp.
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(seccomp), {SCMP_A0(SCMP_CMP_EQ, SECCOMP_SET_MODE_FILTER)});
  } else {
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(mmap), {no_code, private_mapping});
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(mprotect), {no_code});
    rules.Add(SCMP_ACT_ERRNO(EPERM), SCMP_SYS(rt_sigaction));
  }
  if (rules.error() != 0) {
    *error = std::string("libseccomp refuses a rule: ") + strerror(rules.error());
    return false;
  }
  if (!Export(context.get(), program)) {
    *error = "libseccomp cannot export the filter";
    return false;
  }
  return true;
}

/// What a GPU's driver asks for after its context exists.
constexpr int kGpuCalls[] = {
    SCMP_SYS(mmap),        SCMP_SYS(mprotect),      SCMP_SYS(poll),
    SCMP_SYS(ppoll),       SCMP_SYS(pread64),       SCMP_SYS(newfstatat),     SCMP_SYS(statx),
    SCMP_SYS(stat),        SCMP_SYS(lstat),         SCMP_SYS(access),         SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),  SCMP_SYS(readlink),      SCMP_SYS(readlinkat),     SCMP_SYS(getdents64),
    SCMP_SYS(dup),         SCMP_SYS(eventfd2),      SCMP_SYS(pipe2),
    SCMP_SYS(epoll_wait),  SCMP_SYS(epoll_pwait),   SCMP_SYS(epoll_ctl),      SCMP_SYS(epoll_create1),
    SCMP_SYS(uname),       SCMP_SYS(getuid),        SCMP_SYS(geteuid),        SCMP_SYS(getgid),
    SCMP_SYS(getegid),     SCMP_SYS(getppid),       SCMP_SYS(getcwd),         SCMP_SYS(getrusage),
    SCMP_SYS(times),       SCMP_SYS(prctl),         SCMP_SYS(getrlimit),
    SCMP_SYS(set_tid_address), SCMP_SYS(arch_prctl), SCMP_SYS(membarrier),    SCMP_SYS(get_mempolicy),
    SCMP_SYS(mbind),       SCMP_SYS(mlock),         SCMP_SYS(munlock),        SCMP_SYS(mincore),
    SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler), SCMP_SYS(restart_syscall), SCMP_SYS(memfd_create), SCMP_SYS(ftruncate),   SCMP_SYS(statfs),
    SCMP_SYS(fstatfs),     SCMP_SYS(pselect6),      SCMP_SYS(select),         SCMP_SYS(rt_sigtimedwait),
};

bool AssembleForGpu(bool loading, std::vector<sock_filter>* program, std::string* error) {
  Context context(seccomp_init(SCMP_ACT_TRAP), &seccomp_release);
  if (context == nullptr) {
    *error = "libseccomp cannot start a filter";
    return false;
  }
  Rules rules(context.get());
  rules.AddAll(SCMP_ACT_ALLOW, kAlwaysAllowed);
  AllowMemoryAdvice(rules);
  rules.AddAll(SCMP_ACT_ALLOW, kGpuCalls);
  for (const int call : kCallsOnProcesses) AllowForItself(rules, call);
  RefuseForOthers(rules);  // library code names its own threads so, and gets along without
  AllowDescriptorCommands(rules);
  AllowDeviceCommands(rules);
  constexpr uint64_t kCreating = O_CREAT | O_TRUNC | O_APPEND | __O_TMPFILE;
  rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(open), {SCMP_A1(SCMP_CMP_MASKED_EQ, kCreating, 0)});
  rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(openat), {SCMP_A2(SCMP_CMP_MASKED_EQ, kCreating, 0)});
  // The driver's threads exist by now; library code that would like more gets along without. The newer call hides its flags
  // in memory: without it the C library falls back to the other one.
  rules.Add(SCMP_ACT_ERRNO(EAGAIN), SCMP_SYS(clone), {SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)});
  rules.Add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));
  if (loading) {
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(rt_sigaction));
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(seccomp), {SCMP_A0(SCMP_CMP_EQ, SECCOMP_SET_MODE_FILTER)});
  } else {
    rules.Add(SCMP_ACT_ERRNO(EPERM), SCMP_SYS(rt_sigaction));
  }
  if (rules.error() != 0) {
    *error = std::string("libseccomp refuses a rule: ") + strerror(rules.error());
    return false;
  }
  if (!Export(context.get(), program)) {
    *error = "libseccomp cannot export the filter";
    return false;
  }
  return true;
}

constexpr int kToolCalls[] = {
    SCMP_SYS(pread64),    SCMP_SYS(newfstatat), SCMP_SYS(statx),         SCMP_SYS(stat),         SCMP_SYS(lstat),
    SCMP_SYS(access),     SCMP_SYS(faccessat),  SCMP_SYS(faccessat2),    SCMP_SYS(readlink),     SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),     SCMP_SYS(mprotect),   SCMP_SYS(rt_sigaction),  SCMP_SYS(getrusage),
    SCMP_SYS(times),      SCMP_SYS(uname),      SCMP_SYS(getrlimit),
    SCMP_SYS(arch_prctl), SCMP_SYS(umask),      SCMP_SYS(set_tid_address), SCMP_SYS(getuid),     SCMP_SYS(geteuid),
    SCMP_SYS(getgid),     SCMP_SYS(getegid),    SCMP_SYS(dup),           SCMP_SYS(getdents64),
};
constexpr int kInterpreterCalls[] = {
    SCMP_SYS(poll),      SCMP_SYS(ppoll),      SCMP_SYS(select), SCMP_SYS(membarrier),
    SCMP_SYS(getppid),   SCMP_SYS(getrusage),  SCMP_SYS(dup2),  SCMP_SYS(sched_getscheduler),
    SCMP_SYS(memfd_create),
};
constexpr int kWritingToolCalls[] = {
    SCMP_SYS(execve), SCMP_SYS(ftruncate), SCMP_SYS(pwrite64), SCMP_SYS(unlink), SCMP_SYS(unlinkat), SCMP_SYS(open),
    SCMP_SYS(openat), SCMP_SYS(chmod),     SCMP_SYS(fchmod),   SCMP_SYS(rename),
};

enum class QuietUse { kTool, kWritingTool, kInterpreter, kGpuInterpreter };

/// Threads, never processes. The newer call hides its flags in memory: without it the C library falls back to this one.
void AllowThreads(Rules& rules) {
  rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(clone), {SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)});
  rules.Add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));
}

// Without O_DIRECTORY, which the C library counts to __O_TMPFILE: an import looks through folders.
constexpr uint64_t kCreating = O_CREAT | O_TRUNC | O_APPEND | (__O_TMPFILE & ~O_DIRECTORY);

/// What tools and interpreters have in common: what is not allowed fails with EPERM.
bool AssembleQuietFilter(QuietUse use, std::vector<sock_filter>* program, std::string* error) {
  const bool talks = use == QuietUse::kInterpreter || use == QuietUse::kGpuInterpreter;
  Context context(seccomp_init(SCMP_ACT_ERRNO(EPERM)), &seccomp_release);
  if (context == nullptr) {
    *error = "libseccomp cannot start a filter";
    return false;
  }
  Rules rules(context.get());
  for (const int call : kAlwaysAllowed) {
    const bool talking = call == SCMP_SYS(recvfrom) || call == SCMP_SYS(recvmsg) || call == SCMP_SYS(sendto) ||
                         call == SCMP_SYS(sendmsg);
    if (talks || !talking) rules.Add(SCMP_ACT_ALLOW, call);
  }
  AllowMemoryAdvice(rules);
  rules.AddAll(SCMP_ACT_ALLOW, kToolCalls);
  AllowForItself(rules, SCMP_SYS(prlimit64));
  AllowDescriptorCommands(rules);
  if (talks) rules.AddAll(SCMP_ACT_ALLOW, kInterpreterCalls);
  if (talks) AllowDeviceCommands(rules);
  // Memory that is shared is nobody's, so that no limit holds it; a GPU's driver maps its device so.
  const bool shares = use == QuietUse::kGpuInterpreter;
  if (shares) rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(mmap));
  if (!shares) rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(mmap), {SCMP_A3(SCMP_CMP_MASKED_EQ, 0x0f, MAP_PRIVATE)});
  if (use == QuietUse::kWritingTool) {
    rules.AddAll(SCMP_ACT_ALLOW, kWritingToolCalls);
  } else if (use == QuietUse::kGpuInterpreter) {
    for (const int call : kGpuCalls) {
      if (call != SCMP_SYS(mmap)) rules.Add(SCMP_ACT_ALLOW, call);
    }
    AllowForItself(rules, SCMP_SYS(sched_setaffinity));
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(open), {SCMP_A1(SCMP_CMP_MASKED_EQ, kCreating, 0)});
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(openat), {SCMP_A2(SCMP_CMP_MASKED_EQ, kCreating, 0)});
    AllowThreads(rules);
  } else {
    constexpr uint64_t kWriting = O_ACCMODE | kCreating;
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(open), {SCMP_A1(SCMP_CMP_MASKED_EQ, kWriting, O_RDONLY)});
    rules.Add(SCMP_ACT_ALLOW, SCMP_SYS(openat), {SCMP_A2(SCMP_CMP_MASKED_EQ, kWriting, O_RDONLY)});
  }
  if (rules.error() != 0 || !Export(context.get(), program)) {
    *error = std::string("libseccomp cannot make the tools' filter: ") + strerror(rules.error());
    return false;
  }
  return true;
}

// What reaches past a process and its children.
constexpr int kReachingCalls[] = {
    SCMP_SYS(kill),          SCMP_SYS(tkill),          SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(rt_tgsigqueueinfo),
    SCMP_SYS(tgkill),        SCMP_SYS(migrate_pages),  SCMP_SYS(move_pages),
    SCMP_SYS(pidfd_open),    SCMP_SYS(pidfd_getfd),    SCMP_SYS(pidfd_send_signal), SCMP_SYS(ptrace),
    SCMP_SYS(kcmp),          SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(process_madvise),
    SCMP_SYS(socket),        SCMP_SYS(bind),           SCMP_SYS(connect),         SCMP_SYS(listen),
    SCMP_SYS(accept),        SCMP_SYS(accept4),        SCMP_SYS(unshare),         SCMP_SYS(setns),
    SCMP_SYS(mount),         SCMP_SYS(umount2),        SCMP_SYS(pivot_root),      SCMP_SYS(chroot),
    SCMP_SYS(open_tree),     SCMP_SYS(move_mount),     SCMP_SYS(fsopen),          SCMP_SYS(fsmount),
    SCMP_SYS(open_by_handle_at), SCMP_SYS(bpf),        SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup), SCMP_SYS(keyctl),        SCMP_SYS(add_key),         SCMP_SYS(request_key),
    SCMP_SYS(seccomp),       SCMP_SYS(setpriority),    SCMP_SYS(sched_setscheduler), SCMP_SYS(sched_setattr),
    SCMP_SYS(sched_setparam), SCMP_SYS(ioprio_set),    SCMP_SYS(init_module),     SCMP_SYS(finit_module),
    SCMP_SYS(kexec_load),    SCMP_SYS(reboot),         SCMP_SYS(swapon),          SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime), SCMP_SYS(mq_open),        SCMP_SYS(shmget),          SCMP_SYS(msgget),
};

}  // namespace

bool AssembleCompilingInterpreterFilter(std::vector<sock_filter>* program, std::string* error) {
  Context context(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release);
  if (context == nullptr) {
    *error = "libseccomp cannot start a filter";
    return false;
  }
  Rules rules(context.get());
  rules.AddAll(SCMP_ACT_ERRNO(EPERM), kReachingCalls);
  constexpr uint64_t kNamespaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  for (uint64_t bit = 1; bit <= kNamespaces; bit <<= 1) {
    if ((kNamespaces & bit) != 0) rules.Add(SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), {SCMP_A0(SCMP_CMP_MASKED_EQ, bit, bit)});
  }
  rules.Add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));  // hides its flags in memory; the C library falls back to the other
  RefuseForOthers(rules);
  // A descriptor's owner gets signals of the setter's choice. The kernel reads the lower half of the argument.
  constexpr uint64_t kLower = 0xffffffff;
  for (const int command : {F_SETOWN, F_SETOWN_EX, F_SETSIG}) {
    rules.Add(SCMP_ACT_ERRNO(EPERM), SCMP_SYS(fcntl), {SCMP_A1(SCMP_CMP_MASKED_EQ, kLower, static_cast<uint64_t>(command))});
  }
  for (const int command : {FIOSETOWN, SIOCSPGRP, TIOCSTI}) {
    rules.Add(SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), {SCMP_A1(SCMP_CMP_MASKED_EQ, kLower, static_cast<uint64_t>(command))});
  }
  if (rules.error() != 0 || !Export(context.get(), program)) {
    *error = std::string("libseccomp cannot make the compiling interpreter's filter: ") + strerror(rules.error());
    return false;
  }
  return true;
}

bool AssembleToolFilter(bool may_write, std::vector<sock_filter>* program, std::string* error) {
  return AssembleQuietFilter(may_write ? QuietUse::kWritingTool : QuietUse::kTool, program, error);
}

bool AssembleInterpreterFilter(FilterFor purpose, std::vector<sock_filter>* program, std::string* error) {
  return AssembleQuietFilter(purpose == FilterFor::kGpu ? QuietUse::kGpuInterpreter : QuietUse::kInterpreter, program, error);
}

bool AssembleFilters(FilterFor purpose, SystemCallFilters* filters, std::string* error) {
  if (purpose == FilterFor::kGpu) {
    return AssembleForGpu(true, &filters->loading, error) && AssembleForGpu(false, &filters->running, error);
  }
  return Assemble(true, &filters->loading, error) && Assemble(false, &filters->running, error);
}

int InstallFilter(const std::vector<sock_filter>& filter) {
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), const_cast<sock_filter*>(filter.data())};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : errno;
}

std::string SystemCallName(int number) {
  std::unique_ptr<char, decltype(&free)> name(seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number), &free);
  return name != nullptr ? name.get() : "system call " + std::to_string(number);
}

}  // namespace hone::verifier
