#pragma once

// Reports as one self-contained HTML file, readable in light and dark and on paper, with charts as inline SVG: no
// scripts, no fonts, nothing fetched. All text is escaped; what a policy wrote cannot become markup.
//
//   HtmlReport report("quickstart", "CPU emulation: speeds say nothing about a GPU");
//   report.Section("Reward");
//   report.Figure(LineChart({.x_label = "step", .y_label = "reward"}, {series}), "Mean reward of a step.");
//   report.Table({{"task", "verdict", "speedup"}, {Align::kLeft, Align::kLeft, Align::kRight}, rows});
//   HONE_RETURN_IF_ERROR(WriteFileAtomically(path, report.Html()));

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone {

/// Text for use inside HTML elements and attributes. Control characters that HTML forbids become U+FFFD.
std::string EscapeHtml(absl::string_view text);

// ---- Charts. Points that are not finite (or, on a logarithmic axis, not positive) are left out. ----

/// A drawn SVG; only the functions below make one.
class Svg {
 public:
  const std::string& text() const { return text_; }

 private:
  friend class SvgCanvas;
  explicit Svg(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

struct ChartOptions {
  std::string x_label;
  std::string y_label;
  bool log_x = false;
  bool log_y = false;
  int width = 640;  // CSS pixels
  int height = 260;
};

/// A line with an optional band. x, y, low, high have the same length; low and high may be empty.
struct LineSeries {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> low;
  std::vector<double> high;
};
Svg LineChart(const ChartOptions& options, const std::vector<LineSeries>& series);

/// Values of one series over all categories, with optional intervals. Bars start at 0 (log_y: at the axis' end).
struct BarSeries {
  std::string name;
  std::vector<double> values;  // [categories]
  std::vector<double> low;     // [categories] or empty
  std::vector<double> high;    // [categories] or empty
};
enum class BarMode { kGrouped, kStacked };  // stacked: parts of a whole, values >= 0, no intervals
Svg BarChart(const ChartOptions& options, const std::vector<std::string>& categories,
             const std::vector<BarSeries>& series, BarMode mode = BarMode::kGrouped);

/// Distributions of several samples over common bins (equal ratios with log_x), as shares of each sample.
struct Sample {
  std::string name;
  std::vector<double> values;
};
Svg Histogram(const ChartOptions& options, const std::vector<Sample>& samples, int bins = 30);

// ---- The page. ----

enum class Align { kLeft, kRight };

struct HtmlTable {
  std::vector<std::string> columns;
  std::vector<Align> align;                    // [columns], or empty: all left
  std::vector<std::vector<std::string>> rows;  // [rows][columns]
};

/// Parts appear in the order of the calls.
class HtmlReport {
 public:
  HtmlReport(absl::string_view title, absl::string_view subtitle);

  void Section(absl::string_view title);
  void Paragraph(absl::string_view text);
  /// A paragraph that a reader must not miss.
  void Warning(absl::string_view text);
  /// Figures that sum up the page: {"held-out correct", "0.71 to 0.90"}.
  void Facts(const std::vector<std::pair<std::string, std::string>>& facts);
  void Table(const HtmlTable& table);
  void Figure(const Svg& svg, absl::string_view caption);
  /// Source text or logs; `open` false folds it behind its caption.
  void Code(absl::string_view caption, absl::string_view text, bool open = true);

  std::string Html() const;

 private:
  std::string title_;
  std::string subtitle_;
  std::string body_;
};

}  // namespace hone
