// The verifier on a GPU: verdicts a second with and without the CPU screen, what a lane costs beyond the trials, a cached
// verdict, and how well a speedup repeats. Candidates are a model's recorded answers, each made new to every cache.
//
//   device_bench qwen_coder_native_samples.jsonl --record results.json --commit 0123456789

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/results.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "bench/spread.h"
#include "cli/samples/recorded_samples.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"
#include "verifier/lane/affinity.h"

namespace hone::verifier {
namespace {

using bench::CoefficientOfVariation;
using bench::Quantile;

using cli::RecordedSample;

struct Arguments {
  std::string samples;
  std::vector<std::string> what = {"screened", "unscreened", "lane", "cached", "cv"};
  std::string device = "cuda";
  std::string python;
  std::string sandbox;
  std::string log;
  std::string record;
  std::string commit = "unknown";
  std::string machine = "NVIDIA H200, 16 cores";
  int kernels = 30;
  int repeats = 20;
  int gpus = 1;
  int seconds = 3600;
  int lane_candidates = 40;
  int burst = 72;
  int ahead = 40;
  int port = 19464;
  std::vector<std::string> set;
};

/// A page of the metrics' server.
std::string Scrape(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string page;
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    if (send(connection, request, sizeof request - 1, MSG_NOSIGNAL) > 0) {
      char buffer[65536];
      for (ssize_t got; (got = recv(connection, buffer, sizeof buffer, 0)) > 0;) page.append(buffer, static_cast<size_t>(got));
    }
  }
  close(connection);
  return page;
}

/// Sum over all lines of a metric whose labels contain `label`.
double Metric(const std::string& page, const std::string& name, const std::string& label) {
  double sum = 0;
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    if (!absl::StartsWith(line, name) || !absl::StrContains(line, label)) continue;
    double value = 0;
    if (absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) sum += value;
  }
  return sum;
}

class DeviceBench {
 public:
  explicit DeviceBench(Arguments arguments) : arguments_(std::move(arguments)) {}

