#include "verifier/service/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <exception>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace hone::verifier {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// From a cached answer (1 ms) to a candidate that spends every limit (10 min).
prometheus::Histogram::BucketBoundaries SecondsBuckets() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600};
}

ClientMetric GaugeOf(double value, std::vector<ClientMetric::Label> labels = {}) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = value;
  return metric;
}

MetricFamily GaugeFamily(const char* name, const char* help, std::vector<ClientMetric> metrics) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = MetricType::Gauge;
  family.metric = std::move(metrics);
  return family;
}

/// Read when scraped.
class Depths final : public prometheus::Collectable {
 public:
  Depths(const Queue& queue, const ResultCache& cache) : queue_(queue), cache_(cache) {}

  std::vector<MetricFamily> Collect() const override {
    const QueueStats stats = queue_.Stats();
    std::vector<ClientMetric> jobs;
    for (const auto& [kind, counts] : stats.kinds) {
      jobs.push_back(GaugeOf(static_cast<double>(counts.waiting), {{"kind", kind}, {"state", "waiting"}}));
      jobs.push_back(GaugeOf(static_cast<double>(counts.leased), {{"kind", kind}, {"state", "leased"}}));
    }
    return {
        GaugeFamily("hone_queue_up", "1 while the queue can be reached.", {GaugeOf(stats.trouble.empty() ? 1 : 0)}),
        GaugeFamily("hone_queue_jobs", "Jobs in the queue by kind and state.", std::move(jobs)),
        GaugeFamily("hone_queue_bytes", "Bytes against the queue's budget.", {GaugeOf(static_cast<double>(stats.bytes))}),
        GaugeFamily("hone_queue_limit_bytes", "The queue's budget.", {GaugeOf(static_cast<double>(stats.limit_bytes))}),
        GaugeFamily("hone_queue_dead_letters", "Jobs given up after all tries.", {GaugeOf(static_cast<double>(stats.dead))}),
        GaugeFamily("hone_result_cache_entries", "Verdicts kept.", {GaugeOf(static_cast<double>(cache_.entries()))}),
        GaugeFamily("hone_result_cache_bytes", "Bytes of verdicts kept.", {GaugeOf(static_cast<double>(cache_.bytes()))}),
    };
  }

 private:
  const Queue& queue_;
  const ResultCache& cache_;
};

constexpr std::array<const char*, 4> kLaneStates = {"down", "idle", "busy", "quarantined"};
constexpr std::array<const char*, 3> kCacheUses = {"hit", "miss", "bypass"};
constexpr std::array<const char*, 4> kPhases = {"queue", "build", "check", "time"};

}  // namespace

struct Metrics::State {
  State(const Queue& queue, const ResultCache& cache) : depths(std::make_shared<Depths>(queue, cache)) {
    for (size_t i = 0; i < kCacheUses.size(); ++i) {
      requests[i] = &request_family.Add({{"cache", kCacheUses[i]}}, SecondsBuckets());
    }
    for (size_t i = 0; i < kPhases.size(); ++i) {
      phases[i] = &phase_family.Add({{"phase", kPhases[i]}}, SecondsBuckets());
    }
  }

  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  std::shared_ptr<Depths> depths;
  prometheus::Family<prometheus::Counter>& verdicts = prometheus::BuildCounter()
      .Name("hone_verdicts_total").Help("Verdicts by status and device, cached ones left out.").Register(*registry);
  prometheus::Family<prometheus::Histogram>& phase_family = prometheus::BuildHistogram()
      .Name("hone_phase_seconds").Help("Seconds a candidate spent in a phase.").Register(*registry);
  prometheus::Family<prometheus::Histogram>& request_family = prometheus::BuildHistogram()
      .Name("hone_request_seconds").Help("Seconds from a request's arrival to its answer.").Register(*registry);
  prometheus::Family<prometheus::Counter>& failures = prometheus::BuildCounter()
      .Name("hone_failed_tries_total").Help("Tries that failed on the verifier's side, by stage.").Register(*registry);
  prometheus::Family<prometheus::Gauge>& lanes = prometheus::BuildGauge()
      .Name("hone_lane_state").Help("1 for the state a lane is in.").Register(*registry);
  prometheus::Family<prometheus::Counter>& lane_starts = prometheus::BuildCounter()
      .Name("hone_lane_starts_total").Help("Starts of a lane's process.").Register(*registry);
  prometheus::Family<prometheus::Counter>& lane_seconds = prometheus::BuildCounter()
      .Name("hone_lane_seconds_total").Help("Seconds of a lane: busy, or late for a job that waited.").Register(*registry);
  prometheus::Family<prometheus::Gauge>& runners = prometheus::BuildGauge()
      .Name("hone_runners_ahead").Help("Candidate runners that stood ready when a lane's last job came.").Register(*registry);
  prometheus::Family<prometheus::Counter>& runner_waits = prometheus::BuildCounter()
      .Name("hone_runner_wait_seconds_total").Help("Seconds that jobs waited for candidate runners to start or to end.").Register(*registry);
  prometheus::Family<prometheus::Counter>& screened = prometheus::BuildCounter()
      .Name("hone_screened_total").Help("Candidates of a GPU that the CPU screen looked at, by outcome.").Register(*registry);
  std::array<prometheus::Histogram*, 3> requests;
  std::array<prometheus::Histogram*, 4> phases;
  absl::Mutex mutex;
  std::map<std::string, std::array<prometheus::Gauge*, kLaneStates.size()>> lane_gauges ABSL_GUARDED_BY(mutex);
  std::unique_ptr<prometheus::Exposer> exposer;  // last: stops serving before the rest goes
};

