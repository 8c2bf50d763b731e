// The charts of html_report.h. Colours are classes of the page's style sheet: k<n> strokes and f<n> fills of series n.

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/html_report.h"
#include "base/status_macros.h"

namespace hone {

/// Collects the elements of one drawing.
class SvgCanvas {
 public:
  SvgCanvas(const ChartOptions& options, absl::string_view kind) {
    absl::StrAppend(&text_, "<svg viewBox=\"0 0 ", options.width, " ", options.height, "\" width=\"", options.width,
                    "\" height=\"", options.height, "\" role=\"img\" aria-label=\"",
                    EscapeHtml(absl::StrCat(kind, " of ", options.y_label, " over ", options.x_label)), "\">\n");
  }

  void Line(double x1, double y1, double x2, double y2, absl::string_view css) {
    absl::StrAppendFormat(&text_, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2,
                          y2, css);
  }
  /// `title` shows when the pointer rests on it.
  void Rect(double x, double y, double width, double height, absl::string_view css, absl::string_view title) {
    absl::StrAppendFormat(&text_,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"%s\"><title>%s</title>"
                          "</rect>\n",
                          x, y, width, height, css, EscapeHtml(title));
  }
  void Dot(double x, double y, absl::string_view css, absl::string_view title) {
    absl::StrAppendFormat(&text_, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" class=\"%s\"><title>%s</title></circle>\n",
                          x, y, css, EscapeHtml(title));
  }
  void Text(double x, double y, absl::string_view anchor, absl::string_view text) {
    absl::StrAppendFormat(&text_, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor,
                          EscapeHtml(text));
  }
  /// `points`: in pixels. `element`: "polyline" or "polygon".
  void Points(absl::string_view element, const std::vector<std::pair<double, double>>& points, absl::string_view css) {
    if (points.empty()) return;
    absl::StrAppend(&text_, "<", element, " points=\"");
    for (const auto& [x, y] : points) absl::StrAppendFormat(&text_, "%.1f,%.1f ", x, y);
    text_.back() = '"';
    absl::StrAppend(&text_, " class=\"", css, "\"/>\n");
  }

  Svg Done() && { return Svg(text_ + "</svg>\n"); }

 private:
  std::string text_;
};

namespace {

constexpr int kColours = 8;
constexpr double kLeft = 62, kRight = 12, kTop = 30, kBottom = 42;  // margins in pixels
constexpr double kLargest = 1e150;
constexpr double kCharacterPixels = 6.5;                            // about, at 12 px

std::string Stroke(size_t series, absl::string_view more = "") { return absl::StrCat("k", series % kColours, more); }
std::string Fill(size_t series, absl::string_view more = "") { return absl::StrCat("f", series % kColours, more); }

std::string Number(double value) { return absl::StrFormat("%.4g", value); }

/// One axis: data to pixels, and where its ticks are.
class Axis {
 public:
  Axis(bool logarithmic, double first_pixel, double last_pixel)
      : logarithmic_(logarithmic), first_pixel_(first_pixel), last_pixel_(last_pixel) {}