  absl::Status Run() {
    HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(arguments_.samples));
    HONE_ASSIGN_OR_RETURN(samples_, cli::ParseRecordedSamples(text, arguments_.samples));
    for (const std::string& what : arguments_.what) {
      std::printf("== %s\n", what.c_str());
      const bool screened = what == "screened";
      HONE_RETURN_IF_ERROR(StartUnlessRunning(screened ? "cpu" : "off", what == "burst" ? arguments_.ahead : 0));
      if (what == "screened" || what == "unscreened") HONE_RETURN_IF_ERROR(MeasureRate(screened));
      if (what == "lane") HONE_RETURN_IF_ERROR(MeasureLane());
      if (what == "burst") HONE_RETURN_IF_ERROR(MeasureBurst());
      if (what == "cached") HONE_RETURN_IF_ERROR(MeasureCached());
      if (what == "cv") HONE_RETURN_IF_ERROR(MeasureRepeats());
      if (what == "observe") HONE_RETURN_IF_ERROR(Observe());
      if (!arguments_.record.empty()) HONE_RETURN_IF_ERROR(RecordResults(arguments_.record, results_));
    }
    return absl::OkStatus();
  }

 private:
  void Add(const std::string& id, double value, const std::string& unit) {
    std::printf("%s %.6g %s\n", id.c_str(), value, unit.c_str());
    std::fflush(stdout);
    results_.push_back({id, value, unit, "bench/device/verifier.sh", arguments_.machine, Today(), arguments_.commit});
  }

  absl::Status StartUnlessRunning(const std::string& screen, int ahead) {
    if (server_ != nullptr && screen_ == screen && ahead_ == ahead) return absl::OkStatus();
    client_.reset();
    server_.reset();
    screen_ = screen;
    ahead_ = ahead;
    HONE_ASSIGN_OR_RETURN(server_, StartServer(arguments_.device, screen, absl::StrCat("127.0.0.1:", arguments_.port)));
    HONE_ASSIGN_OR_RETURN(client_, ClientOf(*server_));
    // Starts what starts late: torch in the reference worker. Signatures are asked for anyhow.
    for (const RecordedSample& sample : samples_) HONE_RETURN_IF_ERROR(RequestFor(sample).status());
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<LocalServer>> StartServer(const std::string& device, const std::string& screen,
                                                           const std::string& metrics) {
    LocalServerOptions options;
    options.python = arguments_.python;
    if (!arguments_.log.empty()) options.log_path = absl::StrCat(arguments_.log, ".", ++servers_);
    // The recordings were compiled by nvcc's bare command line.
    options.extra_args = {absl::StrCat("--set=devices=[", device, "]"), absl::StrCat("--set=screen=", screen),
                          "--set=rescue_flags=false", absl::StrCat("--set=runners_ahead=", ahead_)};
    if (!metrics.empty()) options.extra_args.push_back(absl::StrCat("--set=metrics=", metrics));
    for (const std::string& item : arguments_.set) options.extra_args.push_back("--set=" + item);
    if (!arguments_.sandbox.empty()) options.extra_args.push_back(absl::StrCat("--set=sandbox=", arguments_.sandbox));
    return LocalServer::Start(options);
  }

  static absl::StatusOr<std::unique_ptr<Client>> ClientOf(const LocalServer& server) {
    ClientOptions options;
    options.endpoints = {server.endpoint()};
    return Client::Create(options);
  }

  absl::StatusOr<VerifyRequest> RequestFor(const RecordedSample& sample) {
    VerifyRequest request;
    HONE_ASSIGN_OR_RETURN(request.task, cli::TaskOfSample(sample, ResourcePath("samples/tasks")));
    if (signatures_.count(sample.task) == 0) {
      HONE_ASSIGN_OR_RETURN(signatures_[sample.task], client_->DescribeTask(request.task));
    }
    HONE_ASSIGN_OR_RETURN(request.candidate.source, cli::AdaptSource(sample, signatures_[sample.task]));
    absl::StrAppend(&request.candidate.source, "\n// ", ++fresh_, " ", absl::ToUnixNanos(absl::Now()), "\n");
    request.candidate.backend = *ParseBackend(arguments_.device);
    request.use_cache = false;
    // At the recorded timing shapes, where nothing was checked, a serial sum of 8,192 floats is off by more than 1e-4: a
    // right answer of the recordings, whose mix of verdicts is what is measured.
    request.task.tolerance = {1e-3, 1e-3};
    return request;
  }

  /// All recorded answers at once, every one a new compile, timed in full.
  absl::Status MeasureRate(bool screened) {
    const std::string id = absl::StrCat("verifier.native.", screened ? "screened" : "unscreened");
    std::vector<VerifyRequest> requests;
    for (const RecordedSample& sample : samples_) {
      HONE_ASSIGN_OR_RETURN(VerifyRequest request, RequestFor(sample));
      requests.push_back(std::move(request));
    }
    if (screened) {  // its lanes start when they are first needed: one request each brings them up
      std::vector<VerifyRequest> first(requests.begin(), requests.begin() + std::min<size_t>(requests.size(), 16));
      for (size_t i = 0; i < first.size(); ++i) {
        HONE_ASSIGN_OR_RETURN(first[i], RequestFor(samples_[i * samples_.size() / first.size()]));
        first[i].protocol.baselines.clear();
      }
      HONE_RETURN_IF_ERROR(client_->VerifyAll(first, [](size_t, const Verdict&) {}));
    }
    const std::string before = Scrape(arguments_.port);
    std::vector<Verdict> verdicts(requests.size());
    const SteadyTime start = SteadyTime::Now();
    HONE_RETURN_IF_ERROR(client_->VerifyAll(requests, [&](size_t index, const Verdict& verdict) { verdicts[index] = verdict; }));
    const double seconds = absl::ToDoubleSeconds(SteadyTime::Now() - start);
    const std::string after = Scrape(arguments_.port);

    const cli::Agreement agreement = cli::Compare(samples_, verdicts);
    std::map<std::string, int> statuses;
    std::vector<double> check, time, overhead;
    int screened_out = 0;
    for (size_t i = 0; i < verdicts.size(); ++i) {
      const Verdict& verdict = verdicts[i];
      ++statuses[std::string(Name(verdict.status))];
      screened_out += verdict.screened_on_cpu;
      if (verdict.ok() != (samples_[i].verdict == "ok") || verdict.status == VerdictStatus::kInfra) {
        std::printf("  line %d %s: recorded %s, here %s %s\n", samples_[i].line, samples_[i].task.c_str(), samples_[i].verdict.c_str(),
                    std::string(Name(verdict.status)).c_str(), verdict.message.c_str());
      }
      if (verdict.screened_on_cpu || verdict.seconds.check == 0) continue;
      check.push_back(verdict.seconds.check);
      overhead.push_back(1e3 * verdict.seconds.lane_overhead);
      if (verdict.ok()) time.push_back(verdict.seconds.time);
      if (verdict.ok() && verdict.speed() != nullptr) {
        std::printf("  ok %s line %d: %.4g us, %.4gx [%.4g, %.4g], %d rounds of %d, check %.3f time %.3f s\n", samples_[i].task.c_str(),
                    samples_[i].line, verdict.speed()->candidate_ns / 1e3, verdict.speed()->speedup.median,
                    verdict.speed()->speedup.low, verdict.speed()->speedup.high, verdict.speed()->speedup.samples,
                    verdict.speed()->calls_per_round, verdict.seconds.check, verdict.seconds.time);
      }
    }
    const double busy = Metric(after, "hone_lane_seconds_total", "busy") - Metric(before, "hone_lane_seconds_total", "busy");
    const double late = Metric(after, "hone_lane_seconds_total", "late") - Metric(before, "hone_lane_seconds_total", "late");
    std::printf("  %.1f s, lane busy %.1f s late %.2f s, screened out %d, check p50 %.3f p90 %.3f s, time p50 %.3f p90 %.3f s, "
                "overhead saturated p50 %.0f p90 %.0f ms\n",
                seconds, busy, late, screened_out, Quantile(check, 0.5), Quantile(check, 0.9), Quantile(time, 0.5),
                Quantile(time, 0.9), Quantile(overhead, 0.5), Quantile(overhead, 0.9));
    for (const auto& [status, count] : statuses) std::printf("  %s %d\n", status.c_str(), count);
    Add(absl::StrCat(id, "_per_s"), static_cast<double>(verdicts.size()) / seconds, "1/s");
    Add(absl::StrCat(id, "_disagreeing"), agreement.wrongly_accepted + agreement.wrongly_rejected + agreement.unjudged,
        absl::StrCat("of ", agreement.n, " recorded verdicts"));
    if (!screened) {
      Add("verifier.lane_utilisation", busy / (busy + late), "share");
      Add("verifier.lane_overhead_saturated_ms_p50", Quantile(overhead, 0.5), "ms");
      Add("verifier.lane_overhead_saturated_ms_p90", Quantile(overhead, 0.9), "ms");
    }
    return absl::OkStatus();
  }

  /// One candidate at a time, so that a runner is ready for each.
  absl::Status MeasureLane() {
    std::vector<const RecordedSample*> chosen;
    for (const RecordedSample& sample : samples_) {
      if (sample.verdict != "compile") chosen.push_back(&sample);
    }
    std::vector<double> overhead;
    std::set<std::string> seen;
    const size_t count = std::min<size_t>(chosen.size(), static_cast<size_t>(arguments_.lane_candidates));
    for (size_t i = 0; i < count; ++i) {
      const RecordedSample& sample = *chosen[i * chosen.size() / count];
      HONE_ASSIGN_OR_RETURN(const VerifyRequest request, RequestFor(sample));
      HONE_ASSIGN_OR_RETURN(const Verdict verdict, client_->Verify(request));
      std::printf("  %s %s overhead %.1f ms, check %.3f time %.3f s\n", sample.task.c_str(), std::string(Name(verdict.status)).c_str(),
                  1e3 * verdict.seconds.lane_overhead, verdict.seconds.check, verdict.seconds.time);
      overhead.push_back(1e3 * verdict.seconds.lane_overhead);
      absl::SleepFor(absl::Milliseconds(100));  // on top of the compile of the next: the spare runner gets ready
    }
    Add("verifier.lane_overhead_ms_p50", Quantile(overhead, 0.5), "ms");
    Add("verifier.lane_overhead_ms_p90", Quantile(overhead, 0.9), "ms");
    return absl::OkStatus();
  }

  /// As many right, built candidates as a training step has, after a pause in which nothing is timed: those that find a runner
  /// started ahead, and those that wait for one. Each is judged as its kernel was before, without a pause.
  absl::Status MeasureBurst() {
    HONE_ASSIGN_OR_RETURN(std::vector<VerifyRequest> requests, BurstRequests());
    const int64_t empty_mb = DeviceMegabytes();
    absl::SleepFor(absl::Milliseconds(500 + 220 * arguments_.ahead));
    const int64_t full_mb = DeviceMegabytes();
    struct Answer {
      double seconds;
      size_t index;
      Verdict verdict;
    };
    std::vector<Answer> answers;
    const SteadyTime start = SteadyTime::Now();
    HONE_RETURN_IF_ERROR(client_->VerifyAll(requests, [&](size_t index, const Verdict& verdict) {
      answers.push_back({absl::ToDoubleSeconds(SteadyTime::Now() - start), index, verdict});
    }));
    std::map<std::string, int> statuses;
    for (const Answer& answer : answers) {
      const Verdict& v = answer.verdict;
      ++statuses[std::string(Name(v.status))];
      std::printf("  %.3f s %s of %s: %s, %.5g us, check %.3f time %.3f overhead %.3f s %s\n", answer.seconds,
                  absl::StrCat(answer.index % distinct_).c_str(), requests[answer.index].task.id.c_str(), std::string(Name(v.status)).c_str(),
                  v.speed() != nullptr ? v.speed()->candidate_ns / 1e3 : 0.0, v.seconds.check, v.seconds.time, v.seconds.lane_overhead,
                  v.ok() ? "" : v.message.c_str());
    }
    for (const auto& [status, count] : statuses) std::printf("  %s %d\n", status.c_str(), count);
    const auto ahead = static_cast<size_t>(arguments_.ahead);
    if (answers.size() <= ahead || ahead == 0) return absl::InvalidArgumentError("--burst: more than --ahead, and that more than 0");
    Add("verifier.native.burst_ahead_per_s", static_cast<double>(ahead) / answers[ahead - 1].seconds, "1/s");
    Add("verifier.native.burst_beyond_per_s",
        static_cast<double>(answers.size() - ahead) / (answers.back().seconds - answers[ahead - 1].seconds), "1/s");
    Add("verifier.native.runner_ahead_mb", static_cast<double>(full_mb - empty_mb) / arguments_.ahead, "MB of the device's memory");
    return absl::OkStatus();
  }

  /// Built already, and each of a content of its own.
  absl::StatusOr<std::vector<VerifyRequest>> BurstRequests() {
    constexpr size_t kDistinct = 24;  // kernels
    constexpr int64_t kPart = 8;      // of the recorded shape
    std::vector<VerifyRequest> kernels;
    for (const RecordedSample& sample : samples_) {
      if (sample.verdict != "ok" || kernels.size() == kDistinct) continue;
      HONE_ASSIGN_OR_RETURN(VerifyRequest request, RequestFor(sample));
      Sizes& sizes = request.task.timing_gpu;
      if (sizes.empty()) continue;
      int64_t& largest = std::max_element(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->second;
      largest = std::max<int64_t>(1, largest / kPart);
      kernels.push_back(std::move(request));
    }
    if (kernels.empty()) return absl::InvalidArgumentError("no right answers among the samples");
    distinct_ = kernels.size();
    HONE_RETURN_IF_ERROR(client_->VerifyAll(kernels, [](size_t, const Verdict&) {}));
    std::vector<VerifyRequest> requests;
    for (int i = 0; i < arguments_.burst; ++i) {
      requests.push_back(kernels[static_cast<size_t>(i) % kernels.size()]);
      requests.back().protocol.run_timeout_ms += 1 + i;
    }
    return requests;
  }

  /// In use on the first GPU, as its driver tells; 0 where there is none.
  static int64_t DeviceMegabytes() {
    SpawnOptions spawn;
    spawn.argv = {"nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"};
    const absl::StatusOr<RunResult> result = hone::Run(spawn, absl::Seconds(10));
    int64_t megabytes = 0;
    return result.ok() && absl::SimpleAtoi(result->output.substr(0, result->output.find('\n')), &megabytes) ? megabytes : 0;
  }

  absl::Status MeasureCached() {
    HONE_ASSIGN_OR_RETURN(VerifyRequest request, RequestFor(samples_.front()));
    request.use_cache = true;
    HONE_RETURN_IF_ERROR(client_->Verify(request).status());
    std::vector<double> milliseconds;
    for (int i = 0; i < 500; ++i) {
      const SteadyTime start = SteadyTime::Now();
      HONE_ASSIGN_OR_RETURN(const Verdict verdict, client_->Verify(request));
      if (!verdict.from_cache) return absl::InternalError("a verdict that should be known is measured");
      milliseconds.push_back(absl::ToDoubleMilliseconds(SteadyTime::Now() - start));
    }
    Add("verifier.cached_ms_p50", Quantile(milliseconds, 0.5), "ms");
    return absl::OkStatus();
  }

  /// What the vendor's tools say about a faulty, a wrong and a right answer; nothing is recorded.
  absl::Status Observe() {
    for (const char* wanted : {"oob_write", "crash", "wrong", "ok"}) {
      const auto sample = std::find_if(samples_.begin(), samples_.end(), [&](const RecordedSample& s) { return s.verdict == wanted; });
      if (sample == samples_.end()) continue;
      HONE_ASSIGN_OR_RETURN(VerifyRequest request, RequestFor(*sample));
      request.protocol.baselines.clear();
      request.protocol.sanitize = request.protocol.profile = true;
      const SteadyTime start = SteadyTime::Now();
      HONE_ASSIGN_OR_RETURN(const Verdict verdict, client_->Verify(request));
      std::printf("  %s %s: %s %s in %.1f s\n%s\n", sample->task.c_str(), wanted, std::string(Name(verdict.status)).c_str(), verdict.message.c_str(),
                  absl::ToDoubleSeconds(SteadyTime::Now() - start), verdict.sanitizer_report.c_str());
      for (const RuleHit& hit : verdict.rules) std::printf("    %s: %s\n", hit.rule.c_str(), hit.evidence.c_str());
      for (const KernelProfile& k : verdict.profile) {
        std::printf("    %s: %ld launched, %.4g us, share %.2f, occupancy %.2f, %.4g bytes, %.4g flop, roofline %.2f\n", k.kernel.c_str(),
                    static_cast<long>(k.launches), k.time_ns / 1e3, k.share, k.occupancy, k.bytes, k.flop, k.roofline);
      }
      std::fflush(stdout);
    }
    return absl::OkStatus();
  }

  /// What the verdicts on one kernel said.
  struct Repeats {
    VerifyRequest request;
    std::vector<double> speedup, candidate_ns, baseline_ns, seconds, rounds;
    int calls = 0;
  };

  /// Right answers at parts of their recorded shape, so that they take 5 us to 20 ms, each judged again and again. All are
  /// judged a few times before any is judged more often: what is recorded when the time is over is about all of them.
  absl::Status MeasureRepeats() {
    HONE_ASSIGN_OR_RETURN(std::vector<Repeats> kernels, KernelsToRepeat());
    if (arguments_.gpus == 1) return RepeatShare(*client_, kernels, 0);
    client_.reset();
    server_.reset();
    screen_.clear();
    std::vector<absl::Status> ended(static_cast<size_t>(arguments_.gpus));
    std::vector<std::thread> threads;
    for (int gpu = 0; gpu < arguments_.gpus; ++gpu) {
      threads.emplace_back([&, gpu] { ended[static_cast<size_t>(gpu)] = RepeatOnGpu(kernels, gpu); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : ended) HONE_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  /// With a verifier of its own, on its share of the cores.
  absl::Status RepeatOnGpu(std::vector<Repeats>& kernels, int gpu) {
    const std::vector<int> all = AllowedCores();
    const size_t share = all.size() / static_cast<size_t>(arguments_.gpus);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(share * static_cast<size_t>(gpu));
    const ScopedCores cores(std::vector<int>(first, first + static_cast<std::ptrdiff_t>(share)));
    HONE_ASSIGN_OR_RETURN(const std::unique_ptr<LocalServer> server, StartServer(absl::StrCat(arguments_.device, ":", gpu), "off", ""));
    HONE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, ClientOf(*server));
    return RepeatShare(*client, kernels, gpu);
  }

  /// Every kernel whose number leaves `gpu`, divided by that of the GPUs.
  absl::Status RepeatShare(Client& client, std::vector<Repeats>& kernels, int gpu) {
    std::vector<Repeats*> mine;
    for (size_t i = static_cast<size_t>(gpu); i < kernels.size(); i += static_cast<size_t>(arguments_.gpus)) mine.push_back(&kernels[i]);
    HONE_RETURN_IF_ERROR(BuildAhead(client, mine));
    const SteadyTime until = started_ + absl::Seconds(arguments_.seconds);
    constexpr int kOfPass = 4;
    for (int done = 0; done < arguments_.repeats && SteadyTime::Now() < until; done += kOfPass) {
      for (Repeats* kernel : mine) {
        for (int i = done; i < std::min(done + kOfPass, arguments_.repeats) && SteadyTime::Now() < until; ++i) {
          HONE_RETURN_IF_ERROR(RepeatOnce(client, *kernel));
        }
      }
      absl::MutexLock lock(&mutex_);
      ReportRepeats(kernels);
      if (!arguments_.record.empty()) HONE_RETURN_IF_ERROR(RecordResults(arguments_.record, results_));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Repeats>> KernelsToRepeat() {
    std::vector<Repeats> kernels;
    for (const double scale : {1.0 / 2, 1.0 / 8, 1.0 / 32}) {
      std::set<std::string> taken;
      for (const RecordedSample& sample : samples_) {
        if (sample.verdict != "ok" || static_cast<int>(kernels.size()) >= arguments_.kernels) continue;
        if (!taken.insert(sample.task).second) continue;
        Repeats kernel;
        HONE_ASSIGN_OR_RETURN(kernel.request, RequestFor(sample));
        Sizes& sizes = kernel.request.task.timing_gpu;
        if (sizes.empty()) continue;
        const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
        int64_t& largest = std::max_element(sizes.begin(), sizes.end(), less)->second;
        largest = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(largest) * scale));
        kernel.request.protocol.check_variants = false;
        kernel.request.protocol.check_profiles = false;
        kernel.request.protocol.keep_samples = true;
        kernels.push_back(std::move(kernel));
      }
    }
    return kernels;
  }

  /// Compiles are no part of what repeats.
  static absl::Status BuildAhead(Client& client, const std::vector<Repeats*>& kernels) {
    std::vector<VerifyRequest> requests;
    for (const Repeats* kernel : kernels) {
      requests.push_back(kernel->request);
      requests.back().protocol.baselines.clear();
    }
    return client.VerifyAll(requests, [](size_t, const Verdict&) {});
  }

  absl::Status RepeatOnce(Client& client, Repeats& kernel) {
    HONE_ASSIGN_OR_RETURN(const Verdict verdict, client.Verify(kernel.request));
    absl::MutexLock lock(&mutex_);
    const Timing* timing = verdict.speed();
    if (!verdict.ok() || timing == nullptr) {
      std::printf("  %s %s: %s %s\n", kernel.request.task.id.c_str(), FormatSizes(kernel.request.task.timing_gpu).c_str(),
                  std::string(Name(verdict.status)).c_str(), verdict.message.c_str());
      return absl::OkStatus();
    }
    std::printf("    %s %s: %.5gx, %.5g us against %.5g us, rounds differ by %.2f %%, %d of %d calls, check %.3f time %.3f overhead %.3f s\n",
                kernel.request.task.id.c_str(), FormatSizes(kernel.request.task.timing_gpu).c_str(), timing->speedup.median,
                timing->candidate_ns / 1e3, timing->baseline_ns / 1e3, 100 * CoefficientOfVariation(timing->samples),
                timing->speedup.samples, timing->calls_per_round, verdict.seconds.check, verdict.seconds.time,
                verdict.seconds.lane_overhead);
    std::fflush(stdout);
    kernel.speedup.push_back(timing->speedup.median);
    kernel.candidate_ns.push_back(timing->candidate_ns);
    kernel.baseline_ns.push_back(timing->baseline_ns);
    kernel.seconds.push_back(verdict.seconds.time);
    kernel.rounds.push_back(timing->speedup.samples);
    kernel.calls = timing->calls_per_round;
    return absl::OkStatus();
  }

  void ReportRepeats(const std::vector<Repeats>& kernels) {
    std::vector<double> spread, repeats;
    for (const Repeats& kernel : kernels) {
      if (kernel.speedup.size() < 2) continue;
      spread.push_back(100 * CoefficientOfVariation(kernel.speedup));
      repeats.push_back(static_cast<double>(kernel.speedup.size()));
      std::printf("  %s %s: %.4g us, %.4gx, CV %.3f %% (candidate %.3f %%, baseline %.3f %%), %.0f rounds of %d calls, %.2f s\n",
                  kernel.request.task.id.c_str(), FormatSizes(kernel.request.task.timing_gpu).c_str(),
                  Quantile(kernel.candidate_ns, 0.5) / 1e3, Quantile(kernel.speedup, 0.5), spread.back(),
                  100 * CoefficientOfVariation(kernel.candidate_ns), 100 * CoefficientOfVariation(kernel.baseline_ns),
                  Quantile(kernel.rounds, 0.5), kernel.calls, Quantile(kernel.seconds, 0.5));
    }
    if (spread.empty()) return;
    Add("verifier.speedup_cv_p50", Quantile(spread, 0.5), "%");
    Add("verifier.speedup_cv_p90", Quantile(spread, 0.9), "%");
    Add("verifier.speedup_cv_kernels", static_cast<double>(spread.size()), "kernels");
    Add("verifier.speedup_cv_repeats", Quantile(repeats, 0), "verdicts of each kernel, at least");
  }

  const Arguments arguments_;
  const SteadyTime started_ = SteadyTime::Now();
  std::vector<RecordedSample> samples_;
  std::map<std::string, Signature> signatures_;
  std::string screen_;  // of the server
  std::unique_ptr<LocalServer> server_;
  std::unique_ptr<Client> client_;
  std::vector<BenchResult> results_;
  int ahead_ = 0;  // runners that the server's idle lane starts
  size_t distinct_ = 1;  // kernels of a burst
  int64_t fresh_ = 0;
  std::atomic<int> servers_ = 0;
  absl::Mutex mutex_;  // of results and standard output, while GPUs are measured at the same time
};

int Main(int argc, char** argv) {
  CLI::App app{"Measures the verifier on a GPU"};
  Arguments arguments;
  app.add_option("samples", arguments.samples, "Recorded answers, .jsonl")->required();
  app.add_option("--what", arguments.what, "screened, unscreened, lane, burst, cached, cv, observe")->delimiter(',');
  app.add_option("--device", arguments.device, "cuda, or cpu to try the program out");
  app.add_option("--python", arguments.python, "Interpreter with torch");
  app.add_option("--sandbox", arguments.sandbox, "bubblewrap or none; default: as the verifier chooses");
  app.add_option("--log", arguments.log, "Path of the verifiers' logs, numbered");
  app.add_option("--record", arguments.record, "results.json to put the figures into");
  app.add_option("--commit", arguments.commit, "What is measured");
  app.add_option("--machine", arguments.machine, "Where");
  app.add_option("--kernels", arguments.kernels, "cv: how many");
  app.add_option("--repeats", arguments.repeats, "cv: verdicts of each");
  app.add_option("--gpus", arguments.gpus, "cv: that share the kernels, each with a verifier of its own")->check(CLI::Range(1, 8));
  app.add_option("--seconds", arguments.seconds, "cv: time since the program's start; what is not measured by then is left out");
  app.add_option("--lane-candidates", arguments.lane_candidates, "lane: how many");
  app.add_option("--burst", arguments.burst, "burst: candidates");
  app.add_option("--ahead", arguments.ahead, "burst: runners that the lane starts in the pause before; fewer than candidates");
  app.add_option("--port", arguments.port, "Of the verifiers' metrics");
  app.add_option("--set", arguments.set, "key=value for the verifier")->type_size(1)->allow_extra_args(false);
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = DeviceBench(std::move(arguments)).Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "device_bench: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace hone::verifier

int main(int argc, char** argv) { return hone::verifier::Main(argc, argv); }