Metrics::Metrics(const Queue& queue, const ResultCache& cache) : state_(std::make_unique<State>(queue, cache)) {}
Metrics::~Metrics() = default;

void Metrics::CountVerdict(const Verdict& verdict) {
  state_->verdicts.Add({{"status", std::string(Name(verdict.status))}, {"device", verdict.device}}).Increment();
  const PhaseSeconds& seconds = verdict.seconds;
  const std::array<double, 4> spent = {seconds.queue, seconds.build, seconds.check, seconds.time};
  for (size_t i = 0; i < spent.size(); ++i) state_->phases[i]->Observe(spent[i]);
}

void Metrics::CountRequest(CacheUse use, double seconds) {
  state_->requests[static_cast<size_t>(use)]->Observe(seconds);
}

void Metrics::CountFailure(absl::string_view stage) {
  state_->failures.Add({{"stage", std::string(stage)}}).Increment();
}

void Metrics::CountLaneTime(const std::string& name, double busy, double late) {
  state_->lane_seconds.Add({{"lane", name}, {"what", "busy"}}).Increment(busy);
  state_->lane_seconds.Add({{"lane", name}, {"what", "late"}}).Increment(late);
}

void Metrics::CountRunners(const std::string& name, int ahead, double waited) {
  state_->runners.Add({{"lane", name}}).Set(ahead);
  state_->runner_waits.Add({{"lane", name}}).Increment(waited);
}

void Metrics::CountScreen(absl::string_view outcome) {
  state_->screened.Add({{"outcome", std::string(outcome)}}).Increment();
}

void Metrics::SetLane(const std::string& name, LaneState state) {
  absl::MutexLock lock(&state_->mutex);
  auto [found, added] = state_->lane_gauges.try_emplace(name);
  for (size_t i = 0; i < kLaneStates.size(); ++i) {
    if (added) found->second[i] = &state_->lanes.Add({{"lane", name}, {"state", kLaneStates[i]}});
    found->second[i]->Set(i == static_cast<size_t>(state) ? 1 : 0);
  }
}

void Metrics::CountLaneStart(const std::string& name) { state_->lane_starts.Add({{"lane", name}}).Increment(); }

absl::Status Metrics::Serve(const std::string& address) {
  try {
    state_->exposer = std::make_unique<prometheus::Exposer>(address, 1);
    state_->exposer->RegisterCollectable(state_->registry);
    state_->exposer->RegisterCollectable(state_->depths);
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(absl::StrCat("metrics: cannot listen on ", address, ": ", error.what()));
  }
}

std::string Metrics::Text() const {
  std::vector<MetricFamily> families = state_->registry->Collect();
  for (MetricFamily& family : state_->depths->Collect()) families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace hone::verifier