  /// Beyond 1e150 differences and ratios overflow, and nobody reads the chart.
  bool Shows(double value) const {
    return std::abs(value) <= kLargest && (logarithmic_ ? value >= 1 / kLargest : !std::isnan(value));
  }
  void Include(double value) {
    if (!Shows(value)) return;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  /// After all Include: rounds the range outwards to ticks where `round`, and chooses ticks.
  void Settle(bool round) {
    if (!(low_ <= high_)) {
      low_ = logarithmic_ ? 1 : 0;
      high_ = logarithmic_ ? 10 : 1;
    }
    if (logarithmic_ ? low_ == high_ : high_ - low_ < 1 / kLargest) Widen();
    if (logarithmic_) {
      SettleLogarithmic(round);
    } else {
      SettleLinear(round);
    }
  }

  double Pixel(double value) const {
    const double share =
        logarithmic_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return first_pixel_ + share * (last_pixel_ - first_pixel_);
  }
  double low() const { return low_; }
  double high() const { return high_; }
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  void Widen() {
    if (logarithmic_) {
      low_ /= 2;
      high_ *= 2;
    } else {
      const double margin = std::abs(low_) < 1 / kLargest ? 1 : std::abs(low_) / 2;
      low_ -= margin;
      high_ += margin;
    }
  }
  void SettleLinear(bool round) {
    // The step is 1, 2 or 5 times a power of ten, for about five intervals.
    const double raw = (high_ - low_) / 5;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    const double lead = raw / power;
    const double step = (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10) * power;
    if (round) {
      low_ = std::floor(low_ / step + 1e-9) * step;
      high_ = std::ceil(high_ / step - 1e-9) * step;
    }
    const auto first = static_cast<int64_t>(std::ceil(low_ / step - 1e-9));
    const auto last = static_cast<int64_t>(std::floor(high_ / step + 1e-9));
    for (int64_t i = first; i <= last; ++i) ticks_.push_back(static_cast<double>(i) * step);
  }
  void SettleLogarithmic(bool round) {
    const double decades = std::log10(high_ / low_);
    const std::vector<double> leads = decades > 3 ? std::vector<double>{1} : std::vector<double>{1, 2, 5};
    const int first = static_cast<int>(std::floor(std::log10(low_))),
              last = static_cast<int>(std::ceil(std::log10(high_)));
    const int skip = std::max(1, (last - first) / 8);
    std::vector<double> all;
    for (int power = first; power <= last; power += skip) {
      for (const double lead : leads) all.push_back(lead * std::pow(10, power));
    }
    if (round) {
      for (const double tick : all) {
        if (tick >= high_ * (1 - 1e-9)) {
          high_ = tick;
          break;
        }
      }
      for (auto tick = all.rbegin(); tick != all.rend(); ++tick) {
        if (*tick <= low_ * (1 + 1e-9)) {
          low_ = *tick;
          break;
        }
      }
    }
    for (const double tick : all) {
      if (tick >= low_ * (1 - 1e-9) && tick <= high_ * (1 + 1e-9)) ticks_.push_back(tick);
    }
  }

  const bool logarithmic_;
  const double first_pixel_;
  const double last_pixel_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
  std::vector<double> ticks_;
};

Axis XAxis(const ChartOptions& options) { return Axis(options.log_x, kLeft, options.width - kRight); }
Axis YAxis(const ChartOptions& options) { return Axis(options.log_y, options.height - kBottom, kTop); }

void DrawYAxis(const ChartOptions& options, const Axis& y, SvgCanvas& canvas) {
  for (const double tick : y.ticks()) {
    canvas.Line(kLeft, y.Pixel(tick), options.width - kRight, y.Pixel(tick), "grid");
    canvas.Text(kLeft - 6, y.Pixel(tick) + 4, "end", Number(tick));
  }
  canvas.Text(4, 13, "start", options.y_label);
}

void DrawXLabel(const ChartOptions& options, SvgCanvas& canvas) {
  canvas.Text((kLeft + options.width - kRight) / 2, options.height - 6, "middle", options.x_label);
}

void DrawXAxis(const ChartOptions& options, const Axis& x, SvgCanvas& canvas) {
  for (const double tick : x.ticks()) {
    canvas.Line(x.Pixel(tick), options.height - kBottom, x.Pixel(tick), options.height - kBottom + 4, "grid");
    canvas.Text(x.Pixel(tick), options.height - kBottom + 17, "middle", Number(tick));
  }
  DrawXLabel(options, canvas);
}

/// About how wide a text is drawn.
double TextPixels(const std::string& text) {
  double pixels = 0;
  for (const char c : text) pixels += absl::ascii_isupper(c) || c == '_' ? 1.35 * kCharacterPixels : kCharacterPixels;
  return pixels;
}

/// Names in a row at the upper right; none for a single series without a name.
void DrawLegend(const ChartOptions& options, const std::vector<std::string>& names, SvgCanvas& canvas) {
  double x = options.width - kRight;
  for (size_t i = names.size(); i-- > 0;) {
    if (names[i].empty()) continue;
    x -= TextPixels(names[i]);
    canvas.Text(x, 13, "start", names[i]);
    x -= 14;
    canvas.Rect(x, 4, 10, 10, Fill(i), names[i]);
    x -= 12;
  }
}

template <class Series>
std::vector<std::string> Names(const std::vector<Series>& series) {
  std::vector<std::string> names;
  for (const Series& one : series) names.push_back(one.name);
  return names;
}

void DrawLineSeries(const LineSeries& line, size_t index, const Axis& x, const Axis& y, SvgCanvas& canvas) {
  std::vector<std::pair<double, double>> points, band, below;
  for (size_t i = 0; i < line.x.size(); ++i) {
    if (!x.Shows(line.x[i])) continue;
    if (y.Shows(line.y[i])) points.emplace_back(x.Pixel(line.x[i]), y.Pixel(line.y[i]));
    if (line.low.empty() || !y.Shows(line.low[i]) || !y.Shows(line.high[i])) continue;
    band.emplace_back(x.Pixel(line.x[i]), y.Pixel(line.high[i]));
    below.emplace_back(x.Pixel(line.x[i]), y.Pixel(line.low[i]));
  }
  band.insert(band.end(), below.rbegin(), below.rend());
  canvas.Points("polygon", band, Fill(index, " band"));
  canvas.Points("polyline", points, Stroke(index, " line"));
  constexpr size_t kMaxDots = 60;  // more of them hide the line
  if (points.size() > kMaxDots) return;
  for (size_t i = 0; i < line.x.size(); ++i) {
    if (!x.Shows(line.x[i]) || !y.Shows(line.y[i])) continue;
    canvas.Dot(x.Pixel(line.x[i]), y.Pixel(line.y[i]), Fill(index),
               absl::StrCat(line.name, " ", Number(line.x[i]), ": ", Number(line.y[i])));
  }
}

/// Where the bars of one category stand.
struct Slot {
  double left;
  double width;
};

Slot CategorySlot(const ChartOptions& options, size_t category, size_t categories) {
  const double width = (options.width - kLeft - kRight) / static_cast<double>(std::max<size_t>(1, categories));
  return {kLeft + width * (static_cast<double>(category) + 0.1), width * 0.8};
}

void DrawCategories(const ChartOptions& options, const std::vector<std::string>& categories, SvgCanvas& canvas) {
  for (size_t i = 0; i < categories.size(); ++i) {
    const Slot slot = CategorySlot(options, i, categories.size());
    const size_t room = static_cast<size_t>(std::max(1.0, slot.width * 1.25 / kCharacterPixels));
    const std::string shown =
        categories[i].size() <= room ? categories[i] : categories[i].substr(0, room - 1) + "\xE2\x80\xA6";
    canvas.Text(slot.left + slot.width / 2, options.height - kBottom + 17, "middle", shown);
  }
  DrawXLabel(options, canvas);
}

std::string BarTitle(const std::string& category, const BarSeries& bar, size_t i) {
  std::string title = absl::StrCat(category, " ", bar.name, ": ", Number(bar.values[i]));
  if (!bar.low.empty()) absl::StrAppend(&title, " [", Number(bar.low[i]), ", ", Number(bar.high[i]), "]");
  return title;
}

void DrawGroupedBars(const ChartOptions& options, const std::vector<std::string>& categories,
                     const std::vector<BarSeries>& series, const Axis& y, SvgCanvas& canvas) {
  const double foot = y.Pixel(options.log_y ? y.low() : 0);
  for (size_t c = 0; c < categories.size(); ++c) {
    const Slot slot = CategorySlot(options, c, categories.size());
    const double width = slot.width / static_cast<double>(series.size());
    for (size_t s = 0; s < series.size(); ++s) {
      const BarSeries& bar = series[s];
      if (!y.Shows(bar.values[c])) continue;
      const double top = y.Pixel(bar.values[c]);
      const double left = slot.left + width * static_cast<double>(s);
      canvas.Rect(left, std::min(top, foot), width * 0.92, std::abs(foot - top), Fill(s),
                  BarTitle(categories[c], bar, c));
      if (bar.low.empty() || !y.Shows(bar.low[c]) || !y.Shows(bar.high[c])) continue;
      canvas.Line(left + width * 0.46, y.Pixel(bar.low[c]), left + width * 0.46, y.Pixel(bar.high[c]), "whisker");
    }
  }
}

void DrawStackedBars(const ChartOptions& options, const std::vector<std::string>& categories,
                     const std::vector<BarSeries>& series, const Axis& y, SvgCanvas& canvas) {
  for (size_t c = 0; c < categories.size(); ++c) {
    const Slot slot = CategorySlot(options, c, categories.size());
    double sum = 0;
    for (size_t s = 0; s < series.size(); ++s) {
      const double value = series[s].values[c];
      if (!std::isfinite(value) || value <= 0) continue;
      const double top = y.Pixel(sum + value);
      canvas.Rect(slot.left, top, slot.width, y.Pixel(sum) - top, Fill(s), BarTitle(categories[c], series[s], c));
      sum += value;
    }
  }
}

/// Edges of `bins` bins over all values, equal in width or in ratio.
std::vector<double> BinEdges(const std::vector<Sample>& samples, bool logarithmic, int bins) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Sample& sample : samples) {
    for (const double value : sample.values) {
      if (!(std::abs(value) <= kLargest) || (logarithmic && value < 1 / kLargest)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (!(low <= high)) return {};
  if (logarithmic ? low == high : high - low < 1 / kLargest) {
    low = logarithmic ? low / 1.5 : low - 0.5;
    high = logarithmic ? high * 1.5 : high + 0.5;
  }
  std::vector<double> edges;
  for (int i = 0; i <= bins; ++i) {
    const double share = static_cast<double>(i) / bins;
    edges.push_back(logarithmic ? low * std::pow(high / low, share) : low + share * (high - low));
  }
  edges.back() = high;
  return edges;
}

/// Share of the finite values in each bin; the last bin includes its upper edge.
std::vector<double> BinShares(const Sample& sample, const std::vector<double>& edges) {
  std::vector<double> shares(edges.size() - 1, 0.0);
  double total = 0;
  for (const double value : sample.values) {
    if (!(value >= edges.front() && value <= edges.back())) continue;
    const auto upper = std::upper_bound(edges.begin(), edges.end() - 1, value);
    shares[static_cast<size_t>(upper - edges.begin()) - 1] += 1;
    total += 1;
  }
  for (double& share : shares) share = total > 0 ? share / total : 0;
  return shares;
}

}  // namespace

Svg LineChart(const ChartOptions& options, const std::vector<LineSeries>& series) {
  Axis x = XAxis(options), y = YAxis(options);
  for (const LineSeries& line : series) {
    HONE_CHECK(line.x.size() == line.y.size() && line.low.size() == line.high.size());
    HONE_CHECK(line.low.empty() || line.low.size() == line.y.size());
    for (const double value : line.x) x.Include(value);
    for (const auto* values : {&line.y, &line.low, &line.high}) {
      for (const double value : *values) y.Include(value);
    }
  }
  x.Settle(false);
  y.Settle(true);
  SvgCanvas canvas(options, "lines");
  DrawYAxis(options, y, canvas);
  DrawXAxis(options, x, canvas);
  for (size_t i = 0; i < series.size(); ++i) DrawLineSeries(series[i], i, x, y, canvas);
  DrawLegend(options, Names(series), canvas);
  return std::move(canvas).Done();
}

Svg BarChart(const ChartOptions& options, const std::vector<std::string>& categories,
             const std::vector<BarSeries>& series, BarMode mode) {
  Axis y = YAxis(options);
  y.Include(0);
  for (const BarSeries& bar : series) {
    HONE_CHECK(bar.values.size() == categories.size() && bar.low.size() == bar.high.size());
    HONE_CHECK(bar.low.empty() || bar.low.size() == bar.values.size());
    if (mode == BarMode::kStacked) continue;
    for (const auto* values : {&bar.values, &bar.low, &bar.high}) {
      for (const double value : *values) y.Include(value);
    }
  }
  for (size_t c = 0; mode == BarMode::kStacked && c < categories.size(); ++c) {
    double sum = 0;
    for (const BarSeries& bar : series) sum += std::isfinite(bar.values[c]) ? std::max(0.0, bar.values[c]) : 0;
    y.Include(sum);
  }
  y.Settle(true);
  SvgCanvas canvas(options, "bars");
  DrawYAxis(options, y, canvas);
  DrawCategories(options, categories, canvas);
  if (mode == BarMode::kStacked) {
    DrawStackedBars(options, categories, series, y, canvas);
  } else {
    DrawGroupedBars(options, categories, series, y, canvas);
  }
  DrawLegend(options, Names(series), canvas);
  return std::move(canvas).Done();
}

Svg Histogram(const ChartOptions& options, const std::vector<Sample>& samples, int bins) {
  HONE_CHECK(bins > 0);
  const std::vector<double> edges = BinEdges(samples, options.log_x, bins);
  Axis x = XAxis(options), y = YAxis(options);
  for (const double edge : edges) x.Include(edge);
  if (!options.log_y) y.Include(0);
  std::vector<std::vector<double>> shares;
  for (const Sample& sample : samples) {
    shares.push_back(edges.empty() ? std::vector<double>() : BinShares(sample, edges));
    for (const double share : shares.back()) y.Include(share);
  }
  x.Settle(false);
  y.Settle(true);
  SvgCanvas canvas(options, "histogram");
  DrawYAxis(options, y, canvas);
  DrawXAxis(options, x, canvas);
  const double foot = y.Pixel(y.low());
  for (size_t s = 0; s < samples.size(); ++s) {
    std::vector<std::pair<double, double>> outline;
    for (size_t b = 0; b < shares[s].size(); ++b) {
      const double top = y.Shows(shares[s][b]) ? y.Pixel(shares[s][b]) : foot;
      if (b == 0) outline.emplace_back(x.Pixel(edges[0]), foot);
      outline.emplace_back(x.Pixel(edges[b]), top);
      outline.emplace_back(x.Pixel(edges[b + 1]), top);
      if (b + 1 == shares[s].size()) outline.emplace_back(x.Pixel(edges[b + 1]), foot);
    }
    canvas.Points("polygon", outline, Fill(s, absl::StrCat(" step ", Stroke(s))));
  }
  DrawLegend(options, Names(samples), canvas);
  return std::move(canvas).Done();
}

}  // namespace hone
