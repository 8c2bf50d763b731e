#include "verifier/lane/tool_reports.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/strings.h"

namespace hone::verifier {
namespace {

// Besides time and warps: traffic of the memory, scalar arithmetic by width, and how much of the peak of either was used.
constexpr char kTime[] = "gpu__time_duration.sum";
constexpr char kWarps[] = "sm__warps_active.avg.pct_of_peak_sustained_active";
constexpr char kBytes[] = "dram__bytes.sum";
constexpr char kMemoryPeak[] = "dram__throughput.avg.pct_of_peak_sustained_elapsed";
constexpr char kArithmeticPeak[] = "sm__throughput.avg.pct_of_peak_sustained_elapsed";

constexpr size_t kMaxKernels = 64;
constexpr size_t kNameBytes = 300;
constexpr double kLargest = 1e18;  // of any number: sums of them stay finite

/// Metrics that count floating-point instructions, with the operations of one.
std::vector<std::pair<std::string, double>> ArithmeticMetrics() {
  std::vector<std::pair<std::string, double>> metrics;
  for (const char* width : {"h", "f", "d"}) {
    for (const auto& [operation, flop] : {std::pair("add", 1.0), std::pair("mul", 1.0), std::pair("fma", 2.0)}) {
      metrics.emplace_back(absl::StrCat("sm__sass_thread_inst_executed_op_", width, operation, "_pred_on.sum"), flop);
    }
  }
  return metrics;
}

/// One line of comma-separated values; quotes may surround a value.
std::vector<std::string> SplitCsv(absl::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

/// "sum<int>(float*)" without what stands in the outer parentheses.
std::string WithoutParameters(const std::string& name) {
  const size_t end = name.rfind('(');
  return ToUtf8(name.substr(0, std::min(end == 0 ? std::string::npos : end, kNameBytes)));
}

std::string FirstLineWith(absl::string_view output, absl::string_view word) {
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    if (absl::StrContains(line, word)) return ToUtf8(absl::StripAsciiWhitespace(line).substr(0, kNameBytes));
  }
  return "";
}

/// The table's first line.
class Header {
 public:
  explicit Header(const std::vector<std::string>& names) : width_(names.size()) {
    for (size_t i = 0; i < names.size(); ++i) columns_[names[i]] = i;
  }

  /// Whether a line has a field for each column, and the table says what kernels are called and how long they took.
  bool Fits(const std::vector<std::string>& fields) const {
    return fields.size() >= width_ && columns_.count("Kernel Name") > 0 && columns_.count(kTime) > 0;
  }
  std::string Text(const std::string& column, const std::vector<std::string>& fields) const {
    const auto found = columns_.find(column);
    return found == columns_.end() ? "" : fields[found->second];
  }
  /// 0 for what is no number, or none that a metric can have.
  double Number(const std::string& column, const std::vector<std::string>& fields) const {
    double value = 0;
    if (!absl::SimpleAtod(absl::StrReplaceAll(Text(column, fields), {{",", ""}}), &value)) return 0;
    return value >= 0 && value <= kLargest ? value : 0;
  }

 private:
  const size_t width_;
  std::map<std::string, size_t> columns_;
};

/// Occupancy and roofline are sums over time until Summarise.
void AddLaunch(const Header& header, const std::vector<std::string>& fields, KernelProfile& kernel) {
  const auto number = [&](const std::string& column) { return header.Number(column, fields); };
  const double ns = number(kTime);
  ++kernel.launches;
  kernel.time_ns += ns;
  kernel.bytes += number(kBytes);
  for (const auto& [metric, flop] : ArithmeticMetrics()) kernel.flop += flop * number(metric);
  kernel.occupancy += ns * number(kWarps) / 100;
  kernel.roofline += ns * std::max(number(kMemoryPeak), number(kArithmeticPeak)) / 100;
}

/// Of several launches the mean over their time.
std::vector<KernelProfile> Summarise(const std::map<std::string, KernelProfile>& kernels) {
  double total_ns = 0;
  for (const auto& [name, kernel] : kernels) total_ns += kernel.time_ns;
  std::vector<KernelProfile> profile;
  for (const auto& [name, summed] : kernels) {
    KernelProfile kernel = summed;
    kernel.kernel = name;
    if (kernel.time_ns > 0) {
      kernel.occupancy = std::min(1.0, kernel.occupancy / kernel.time_ns);
      kernel.roofline = std::min(1.0, kernel.roofline / kernel.time_ns);
      kernel.share = kernel.time_ns / total_ns;
    }
    profile.push_back(kernel);
  }
  std::stable_sort(profile.begin(), profile.end(),
                   [](const KernelProfile& a, const KernelProfile& b) { return a.time_ns > b.time_ns; });
  return profile;
}

}  // namespace

std::string TrimSanitizerReport(absl::string_view output, size_t limit) {
  std::string report;
  bool found = false;
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    if (!absl::ConsumePrefix(&line, "=========")) continue;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || absl::StartsWith(line, "COMPUTE-SANITIZER") || absl::StartsWith(line, "Host Frame") ||
        absl::StrContains(line, "backtrace") || absl::StartsWith(line, "Target application")) {
      continue;
    }
    const bool summary = absl::StrContains(line, "SUMMARY");
    if (summary && !found) return "";
    found = found || !summary;
    const std::string text = ToUtf8(absl::StrReplaceAll(line, {{absl::StrCat(kCallFolder, "/"), ""}}));
    if (report.size() + text.size() + 1 > limit) break;
    absl::StrAppend(&report, report.empty() ? "" : "\n", text);
  }
  return found ? report : "";
}

std::vector<std::string> ProfiledMetrics() {
  std::vector<std::string> metrics = {kTime, kWarps, kBytes, kMemoryPeak, kArithmeticPeak};
  for (const auto& [metric, flop] : ArithmeticMetrics()) metrics.push_back(metric);
  return metrics;
}

absl::StatusOr<std::vector<KernelProfile>> ParseProfile(absl::string_view output) {
  if (const std::string error = FirstLineWith(output, "==ERROR=="); !error.empty()) {
    return absl::UnavailableError(absl::StrCat("the profiler: ", error));
  }
  std::optional<Header> header;
  std::map<std::string, KernelProfile> kernels;
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    const std::vector<std::string> fields = SplitCsv(absl::StripAsciiWhitespace(line));
    if (!header) {
      if (fields[0] == "ID") header.emplace(fields);
      continue;
    }
    int64_t id = 0;
    if (!header->Fits(fields) || !absl::SimpleAtoi(fields[0], &id)) continue;  // the line of units
    const std::string name = WithoutParameters(header->Text("Kernel Name", fields));
    if (kernels.count(name) > 0 || kernels.size() < kMaxKernels) AddLaunch(*header, fields, kernels[name]);
  }
  if (!header) return absl::InternalError(absl::StrCat("the profiler printed no table: ", ToUtf8(output.substr(0, kNameBytes))));
  return Summarise(kernels);
}

}  // namespace hone::verifier
