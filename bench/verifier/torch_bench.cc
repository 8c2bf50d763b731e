// Verdicts a second on PyTorch-extension candidates, every one a new build and again from the artefact store, beside
// KernelBench's way of doing it (kernelbench_protocol.py) on the same candidates and machine.
//
//   torch_bench --device cuda --record bench/results.json

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/results.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "bench/verifier/torch_pairs.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace hone::verifier {
namespace {

struct Arguments {
  int candidates = 32;
  int peer_candidates = 3;  // the peer takes half a minute for one
  int build_slots = 0;
  std::string device = "cuda";
  std::string python = "python3";
  std::string peer_script = "bench/verifier/kernelbench_protocol.py";
  std::string log;
  std::string record;
  std::string machine;  // empty: as it describes itself
  std::string commit;   // empty: of the source folder
  std::string source_folder = ".";
  std::vector<std::string> set;
};

/// A reference and a kernel for it, with the number that both have in them.
struct Pattern {
  std::string forward;  // of the reference, in x
  std::string kernel;
};

std::string RangeKernel(const std::string& summand) {
  constexpr char kSource[] = R"(
__global__ void kernel(const float* x, float* out, int cols) {
  __shared__ float high[256], low[256];
  float h = -1e30f, l = 1e30f;
  for (int c = threadIdx.x; c < cols; c += 256) {
    float v = x[blockIdx.x * (long)cols + c];
    h = fmaxf(h, v);
    l = fminf(l, v);
  }
  high[threadIdx.x] = h;
  low[threadIdx.x] = l;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (threadIdx.x < s) {
      high[threadIdx.x] = fmaxf(high[threadIdx.x], high[threadIdx.x + s]);
      low[threadIdx.x] = fminf(low[threadIdx.x], low[threadIdx.x + s]);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = high[0] - low[0]$SUMMAND;
}
torch::Tensor run(torch::Tensor x) {
  auto out = torch::empty({x.size(0)}, x.options());
  kernel<<<x.size(0), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
  return out;
})";
  return absl::StrReplaceAll(kSource, {{"$SUMMAND", summand}});
}

constexpr int kPatterns = 4;

Pattern PatternOf(int kind, const std::string& number) {
  const auto with = [&](const char* before, const char* behind = "") { return absl::StrCat(before, number, behind); };
  switch (kind) {
    case 0: return {with("torch.relu(x * 1.", " + 0.25)"), ElementwiseKernel(with("fmaxf(x[i] * 1.", "f + 0.25f, 0.f)"))};
    case 1: return {with("(x * x).sum(1) * 0.1"), SumOfSquaresKernel(with(" * 0.1", "f"))};
    case 2: return {with("torch.tanh(x + 0.", ").t().contiguous()"), TransposeKernel(with(" + 0.", "f"))};
    default: return {with("x.amax(1) - x.amin(1) + 0."), RangeKernel(with(" + 0.", "f"))};
  }
}

VerifyRequest RequestOf(int index, const Arguments& arguments, const Protocol& protocol) {
  // Candidates of one task come in groups, as in training; what makes each a build of its own is a comment.
  const int group = (arguments.candidates + kPatterns - 1) / kPatterns;
  const int kind = std::min(index / group, kPatterns - 1);
  const std::string number = absl::StrCat(100 + kind);
  const Pattern pattern = PatternOf(kind, number);
  VerifyRequest request;
  request.task.id = absl::StrCat("bench_", index);
  request.task.reference = TorchReference(pattern.forward, 4096);
  request.candidate.format = Format::kTorch;
  request.candidate.backend = *ParseBackend(arguments.device);
  request.candidate.source = TorchExtension(absl::StrCat(pattern.kernel, "\n// candidate ", index, "\n"), "bench_" + number);
  request.protocol = protocol;
  request.use_cache = false;
  return request;
}

struct Sent {
  double seconds = 0;
  std::map<std::string, int> mix;
  double build_s = 0, check_s = 0, time_s = 0;  // summed
};

absl::StatusOr<Sent> Send(Client& client, const std::vector<VerifyRequest>& requests) {
  Sent sent;
  const SteadyTime begin = SteadyTime::Now();
  HONE_RETURN_IF_ERROR(client.VerifyAll(requests, [&](size_t index, const Verdict& verdict) {
    ++sent.mix[std::string(Name(verdict.status))];
    sent.build_s += verdict.seconds.build;
    sent.check_s += verdict.seconds.check;
    sent.time_s += verdict.seconds.time;
    std::printf("  %s %s %s build %.2f check %.2f time %.2f overhead %.2f", requests[index].task.id.c_str(),
                std::string(Name(verdict.status)).c_str(), verdict.message.c_str(), verdict.seconds.build,
                verdict.seconds.check, verdict.seconds.time, verdict.seconds.lane_overhead);
    if (const Timing* timing = verdict.speed(); timing != nullptr) {
      std::printf(" %.4gx [%.4g, %.4g] %.4g us against %.4g us, %d rounds of %d calls", timing->speedup.median, timing->speedup.low,
                  timing->speedup.high, timing->candidate_ns / 1e3, timing->baseline_ns / 1e3, timing->speedup.samples,
                  timing->calls_per_round);
    }
    std::printf(" at %.1f s\n", absl::ToDoubleSeconds(SteadyTime::Now() - begin));
    std::fflush(stdout);
  }));
  sent.seconds = absl::ToDoubleSeconds(SteadyTime::Now() - begin);
  return sent;
}

/// Candidates a second of KernelBench's protocol: built anew, and from its own build folder.
absl::StatusOr<std::pair<double, double>> Peer(const Arguments& arguments, const std::vector<VerifyRequest>& requests) {
  HONE_ASSIGN_OR_RETURN(const TempFolder folder, TempFolder::Create("torch-bench"));
  double seconds[2] = {0, 0};
  for (int i = 0; i < arguments.peer_candidates; ++i) {
    const std::string file = absl::StrCat(folder.path(), "/", i, ".json");
    HONE_RETURN_IF_ERROR(WritePair(requests[static_cast<size_t>(i)], file));
    const SpawnOptions spawn = PeerProcess(arguments.python, arguments.peer_script, file, folder.path());
    for (double& total : seconds) {  // the second time finds its extension built
      HONE_ASSIGN_OR_RETURN(const RunResult run, Run(spawn, absl::Minutes(3)));
      std::printf("  peer %d: %.1f s %s\n", i, run.seconds, run.output.c_str());
      if (run.exit_code != 0) return absl::InternalError(absl::StrCat("the peer failed: ", run.output));
      total += run.seconds;
    }
  }
  return std::make_pair(arguments.peer_candidates / seconds[0], arguments.peer_candidates / seconds[1]);
}

absl::Status Record(const Arguments& arguments, const std::vector<std::pair<std::string, double>>& figures) {
  std::vector<BenchResult> results;
  const std::string commit = arguments.commit.empty() ? CurrentCommit(arguments.source_folder) : arguments.commit;
  for (const auto& [id, value] : figures) {
    std::printf("%-36s %10.4g 1/s\n", id.c_str(), value);
    std::fflush(stdout);
    const std::string machine = arguments.machine.empty() ? MachineKind() : arguments.machine;
    results.push_back({id, value, "1/s", "bench/device/verifier.sh", machine, Today(), commit});
  }
  return arguments.record.empty() ? absl::OkStatus() : RecordResults(arguments.record, results);
}

absl::Status Bench(const Arguments& arguments) {
  HONE_ASSIGN_OR_RETURN(const Protocol protocol, ProtocolById("hone-v1"));
  std::vector<VerifyRequest> requests;
  for (int i = 0; i < arguments.candidates + 1; ++i) requests.push_back(RequestOf(i, arguments, protocol));
  // One without a build brings the fork server up while the other has compiled what is compiled once for all extensions.
  std::vector<VerifyRequest> first(2, requests.back());
  first[0].candidate.source = absl::StrReplaceAll(first[0].task.reference, {{"class Model(", "class ModelNew("}});
  first[0].task.legality.allow_library_kernels = true;
  requests.pop_back();

  LocalServerOptions options;
  options.python = arguments.python;
  options.log_path = arguments.log;
  HONE_ASSIGN_OR_RETURN(const TempFolder store, TempFolder::Create("torch-bench-store"));
  options.extra_args = {absl::StrCat("--set=devices=[", arguments.device, "]"), "--set=lanes=1",
                        absl::StrCat("--set=folder=", store.path()),
                        absl::StrCat("--set=build_slots=", arguments.build_slots)};
  for (const std::string& item : arguments.set) options.extra_args.push_back("--set=" + item);
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<LocalServer> server, LocalServer::Start(options));
  ClientOptions client_options;
  client_options.endpoints = {server->endpoint()};
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, Client::Create(client_options));
  // What happens once is no cost of a verdict.
  HONE_RETURN_IF_ERROR(Send(*client, first).status());
  const auto jobs = static_cast<double>(requests.size());
  for (const char* what : {"cold", "cached"}) {  // the second time finds everything built
    HONE_ASSIGN_OR_RETURN(const Sent sent, Send(*client, requests));
    for (const auto& [status, count] : sent.mix) std::printf("  %d %s\n", count, status.c_str());
    HONE_RETURN_IF_ERROR(Record(arguments, {{absl::StrCat("verifier.torch.", what, "_per_s"), jobs / sent.seconds}}));
  }
  if (arguments.peer_candidates == 0) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const auto peer, Peer(arguments, requests));
  return Record(arguments,
                {{"verifier.torch.peer_cold_per_s", peer.first}, {"verifier.torch.peer_cached_per_s", peer.second}});
}

