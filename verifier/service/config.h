#pragma once

// What `hone-verifier` reads from YAML.
//
// Cores are those of the process's affinity mask. Lanes of the cpu device get half of them, one each where there are several
// (verifier/lane/affinity.h); builds are short and many, so that there is a slot for each core and the kernel shares them out,
// but for the three cores that a GPU's lane has to itself.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/config.h"

namespace hone::verifier {

struct ServerConfig {
  std::vector<std::string> listen = {"127.0.0.1:50151"};
  std::string folder;
  std::vector<std::string> devices = {"cpu"};
  std::string role = "all";
  std::string queue;
  std::string artefacts;
  double lost_after_s = 15;
  int lanes = 0;
  int runners_ahead = 0;
  double task_memory_share = 1;
  std::string screen = "cpu";
  int screen_lanes = 0;
  double screen_rerun_share = 0.02;
  std::string cuda_toolkit;
  std::string cuda_architecture;
  std::string musa_toolchain;
  std::string musa_toolkit;
  std::string musa_architecture;
  int build_slots = 0;
  std::string python;
  std::string sandbox;
  bool rescue_flags = true;
  int build_niceness = 19;
  std::string extension_python;
  std::string extension_headers;
  int64_t queue_limit_mb = 1024;
  int64_t cache_limit_mb = 256;
  int64_t artefact_limit_mb = 4096;
  int max_tries = 3;
  int max_stream_jobs = 1024;
  bool holds = false;
  double drain_s = 30;
  std::string metrics;
  std::string http;
  int http_threads = 128;
  std::string tokens;
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_client_ca;
  std::string log_level = "info";
};

template <class Fields>
void Describe(Fields& f, ServerConfig& c) {
  f.Value("listen", c.listen, "addresses to serve gRPC on: host:port, or unix:/path");
  f.Value("folder", c.folder, "queue, result cache and artefacts; empty: $XDG_CACHE_HOME/hone/verifier");
  f.Value("devices", c.devices, "backends to judge on: cpu; cuda, musa (a lane on each GPU); cuda:N, musa:N; or noop alone, for load tests");
  f.Value("role", c.role, OneOf{{"all", "front", "build", "lane"}}, "part in a farm: all of it; takes requests only; builds only; judges only");
  f.Value("queue", c.queue, "redis://[[user]:password@]host:port/db that a farm shares; empty: embedded, this process alone");
  f.Value("artefacts", c.artefacts, "folder that all hosts of a farm share; empty: folder/artefacts, and copies through the queue's Redis");
  f.Value("lost_after_s", c.lost_after_s, Range(0.1, 3600.0), "seconds without a sign of life after which a farm takes a process's jobs away");
  f.Value("lanes", c.lanes, Range(0, 256), "candidates judged at a time on the cpu device; 0: half the cores, at most one for 2 GiB of memory");
  f.Value("runners_ahead", c.runners_ahead, Range(0, 128),
          "runners for native candidates that an idle lane starts, each with a context of its GPU; 0: a few, as between any two");
  f.Value("task_memory_share", c.task_memory_share, Range(0.01, 1.0),
          "of the two fifths of a GPU's memory that a lane keeps inputs and answers in; less where others need it");
  f.Value("screen", c.screen, OneOf{{"cpu", "off"}}, "where native candidates of a GPU are checked first, at small shapes");
  f.Value("screen_lanes", c.screen_lanes, Range(0, 64), "candidates screened at a time; 0: a quarter of the cores, at most 4");
  f.Value("screen_rerun_share", c.screen_rerun_share, Range(0.0, 1.0), "of those that the screen rejects, judged on the GPU all the same");
  f.Value("cuda_toolkit", c.cuda_toolkit, "folder with bin/nvcc; empty: $CUDA_HOME, $CUDA_PATH, else /usr/local/cuda");
  f.Value("cuda_architecture", c.cuda_architecture, "sm_90: what a host without a GPU builds for; empty: that of the first GPU");
  f.Value("musa_toolchain", c.musa_toolchain, OneOf{{"", "mcc", "compat/cuda", "compat/cpu"}},
          "what builds and runs MUSA candidates: Moore Threads' own, or MUSA's names over CUDA or the CPU emulation; empty: $HONE_MUSA_TOOLCHAIN, else mcc");
  f.Value("musa_toolkit", c.musa_toolkit, "folder with bin/mcc; empty: $MUSA_HOME, $MUSA_PATH, else /usr/local/musa");
  f.Value("musa_architecture", c.musa_architecture, "mp_22, or several: what mcc builds for; empty: $TORCH_MUSA_ARCH_LIST, else that of the first GPU");
  f.Value("build_slots", c.build_slots, Range(0, 1024), "compiles at a time; 0: as many as cores");
  f.Value("python", c.python, "interpreter with torch, for references; empty: $HONE_PYTHON, else that of the build");
  f.Value("sandbox", c.sandbox, OneOf{{"", "bubblewrap", "none"}},
          "what candidates run in; none is said in every verdict; empty: $HONE_SANDBOX, else bubblewrap");
  f.Value("rescue_flags", c.rescue_flags, "compile as with -include cfloat --expt-relaxed-constexpr, which spare whole families of answers");
  f.Value("build_niceness", c.build_niceness, Range(0, 19), "of the compilers of extensions, so that they do not disturb what is timed");
  f.Value("extension_python", c.extension_python, "version of another machine's Python to build extensions for, as 3.12; empty: this one's");
  f.Value("extension_headers", c.extension_headers, "folder of that version's Python.h; empty: this one's");
  f.Value("queue_limit_mb", c.queue_limit_mb, Range<int64_t>(1, 1 << 20), "megabytes of jobs waiting, then RESOURCE_EXHAUSTED");
  f.Value("cache_limit_mb", c.cache_limit_mb, Range<int64_t>(1, 1 << 20), "megabytes of verdicts kept");
  f.Value("artefact_limit_mb", c.artefact_limit_mb, Range<int64_t>(1, 1 << 24), "megabytes of built candidates kept");
  f.Value("max_tries", c.max_tries, Range(1, 100), "of one stage of a job before its verdict is INFRA");
  f.Value("max_stream_jobs", c.max_stream_jobs, Range(1, 1 << 20), "open requests of one stream");
  f.Value("holds", c.holds, "clients may keep this process's lanes from judging while they compute on a lane's device themselves");
  f.Value("drain_s", c.drain_s, Range(0.0, 86400.0), "seconds that SIGTERM leaves to open requests");
  f.Value("metrics", c.metrics, "host:port for Prometheus; empty: none");
  f.Value("http", c.http, "host:port of the HTTP/JSON gateway; empty: none");
  f.Value("http_threads", c.http_threads, Range(1, 4096), "HTTP requests worked on at a time");
  f.Value("tokens", c.tokens, "file of bearer tokens' hashes, ends and quotas (verifier/service/access.h); empty: everybody may");
  f.Value("tls_certificate", c.tls_certificate, "PEM file; with it host:port and HTTP addresses speak TLS");
  f.Value("tls_key", c.tls_key, "PEM file of its key");
  f.Value("tls_client_ca", c.tls_client_ca, "PEM file; gRPC clients must show a certificate that it signed");
  f.Value("log_level", c.log_level, OneOf{{"debug", "info", "warning", "error"}}, "least level that is logged");
}

/// Replaces every "as the machine is" value by what it comes to here, and checks what one field cannot know:
/// kInvalidArgument for no address, an unknown device (names those there are), or noop beside another; the errors of
/// ChooseSandbox, where candidates are run at all.
absl::Status Resolve(ServerConfig& config);

}  // namespace hone::verifier
