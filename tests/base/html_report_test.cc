#include "base/html_report.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace hone {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Without the texts that show under the pointer, where "nan" is an honest answer.
std::string WithoutTitles(std::string svg) {
  for (size_t at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>")) {
    svg.erase(at, svg.find("</title>", at) + 8 - at);
  }
  return svg;
}

/// Empty when every element is closed in order (void elements of HTML excepted), else what is wrong.
std::string NestingError(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const size_t end = text.find('>', at);
    if (end == std::string::npos) return "an unfinished tag";
    const std::string tag = text.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '!' || tag.back() == '/' || name == "meta") continue;
    if (tag[0] != '/') {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "closing " + name + (open.empty() ? "" : " inside " + open.back());
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "open " + open.back();
}

TEST_CASE("What a policy wrote cannot become markup anywhere in a report", "[base][html]") {
  const std::string evil = "<script>alert('x')</script>\"&\x01\xff";
  HtmlReport report(evil, evil);
  report.Section(evil);
  report.Paragraph(evil);
  report.Warning(evil);
  report.Facts({{evil, evil}});
  report.Table({{evil}, {Align::kRight}, {{evil}}});
  report.Code(evil, evil);
  report.Figure(LineChart({.x_label = evil, .y_label = evil}, {{evil, {1}, {2}, {}, {}}}), evil);
  report.Figure(BarChart({.x_label = evil, .y_label = evil}, {evil}, {{evil, {1}, {}, {}}}), evil);
  report.Figure(Histogram({.x_label = evil, .y_label = evil}, {{evil, {1, 2}}}), evil);
  const std::string html = report.Html();
  CHECK_FALSE(Has(html, "<script"));
  CHECK_FALSE(Has(html, "\x01"));
  CHECK_FALSE(Has(html, "\xff"));
  CHECK(Has(html, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;"));
  CHECK(NestingError(html) == "");
}

TEST_CASE("A report is one file that fetches nothing and follows the reader's light or dark theme", "[base][html]") {
  HtmlReport report("title", "subtitle");
  report.Table({{"task", "speedup"}, {Align::kLeft, Align::kRight}, {{"softmax", "2.1"}}});
  const std::string html = report.Html();
  CHECK(html.find("<!doctype html>") == 0);
  for (const char* external : {"http", "src=", "href=", "url(", "@import"}) CHECK_FALSE(Has(html, external));
  CHECK(Has(html, "prefers-color-scheme: dark"));
  CHECK(Has(html, "<td>softmax</td><td class=\"right\">2.1</td>"));
}

TEST_CASE("A line chart puts points where the axes say", "[base][html]") {
  // Plot area: x from 62 to 640 - 12 = 628, y from 260 - 42 = 218 up to 30.
  const std::string svg = LineChart({}, {{"a", {0, 10}, {0, 10}, {}, {}}}).text();
  CHECK(Has(svg, "<polyline points=\"62.0,218.0 628.0,30.0\" class=\"k0 line\"/>"));
  const std::string log_svg = LineChart({.log_y = true}, {{"a", {0, 1, 2}, {1, 10, 100}, {}, {}}}).text();
  CHECK(Has(log_svg, "<polyline points=\"62.0,218.0 345.0,124.0 628.0,30.0\""));
}

TEST_CASE("A band runs along its upper edge and back along its lower one", "[base][html]") {
  const std::string svg = LineChart({}, {{"a", {0, 10}, {5, 5}, {0, 0}, {10, 10}}}).text();
  CHECK(Has(svg, "<polygon points=\"62.0,30.0 628.0,30.0 628.0,218.0 62.0,218.0\" class=\"f0 band\"/>"));
}

TEST_CASE("Linear ticks stand at 1, 2 or 5 times a power of ten", "[base][html]") {
  const std::string svg = LineChart({}, {{"a", {0, 1}, {0.03, 0.97}, {}, {}}}).text();
  for (const char* tick : {">0<", ">0.2<", ">0.4<", ">0.6<", ">0.8<", ">1<"}) CHECK(Has(svg, tick));
}

TEST_CASE("Bars stand on zero and their whiskers span the interval", "[base][html]") {
  const std::string svg = BarChart({}, {"x"}, {{"a", {5}, {4}, {10}}}).text();
  // 0 to 10 over 218 to 30: 5 is at 124, 4 at 142.8; the slot is 80 % of 566 wide from 62 + 56.6.
  CHECK(Has(
      svg, "<rect x=\"118.6\" y=\"124.0\" width=\"416.6\" height=\"94.0\" class=\"f0\"><title>x a: 5 [4, 10]</title>"));
  CHECK(Has(svg, "y1=\"142.8\""));
  CHECK(Has(svg, "y2=\"30.0\" class=\"whisker\""));
}

TEST_CASE("Stacked bars end where the next begins", "[base][html]") {
  const std::string svg =
      BarChart({}, {"x"}, {{"ok", {0.25}, {}, {}}, {"bad", {0.75}, {}, {}}}, BarMode::kStacked).text();
  CHECK(Has(svg, "y=\"171.0\" width=\"452.8\" height=\"47.0\" class=\"f0\""));
  CHECK(Has(svg, "y=\"30.0\" width=\"452.8\" height=\"141.0\" class=\"f1\""));
}

TEST_CASE("A histogram shows shares and counts the largest value into the last bin", "[base][html]") {
  // Values 0, 1, 2, 3 in three bins of width 1: shares 1/4, 1/4, 1/2; the axis ends at 0.5.
  const std::string svg = Histogram({}, {{"a", {0, 1, 2, 3, kNan}}}, 3).text();
  CHECK(Has(svg,
            "points=\"62.0,218.0 62.0,124.0 250.7,124.0 250.7,124.0 439.3,124.0 439.3,30.0 628.0,30.0 628.0,218.0\""));
}

TEST_CASE("Charts of nothing, of one point and of values that cannot be drawn are still charts", "[base][html]") {
  for (const bool log : {false, true}) {
    const ChartOptions options = {.log_x = log, .log_y = log};
    for (const std::string& svg : {
             LineChart(options, {}).text(),
             LineChart(options, {{"a", {}, {}, {}, {}}}).text(),
             LineChart(options, {{"a", {1}, {1}, {}, {}}}).text(),
             LineChart(options, {{"a", {0, -1, kNan}, {0, kInf, 1}, {0, 0, 0}, {kNan, 0, 0}}}).text(),
             BarChart(options, {}, {}).text(),
             BarChart(options, {"x", "y"}, {{"a", {kNan, 0}, {}, {}}}).text(),
             BarChart(options, {"x"}, {{"a", {0}, {}, {}}}, BarMode::kStacked).text(),
             Histogram(options, {}).text(),
             Histogram(options, {{"a", {kNan, kInf}}, {"b", {3}}}).text(),
         }) {
      CHECK(NestingError(svg) == "");
      for (const char* bad : {"nan", "inf"}) CHECK_FALSE(Has(WithoutTitles(svg), bad));
      CHECK(Count(svg, "class=\"grid\"") >= 2);
    }
  }
}

TEST_CASE("Random data never yields coordinates outside of the drawing", "[base][html][fuzz]") {
  std::mt19937_64 random(21);
  const std::vector<double> special = {0, -0.0, kNan, kInf, -kInf, 5e-324, 1e308, -1e308, 1, 1 + 1e-16, 1e-200};
  const auto value = [&] {
    if (random() % 3 == 0) return special[random() % special.size()];
    return std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 80) - 40);
  };
  for (int round = 0; round < 500; ++round) {
    LineSeries line{"a", {}, {}, {}, {}};
    for (uint64_t n = random() % 6; n > 0; --n) {
      line.x.push_back(value());
      line.y.push_back(value());
      line.low.push_back(value());
      line.high.push_back(value());
    }
    const ChartOptions options = {.log_x = random() % 2 == 0, .log_y = random() % 2 == 0};
    const std::vector<std::string> categories(line.y.size(), "c");
    for (const std::string& svg :
         {LineChart(options, {line}).text(), BarChart(options, categories, {{"b", line.y, line.low, line.high}}).text(),
          Histogram(options, {{"h", line.y}}).text()}) {
      const std::string drawing = WithoutTitles(svg);
      INFO("seed 21, round " << round << "\n" << svg);
      for (const char* bad : {"nan", "inf", "=\"-", ",-", "\"-"}) CHECK_FALSE(Has(drawing, bad));
      CHECK(svg.size() < 20'000);
    }
  }
}

}  // namespace
}  // namespace hone