int Main(int argc, char** argv) {
  CLI::App app{"Measures verdicts a second on PyTorch-extension candidates."};
  Arguments arguments;
  app.add_option("--candidates", arguments.candidates)->check(CLI::Range(1, 800));
  app.add_option("--peer-candidates", arguments.peer_candidates, "0: without the peer")->check(CLI::Range(0, 800));
  app.add_option("--build-slots", arguments.build_slots, "0: as many as cores")->check(CLI::Range(0, 1024));
  app.add_option("--device", arguments.device);
  app.add_option("--python", arguments.python);
  app.add_option("--peer-script", arguments.peer_script);
  app.add_option("--log", arguments.log, "of the verifier");
  app.add_option("--record", arguments.record, "results file to put the figures into");
  app.add_option("--machine", arguments.machine, "to record; default: its processor");
  app.add_option("--commit", arguments.commit, "to record; default: that of --source");
  app.add_option("--source", arguments.source_folder, "checkout whose commit is recorded");
  app.add_option("--set", arguments.set, "key=value for the verifier")->type_size(1)->allow_extra_args(false);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Bench(arguments);
  if (!status.ok()) std::fprintf(stderr, "torch_bench: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace hone::verifier

int main(int argc, char** argv) { return hone::verifier::Main(argc, argv); }
