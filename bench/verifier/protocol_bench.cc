// The same candidates under both protocols of the verifier and, for those in Python, as KernelBench itself measures them
// (kernelbench_protocol.py: a fresh process each): do the measurements agree?
//
//   protocol_bench --device cuda --record bench/results.json
//
// Everything is built first, so that nothing is timed beside a compiler; each candidate is printed as soon as it is measured.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/results.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "bench/verifier/torch_pairs.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace hone::verifier {
namespace {

struct Arguments {
  std::string device = "cuda";
  std::string server;
  std::string python = "python3";
  std::string peer_script = "bench/verifier/kernelbench_protocol.py";
  std::string log, record, machine, commit, source_folder = ".";
  std::string peer_folder;  // where the peer builds; empty: a temporary one
  int size = 4096;          // of the square inputs
  bool peer = true;
};

/// A task and what answers it.
struct Subject {
  std::string name;
  Format format;
  const char* forward;    // of the reference, in x
  std::string candidate;  // torch: the extension's kernel
};

// ---- Extensions. ----

// One thread a row: many times slower than eager.
constexpr char kSlowSoftmax[] = R"(
__global__ void kernel(const float* x, float* out, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  const float* in = x + r * (long)cols;
  float* to = out + r * (long)cols;
  float high = in[0], sum = 0;
  for (int c = 1; c < cols; ++c) high = fmaxf(high, in[c]);
  for (int c = 0; c < cols; ++c) sum += expf(in[c] - high);
  for (int c = 0; c < cols; ++c) to[c] = expf(in[c] - high) / sum;
}
torch::Tensor run(torch::Tensor x) {
  auto out = torch::empty_like(x);
  kernel<<<(x.size(0) + 63) / 64, 64>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(0), x.size(1));
  return out;
})";

// ---- Triton. ----

constexpr char kTritonGelu[] = R"(
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, 0.5 * v * (1.0 + tl.erf(v * 0.70710678)) + 0.25, mask=i < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
)";

constexpr char kTritonSoftmax[] = R"(
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=float("-inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(out + tl.program_id(0) * cols + c, v / tl.sum(v, 0), mask=c < cols)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
)";

// ---- Native. ----

constexpr char kNativeGelu[] = R"(
__global__ void kernel(const float* x, float* out, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) out[i] = 0.5f * x[i] * (1.f + erff(x[i] * 0.70710678f)) + 0.25f;
}
extern "C" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  const long n = (long)rows * cols;
  kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, out, n);
}
)";

constexpr char kLaunchSumOfSquares[] =
    R"(extern "C" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  kernel<<<rows, 256, 0, stream>>>(x, out, cols);
}
)";

constexpr char kNativeSlowSoftmax[] = R"(
__global__ void kernel(const float* x, float* out, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  const float* in = x + r * (long)cols;
  float* to = out + r * (long)cols;
  float high = in[0], sum = 0;
  for (int c = 1; c < cols; ++c) high = fmaxf(high, in[c]);
  for (int c = 0; c < cols; ++c) sum += expf(in[c] - high);
  for (int c = 0; c < cols; ++c) to[c] = expf(in[c] - high) / sum;
}
extern "C" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  kernel<<<(rows + 63) / 64, 64, 0, stream>>>(x, out, rows, cols);
}
)";

constexpr char kGeluForward[] = "torch.nn.functional.gelu(x) + 0.25";
constexpr char kSumForward[] = "(x * x).sum(1)";
constexpr char kTransposeForward[] = "torch.tanh(x).t().contiguous()";
constexpr char kSoftmaxForward[] = "torch.softmax(x, dim=1)";

