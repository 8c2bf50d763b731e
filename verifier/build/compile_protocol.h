#pragma once

// What the build stage, its compile server and the server's compiler snapshots say to each other, over SOCK_SEQPACKET
// pairs; descriptors travel with the messages. Plain structs without our libraries: all three programs read this file.
//
//   builder ──CompileRequest──▶ server (in a sandbox) ──SnapshotJob──▶ snapshot (a tool at its start)
//           ◀──CompileReply────                       ◀─SnapshotStarted─  forks a child that does one job

#include <cstdint>

namespace hone::verifier {

constexpr uint32_t kCompileMagic = 0x484e4331;

/// With one descriptor: the source, a memory file.
struct CompileRequest {
  uint32_t magic = kCompileMagic;
  uint32_t variant = 0;      // index into the server's compile commands
  uint32_t timeout_ms = 0;   // of the whole job
};

enum class CompileStage : uint32_t { kDone, kCompile, kAssemble, kLink, kServer };

/// With three descriptors: what the tools said, the artefact (empty unless kDone), and the compiler's assembly.
struct CompileReply {
  uint32_t magic = kCompileMagic;
  CompileStage stage = CompileStage::kServer;  // where it ended
  uint32_t timed_out = 0;
  int32_t status = 0;                          // wait status of the tool that failed; an errno for kServer
};

/// Limits of one tool process.
struct ToolLimits {
  uint64_t memory_bytes = 0;  // address space
  uint64_t file_bytes = 0;
  uint64_t cpu_seconds = 0;
};

/// Sent by a snapshot when it has come to the place of the source, and again for each job.
struct SnapshotStarted {
  uint32_t magic = kCompileMagic;
  int32_t pid = 0;   // of the child, which belongs to the server; 0: ready; < 0: -errno
};

/// With three descriptors: input, output, messages.
struct SnapshotJob {
  uint32_t magic = kCompileMagic;
  uint32_t filter_count = 0;   // of sock_filter that follow in the same message
  ToolLimits limits;
};

constexpr uint32_t kMaxFilter = 1024;

/// The file that a snapshot waits at, and the variables that tell it its socket and its output.
constexpr char kSnapshotSource[] = "hone-candidate";
constexpr char kSnapshotSocket[] = "HONE_SNAPSHOT_SOCKET";
constexpr char kSnapshotOutput[] = "HONE_SNAPSHOT_OUTPUT";

}  // namespace hone::verifier
