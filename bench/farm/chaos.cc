#include <algorithm>
#include <atomic>
#include <cstdio>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "bench/farm/measure.h"
#include "verifier/client/client.h"
#include "verifier/client/local_farm.h"
#include "verifier/client/local_server.h"

namespace hone::bench {
namespace {

using verifier::Client;
using verifier::ClientOptions;
using verifier::LocalFarm;
using verifier::LocalFarmOptions;
using verifier::LocalServer;
using verifier::LocalServerOptions;

constexpr char kReference[] = R"py(
import torch
import torch.nn as nn

n = 256

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(n)]

def get_init_inputs():
    return []
)py";

/// A kernel of its own for each number: right, wrong, or one that does not compile.
std::string Kernel(int i) {
  const char* value = i % 3 == 2 ? "x[i]" : "x[i] > 0 ? x[i] : 0";
  return absl::StrCat("__global__ void k(const float* x, float* out, int n) {\n"
                      "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) out[i] = ", value,
                      i % 12 == 11 ? "" : ";", "\n}\nextern \"C\" void launch(const float* x, float* out, int n, "
                      "cudaStream_t stream) {\n  k<<<(n + 63) / 64, 64, 0, stream>>>(x, out, n);\n}\n// ", i, "\n");
}

VerdictStatus Deserved(size_t i, bool real) {
  if (!real) return VerdictStatus::kOk;
  if (i % 12 == 11) return VerdictStatus::kCompile;
  return i % 3 == 2 ? VerdictStatus::kIncorrect : VerdictStatus::kOk;
}

absl::StatusOr<std::unique_ptr<LocalFarm>> StartFarm(const FarmPrograms& programs, std::vector<std::string> roles,
                                                     std::vector<std::string> args) {
  LocalFarmOptions options;
  options.program = programs.verifier;
  options.python = programs.python;
  options.roles = std::move(roles);
  options.args = std::move(args);
  return LocalFarm::Start(std::move(options));
}

absl::StatusOr<std::unique_ptr<Client>> ClientOf(std::vector<std::string> endpoints) {
  ClientOptions options;
  options.endpoints = std::move(endpoints);
  options.deadline = absl::Hours(2);
  options.max_attempts = 1000;
  return Client::Create(options);
}

/// Kills something and starts it again until told to stop.
class Chaos {
 public:
  Chaos(LocalFarm& farm, double every_s, uint64_t seed)
      : farm_(farm), every_s_(every_s), random_(seed), thread_([this] { Loop(); }) {}
  ~Chaos() { Stop().IgnoreError(); }
  absl::Status Stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  int kills() const { return kills_; }

 private:
  void Loop() {
    while (!over_ && status_.ok()) {
      const double seconds = std::exponential_distribution<double>(1 / every_s_)(random_);
      const SteadyTime next = SteadyTime::Now() + absl::Seconds(std::min(seconds, 4 * every_s_));
      while (!over_ && SteadyTime::Now() < next) absl::SleepFor(absl::Milliseconds(20));
      if (over_) return;
      ++kills_;
      const size_t victim = random_() % (farm_.size() + 1);
      if (victim < farm_.size()) {
        status_ = farm_.Restart(victim);
      } else {
        farm_.KillRedis();
        absl::SleepFor(absl::Milliseconds(static_cast<int64_t>(random_() % 1000)));
        status_ = farm_.StartRedis();
      }
    }
  }

  LocalFarm& farm_;
  const double every_s_;
  std::mt19937_64 random_;
  std::atomic<bool> over_{false};
  std::atomic<int> kills_{0};
  absl::Status status_;
  std::thread thread_;
};

VerifyRequest Noop(int i, int64_t wait_ms) {
  VerifyRequest request;
  request.task.reference = "r";
  request.candidate.source = absl::StrCat("// ", i);
  if (wait_ms > 0) request.task.timing["wait_ms"] = wait_ms;
  return request;
}

std::vector<VerifyRequest> ChaosRequests(const ChaosOptions& options, const Protocol& protocol) {
  std::vector<VerifyRequest> requests;
  for (int i = 0; i < options.jobs; ++i) {
    requests.push_back(Noop(i, options.real ? 0 : 100));
    if (!options.real) continue;
    requests.back().task.reference = kReference;
    requests.back().candidate.source = Kernel(i);
    requests.back().protocol = protocol;
  }
  return requests;
}