std::vector<Subject> Subjects() {
  return {{"torch_gelu", Format::kTorch, kGeluForward, ElementwiseKernel("0.5f * x[i] * (1.f + erff(x[i] * 0.70710678f)) + 0.25f")},
          {"torch_sum_of_squares", Format::kTorch, kSumForward, SumOfSquaresKernel()},
          {"torch_transpose", Format::kTorch, kTransposeForward, TransposeKernel()},
          {"torch_slow_softmax", Format::kTorch, kSoftmaxForward, kSlowSoftmax},
          {"triton_gelu", Format::kTriton, kGeluForward, kTritonGelu},
          {"triton_softmax", Format::kTriton, kSoftmaxForward, kTritonSoftmax},
          {"native_gelu", Format::kNative, kGeluForward, kNativeGelu},
          {"native_sum_of_squares", Format::kNative, kSumForward,
           absl::StrCat(SumOfSquaresOnDevice(), kLaunchSumOfSquares)},
          {"native_slow_softmax", Format::kNative, kSoftmaxForward, kNativeSlowSoftmax}};
}

/// What one measurement said.
struct Measured {
  double speedup = 0, candidate_us = 0, baseline_us = 0;
};

struct Row {
  std::string name;
  VerifyRequest request;
  std::optional<Measured> hone, kernelbench, rerun;
  bool peer = false;
};

class ProtocolBench {
 public:
  explicit ProtocolBench(const Arguments& arguments) : arguments_(arguments) {}

  absl::Status Run() {
    HONE_RETURN_IF_ERROR(Prepare());
    std::thread building;
    absl::Status built;
    if (arguments_.peer) building = std::thread([&] { built = BuildPeers(); });
    const absl::Status ours = BuildOurs();
    if (building.joinable()) building.join();
    HONE_RETURN_IF_ERROR(ours);
    if (!built.ok()) std::printf("the peer's builds: %s\n", built.ToString().c_str());
    HONE_RETURN_IF_ERROR(Measure("hone-v1", &Row::hone));
    HONE_RETURN_IF_ERROR(Measure("kernelbench-v0.1", &Row::kernelbench));
    for (const Row& row : rows_) HONE_RETURN_IF_ERROR(Record(row));  // the peer takes longer than all that
    for (Row& row : rows_) {
      if (!row.peer) continue;
      HONE_RETURN_IF_ERROR(RunPeer(row));
      HONE_RETURN_IF_ERROR(Record(row));
    }
    Print();
    return RecordGaps();
  }

 private:
  absl::Status Prepare() {
    HONE_ASSIGN_OR_RETURN(const Protocol protocol, ProtocolById("hone-v1"));
    const std::optional<Backend> backend = ParseBackend(arguments_.device);
    if (!backend) return absl::InvalidArgumentError(absl::StrCat("--device: no backend ", arguments_.device));
    for (const Subject& subject : Subjects()) {
      // The emulation has neither nvcc's extensions nor Triton.
      if (*backend == Backend::kCpu && subject.format != Format::kNative) continue;
      Row row;
      row.name = subject.name;
      row.peer = arguments_.peer && subject.format != Format::kNative;
      row.request.task.id = subject.name;
      row.request.task.reference = TorchReference(subject.forward, arguments_.size);
      row.request.candidate.format = subject.format;
      row.request.candidate.backend = *backend;
      row.request.candidate.source = subject.format == Format::kTorch ? TorchExtension(subject.candidate, "protocol_" + subject.name)
                                                                      : subject.candidate;
      row.request.protocol = protocol;
      row.request.use_cache = false;
      rows_.push_back(std::move(row));
    }
    if (arguments_.peer_folder.empty()) {
      HONE_ASSIGN_OR_RETURN(folder_, TempFolder::Create("protocol-bench"));
    }
    const std::string folder = PeerFolder();
    HONE_RETURN_IF_ERROR(MakeFolders(folder));
    for (const Row& row : rows_) {
      HONE_RETURN_IF_ERROR(WritePair(row.request, absl::StrCat(folder, "/", row.name, ".json")));
    }
    ClientOptions client_options;
    client_options.endpoints = {arguments_.server};
    if (arguments_.server.empty()) {
      LocalServerOptions options;
      options.python = arguments_.python;
      options.log_path = arguments_.log;
      options.extra_args = {absl::StrCat("--set=devices=[", arguments_.device, "]"), "--set=lanes=1", "--set=screen=off"};
      HONE_ASSIGN_OR_RETURN(server_, LocalServer::Start(options));
      client_options.endpoints = {server_->endpoint()};
    }
    HONE_ASSIGN_OR_RETURN(client_, Client::Create(client_options));
    return absl::OkStatus();
  }

