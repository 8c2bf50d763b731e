#include "base/metrics_page.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cctype>
#include <cmath>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/status_macros.h"

namespace hone {
namespace {

using prometheus::MetricFamily;

// Names whose last part is one of many values of the same thing.
constexpr const char* kLabelled[] = {"verdict", "speedup", "reward/part", "seconds"};

std::string Identifier(const std::string& name) {
  std::string out = "hone_run_";
  for (const char c : name) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return out;
}

class Figures : public prometheus::Collectable {
 public:
  void Set(int64_t step, const std::map<std::string, double>& values) {
    const std::lock_guard lock(mutex_);
    values_ = values;
    values_["step"] = static_cast<double>(step);
  }

  std::vector<MetricFamily> Collect() const override {
    const std::lock_guard lock(mutex_);
    std::map<std::string, MetricFamily> families;
    for (const auto& [name, value] : values_) {
      if (std::isfinite(value)) Add(name, value, families);
    }
    std::vector<MetricFamily> out;
    for (auto& [name, family] : families) out.push_back(std::move(family));
    return out;
  }

 private:
  static void Add(const std::string& name, double value, std::map<std::string, MetricFamily>& families) {
    const size_t slash = name.rfind('/');
    const std::string head = slash == std::string::npos ? "" : name.substr(0, slash);
    prometheus::ClientMetric metric;
    metric.gauge.value = value;
    std::string family = name;
    for (const char* labelled : kLabelled) {
      if (head != labelled) continue;
      family = head;
      metric.label = {{"kind", name.substr(slash + 1)}};
    }
    MetricFamily& to = families[family];
    to.name = Identifier(family);
    to.help = absl::StrCat(family, metric.label.empty() ? "" : "/<kind>", " of the newest step");
    to.type = prometheus::MetricType::Gauge;
    to.metric.push_back(std::move(metric));
  }

  mutable std::mutex mutex_;
  std::map<std::string, double> values_;
};

}  // namespace

struct MetricsPage::State {
  std::shared_ptr<Figures> figures = std::make_shared<Figures>();  // shared with the exposer, which looks weakly
  std::unique_ptr<prometheus::Exposer> exposer;
};

MetricsPage::MetricsPage(std::unique_ptr<State> state) : state_(std::move(state)) {}
MetricsPage::~MetricsPage() = default;

absl::StatusOr<std::unique_ptr<MetricsPage>> MetricsPage::Serve(const std::string& address) {
  HONE_RETURN_IF_ERROR(CheckAddressFree("metrics", address));
  auto state = std::make_unique<State>();
  try {
    state->exposer = std::make_unique<prometheus::Exposer>(address, 1);
    state->exposer->RegisterCollectable(state->figures);
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(absl::StrCat("metrics: cannot listen on ", address, ": ", error.what()));
  }
  return std::unique_ptr<MetricsPage>(new MetricsPage(std::move(state)));
}

void MetricsPage::Set(int64_t step, const std::map<std::string, double>& values) { state_->figures->Set(step, values); }

std::string MetricsPage::Text() const { return prometheus::TextSerializer().Serialize(state_->figures->Collect()); }

}  // namespace hone