absl::StatusOr<double> PerSecond(const FarmPrograms& programs, size_t workers, const ScalingOptions& options) {
  std::vector<std::string> roles(workers + 1, "lane");
  roles[0] = "front";
  HONE_ASSIGN_OR_RETURN(const auto farm, StartFarm(programs, roles, {"--set=devices=[noop]", "--set=lanes=1"}));
  HONE_ASSIGN_OR_RETURN(const auto client, ClientOf(farm->endpoints()));
  const auto send = [&](int from, int count) -> absl::Status {
    std::vector<VerifyRequest> requests;
    for (int i = 0; i < count; ++i) requests.push_back(Noop(from + i, options.wait_ms));
    absl::Status wrong;
    HONE_RETURN_IF_ERROR(client->VerifyAll(requests, [&](size_t, const Verdict& verdict) {
      if (!verdict.ok()) wrong = absl::InternalError(verdict.message);
    }));
    return wrong;
  };
  HONE_RETURN_IF_ERROR(send(0, 100));  // all have joined
  const SteadyTime begin = SteadyTime::Now();
  HONE_RETURN_IF_ERROR(send(100, options.jobs));
  return options.jobs / absl::ToDoubleSeconds(SteadyTime::Now() - begin);
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

absl::StatusOr<FarmFigures> MeasureChaos(const FarmPrograms& programs, const ChaosOptions& options) {
  std::vector<std::string> roles = {"front", "front"};
  for (int i = 0; i < options.hosts; ++i) roles.push_back(options.real ? "all" : "lane");
  std::vector<std::string> args = {"--set=lanes=1", "--set=build_slots=1", "--set=lost_after_s=2", "--set=max_tries=100"};
  if (!options.real) args.push_back("--set=devices=[noop]");
  HONE_ASSIGN_OR_RETURN(const auto farm, StartFarm(programs, roles, args));
  HONE_ASSIGN_OR_RETURN(const auto client, ClientOf(farm->endpoints()));
  HONE_ASSIGN_OR_RETURN(Protocol protocol, ProtocolById("quick"));
  protocol.id = "quick-untimed";
  protocol.baselines.clear();  // what is tried here is the farm, not a clock
  const std::vector<VerifyRequest> requests = ChaosRequests(options, protocol);
  std::vector<int> answers(requests.size(), 0);
  int wrong = 0;
  Chaos chaos(*farm, options.every_s, options.seed);
  const absl::Status sent = client->VerifyAll(requests, [&](size_t i, const Verdict& verdict) {
    ++answers[i];
    if (verdict.status == Deserved(i, options.real)) return;
    if (++wrong > 5) return;
    std::fprintf(stderr, "  job %zu: %s: %s\n", i, std::string(Name(verdict.status)).c_str(), verdict.message.c_str());
  });
  HONE_RETURN_IF_ERROR(chaos.Stop());
  HONE_RETURN_IF_ERROR(sent);
  const auto lost = std::count_if(answers.begin(), answers.end(), [](int count) { return count != 1; });
  std::printf("  %d kills\n", chaos.kills());
  return FarmFigures{{"farm.chaos_lost", static_cast<double>(lost), "jobs"},
                     {"farm.chaos_wrong", static_cast<double>(wrong), "jobs"}};
}

absl::StatusOr<FarmFigures> MeasureScaling(const FarmPrograms& programs, const ScalingOptions& options) {
  HONE_ASSIGN_OR_RETURN(const double one, PerSecond(programs, 1, options));
  HONE_ASSIGN_OR_RETURN(const double four, PerSecond(programs, 4, options));
  std::printf("  %.1f/s with one worker, %.1f/s with four, %d ms a job\n", one, four, static_cast<int>(options.wait_ms));
  return FarmFigures{{"farm.scaling_1_to_4", four / one, "x"}};
}

absl::StatusOr<FarmFigures> MeasureFrontOverhead(const FarmPrograms& programs, int requests) {
  constexpr int kWarmUp = 50;
  HONE_ASSIGN_OR_RETURN(const auto farm, StartFarm(programs, {"front", "lane"}, {"--set=devices=[noop]", "--set=lanes=1"}));
  LocalServerOptions embedded;
  embedded.program = programs.verifier;
  embedded.extra_args = {"--set=devices=[noop]", "--set=lanes=1"};
  HONE_ASSIGN_OR_RETURN(const auto server, LocalServer::Start(embedded));
  HONE_ASSIGN_OR_RETURN(const auto through_front, ClientOf(farm->endpoints()));
  HONE_ASSIGN_OR_RETURN(const auto direct, ClientOf({server->endpoint()}));
  std::vector<double> front_ms, direct_ms;
  for (int i = 0; i < requests + kWarmUp; ++i) {
    for (const bool front : {false, true}) {
      const SteadyTime begin = SteadyTime::Now();
      HONE_RETURN_IF_ERROR((front ? *through_front : *direct).Verify(Noop(i, 0)).status());
      if (i >= kWarmUp) (front ? front_ms : direct_ms).push_back(absl::ToDoubleMilliseconds(SteadyTime::Now() - begin));
    }
  }
  const double front_median = Median(front_ms), direct_median = Median(direct_ms);
  std::printf("  median %.3f ms direct, %.3f ms through front, Redis and worker\n", direct_median, front_median);
  return FarmFigures{{"farm.front_overhead_ms_p50", front_median - direct_median, "ms"}};
}

}  // namespace hone::bench
