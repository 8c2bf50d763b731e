#pragma once

// System-call filters of a candidate's process. Plain C++: the runner, which links nothing of ours, uses it.
//
// The process creates no other process and no thread, opens no socket, writes to no file, sets no timer and sends no
// signal. While an artefact loads it may still open files for reading and map code; afterwards neither. A forbidden call
// raises SIGSYS, so that the runner can say which one it was; a few that innocent code makes in passing fail with EPERM.
//
// Source: seccomp(2), BPF assembled by libseccomp.

#include <linux/filter.h>
#include <string>
#include <vector>

namespace hone::verifier {

struct SystemCallFilters {
  std::vector<sock_filter> loading;  // installed before the artefact is opened
  std::vector<sock_filter> running;  // added before its first call; filters only ever narrow
};

/// Where candidates compute. A GPU's driver talks to its device nodes by ioctl and maps them, when its threads have started:
/// that much is allowed there, and open files, but still no other process or thread, no socket and no new file.
enum class FilterFor { kHost, kGpu };

/// Assembles both filters once, for many processes to install. False with the reason in `error`.
bool AssembleFilters(FilterFor purpose, SystemCallFilters* filters, std::string* error);

/// For the tools of a compilation: a process that computes on its own memory and reads files, and, with `may_write`,
/// creates them and execs once. No other process, no socket, no signal, no look into other processes. Anything else fails
/// with EPERM, so that a tool reports it.
bool AssembleToolFilter(bool may_write, std::vector<sock_filter>* program, std::string* error);

/// For an interpreter that runs a candidate: as a tool that reads files, and it may talk over the sockets that it holds and
/// ask its descriptors what they are; on a GPU also what its driver needs.
bool AssembleInterpreterFilter(FilterFor purpose, std::vector<sock_filter>* program, std::string* error);

/// For an interpreter whose candidate starts compilers of its own, as Triton does: processes and files are its business, the
/// namespace's walls are around them, and whoever started it ends what it leaves. What it may not (EPERM): signal, stop or
/// look into other processes, open sockets, make namespaces, change priorities, or load code into the kernel.
bool AssembleCompilingInterpreterFilter(std::vector<sock_filter>* program, std::string* error);

/// Applies a filter to this process for good; needs PR_SET_NO_NEW_PRIVS. 0 or errno. Async-signal-safe.
int InstallFilter(const std::vector<sock_filter>& filter);

/// The name of a system call of this machine, or "system call 123".
std::string SystemCallName(int number);

}  // namespace hone::verifier