  std::string PeerFolder() const { return arguments_.peer_folder.empty() ? folder_->path() : arguments_.peer_folder; }

  /// Checks all of them, untimed.
  absl::Status BuildOurs() {
    std::vector<VerifyRequest> requests;
    for (const Row& row : rows_) {
      requests.push_back(row.request);
      requests.back().protocol.baselines.clear();
    }
    return client_->VerifyAll(requests, [&](size_t index, const Verdict& verdict) { Say(rows_[index], "built", verdict); });
  }

  static void Say(const Row& row, const char* what, const Verdict& verdict) {
    std::printf("  %s %s: %s %s build %.2f check %.2f time %.2f s", row.name.c_str(), what, std::string(Name(verdict.status)).c_str(),
                verdict.message.c_str(), verdict.seconds.build, verdict.seconds.check, verdict.seconds.time);
    if (const Timing* timing = verdict.speed()) {
      std::printf(" %.4gx [%.4g, %.4g] %.4g us against %.4g us, %d rounds of %d", timing->speedup.median, timing->speedup.low,
                  timing->speedup.high, timing->candidate_ns / 1e3, timing->baseline_ns / 1e3, timing->speedup.samples, timing->calls_per_round);
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  absl::Status Measure(const std::string& id, std::optional<Measured> Row::*place) {
    std::vector<VerifyRequest> requests;
    for (const Row& row : rows_) {
      requests.push_back(row.request);
      HONE_ASSIGN_OR_RETURN(requests.back().protocol, ProtocolById(id));
    }
    return client_->VerifyAll(requests, [&](size_t index, const Verdict& verdict) {
      Say(rows_[index], id.c_str(), verdict);
      const Timing* timing = verdict.speed();
      if (timing != nullptr) rows_[index].*place = Measured{timing->speedup.median, timing->candidate_ns / 1e3, timing->baseline_ns / 1e3};
    });
  }

  absl::StatusOr<nlohmann::json> Peer(const Row& row, bool build_only) const {
    SpawnOptions spawn = PeerProcess(arguments_.python, arguments_.peer_script, absl::StrCat(PeerFolder(), "/", row.name, ".json"),
                                     PeerFolder() + "/extensions");
    if (build_only) spawn.argv.push_back("--build");
    HONE_ASSIGN_OR_RETURN(const RunResult run, hone::Run(spawn, absl::Minutes(3)));
    const auto json = nlohmann::json::parse(run.output.substr(std::min(run.output.size(), run.output.rfind("\n{") + 1)), nullptr, false);
    std::printf("  %s %s: %.1f s %s\n", row.name.c_str(), build_only ? "peer's build" : "peer", run.seconds, run.output.c_str());
    std::fflush(stdout);
    if (!json.is_object()) return absl::InternalError(absl::StrCat("the peer printed no result: ", run.output.substr(0, 300)));
    return json;
  }

  absl::Status BuildPeers() const {
    std::vector<std::thread> threads;
    std::vector<absl::Status> statuses(rows_.size());
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i].peer || rows_[i].request.candidate.format != Format::kTorch) continue;
      threads.emplace_back([this, i, &statuses] { statuses[i] = Peer(rows_[i], /*build_only=*/true).status(); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) HONE_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  absl::Status RunPeer(Row& row) const {
    HONE_ASSIGN_OR_RETURN(const nlohmann::json json, Peer(row, /*build_only=*/false));
    if (json.value("correct", false)) {
      row.rerun = Measured{json.value("speedup", 0.0), 1e3 * json.value("candidate_ms", 0.0), 1e3 * json.value("reference_ms", 0.0)};
    }
    return absl::OkStatus();
  }

  // ---- What is said. ----

  static std::string Cell(const std::optional<Measured>& measured) {
    if (!measured) return "-";
    return absl::StrFormat("%.4gx, %.4g / %.4g", measured->speedup, measured->candidate_us, measured->baseline_us);
  }

  void Print() const {
    std::printf("| Candidate | `hone-v1` | `kernelbench-v0.1` | KernelBench's own |\n|---|---|---|---|\n");
    for (const Row& row : rows_) {
      std::printf("| %s | %s | %s | %s |\n", row.name.c_str(), Cell(row.hone).c_str(), Cell(row.kernelbench).c_str(), Cell(row.rerun).c_str());
    }
  }

  absl::Status Put(const std::vector<std::pair<std::string, double>>& figures, const std::string& unit) const {
    std::vector<BenchResult> results;
    const std::string commit = arguments_.commit.empty() ? CurrentCommit(arguments_.source_folder) : arguments_.commit;
    const std::string machine = arguments_.machine.empty() ? MachineKind() : arguments_.machine;
    for (const auto& [id, value] : figures) {
      std::printf("%s %.5g %s\n", id.c_str(), value, unit.c_str());
      results.push_back({id, value, unit, "bench/device/protocols.sh", machine, Today(), commit});
    }
    std::fflush(stdout);
    return arguments_.record.empty() ? absl::OkStatus() : RecordResults(arguments_.record, results);
  }

  absl::Status Record(const Row& row) const {
    std::vector<std::pair<std::string, double>> figures;
    const auto add = [&](const char* what, const std::optional<Measured>& measured) {
      if (measured) figures.emplace_back(absl::StrCat("protocols.", row.name, ".", what), measured->speedup);
    };
    add("hone_v1", row.hone);
    add("kernelbench", row.kernelbench);
    add("kernelbench_rerun", row.rerun);
    return Put(figures, "x of eager");
  }

  /// The largest distance of two measurements of one speedup, as a share.
  absl::Status RecordGaps() const {
    double rerun = 0, ours = 0;
    for (const Row& row : rows_) {
      if (row.kernelbench && row.rerun) rerun = std::max(rerun, std::fabs(row.kernelbench->speedup / row.rerun->speedup - 1));
      if (row.kernelbench && row.hone) ours = std::max(ours, std::fabs(row.kernelbench->speedup / row.hone->speedup - 1));
    }
    return Put({{"protocols.gap_to_kernelbench_rerun", 100 * rerun}, {"protocols.gap_to_hone_v1", 100 * ours}}, "%, largest");
  }

  const Arguments arguments_;
  std::optional<TempFolder> folder_;
  std::vector<Row> rows_;
  std::unique_ptr<LocalServer> server_;
  std::unique_ptr<Client> client_;
};

int Main(int argc, char** argv) {
  CLI::App app{"Measures the same candidates under both protocols, and as KernelBench does."};
  Arguments arguments;
  bool no_peer = false;
  app.add_option("--device", arguments.device, "cuda, or cpu to try the program out");
  app.add_option("--server", arguments.server, "a running verifier; default: one of its own");
  app.add_option("--python", arguments.python);
  app.add_option("--peer-script", arguments.peer_script);
  app.add_option("--peer-folder", arguments.peer_folder, "where the peer's extensions are built and found; default: a temporary folder");
  app.add_flag("--no-peer", no_peer, "only the verifier's two protocols");
  app.add_option("--size", arguments.size, "rows and columns of the inputs")->check(CLI::Range(64, 32768));
  app.add_option("--log", arguments.log, "of the verifier");
  app.add_option("--record", arguments.record, "results file to put the figures into");
  app.add_option("--machine", arguments.machine, "to record; default: its processor");
  app.add_option("--commit", arguments.commit, "to record; default: that of --source");
  app.add_option("--source", arguments.source_folder, "checkout whose commit is recorded");
  CLI11_PARSE(app, argc, argv);
  arguments.peer = !no_peer;
  const absl::Status status = ProtocolBench(arguments).Run();
  if (!status.ok()) std::fprintf(stderr, "protocol_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace hone::verifier

int main(int argc, char** argv) { return hone::verifier::Main(argc, argv); }
