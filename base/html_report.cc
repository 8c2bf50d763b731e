#include "base/html_report.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace hone {
namespace {

// Series colours: Okabe and Ito's palette, told apart with the common colour-vision deficiencies; lightened for dark.
constexpr absl::string_view kStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1c1f23; --soft: #5b6570; --rule: #d9dee3; --panel: #f6f8fa; --warn: #fff4d6;
  --s0: #0072b2; --s1: #d55e00; --s2: #009e73; --s3: #cc79a7; --s4: #8a6d00; --s5: #56a0d3; --s6: #6a4fb3; --s7: #5b6570;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #15181c; --ink: #e4e7ea; --soft: #9aa4ae; --rule: #343b43; --panel: #1e2329; --warn: #40351a;
    --s0: #4fb0ec; --s1: #ff8a4c; --s2: #35c79b; --s3: #e6a0c8; --s4: #d9b937; --s5: #9fd0f2; --s6: #a993ec; --s7: #9aa4ae;
  }
}
body { margin: 0 auto; max-width: 1000px; padding: 24px; background: var(--page); color: var(--ink);
       font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0; }
h2 { font-size: 19px; margin: 36px 0 10px; border-bottom: 1px solid var(--rule); padding-bottom: 4px; }
.subtitle, figcaption { color: var(--soft); }
.warning { background: var(--warn); padding: 8px 12px; border-radius: 6px; }
.facts { display: flex; flex-wrap: wrap; gap: 10px; padding: 0; }
.facts div { background: var(--panel); border-radius: 6px; padding: 8px 14px; }
.facts dt { color: var(--soft); font-size: 13px; }
.facts dd { margin: 0; font-size: 19px; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 3px 14px 3px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
th { color: var(--soft); font-weight: 600; }
.right { text-align: right; }
figure { margin: 14px 0; }
pre { background: var(--panel); border-radius: 6px; padding: 10px 14px; overflow-x: auto; font-size: 13px; line-height: 1.4; }
summary { cursor: pointer; }
svg { max-width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg text { fill: var(--soft); }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .band { stroke: none; opacity: 0.18; }
svg .whisker { stroke: var(--ink); stroke-width: 1.2; }
svg .step { fill-opacity: 0.22; stroke-width: 1.5; }
svg .k0 { stroke: var(--s0); } svg .f0 { fill: var(--s0); }
svg .k1 { stroke: var(--s1); } svg .f1 { fill: var(--s1); }
svg .k2 { stroke: var(--s2); } svg .f2 { fill: var(--s2); }
svg .k3 { stroke: var(--s3); } svg .f3 { fill: var(--s3); }
svg .k4 { stroke: var(--s4); } svg .f4 { fill: var(--s4); }
svg .k5 { stroke: var(--s5); } svg .f5 { fill: var(--s5); }
svg .k6 { stroke: var(--s6); } svg .f6 { fill: var(--s6); }
svg .k7 { stroke: var(--s7); } svg .f7 { fill: var(--s7); }
@media print { body { max-width: none; } details > * { display: block; } }
)css";

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  std::string out;
  for (const char c : ToUtf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F) {
          out += "\xEF\xBF\xBD";
        } else {
          out += c;
        }
    }
  }
  return out;
}

HtmlReport::HtmlReport(absl::string_view title, absl::string_view subtitle)
    : title_(EscapeHtml(title)), subtitle_(EscapeHtml(subtitle)) {}

void HtmlReport::Section(absl::string_view title) { absl::StrAppend(&body_, "<h2>", EscapeHtml(title), "</h2>\n"); }

void HtmlReport::Paragraph(absl::string_view text) { absl::StrAppend(&body_, "<p>", EscapeHtml(text), "</p>\n"); }

void HtmlReport::Warning(absl::string_view text) {
  absl::StrAppend(&body_, "<p class=\"warning\">", EscapeHtml(text), "</p>\n");
}

void HtmlReport::Facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  body_ += "<dl class=\"facts\">\n";
  for (const auto& [name, value] : facts) {
    absl::StrAppend(&body_, "<div><dt>", EscapeHtml(name), "</dt><dd>", EscapeHtml(value), "</dd></div>\n");
  }
  body_ += "</dl>\n";
}

void HtmlReport::Table(const HtmlTable& table) {
  HONE_CHECK(table.align.empty() || table.align.size() == table.columns.size());
  const auto cell = [&](const char* tag, const std::string& text, size_t column) {
    const bool right = !table.align.empty() && table.align[column] == Align::kRight;
    absl::StrAppend(&body_, "<", tag, right ? " class=\"right\">" : ">", EscapeHtml(text), "</", tag, ">");
  };
  body_ += "<div class=\"scroll\"><table>\n<tr>";
  for (size_t i = 0; i < table.columns.size(); ++i) cell("th", table.columns[i], i);
  body_ += "</tr>\n";
  for (const std::vector<std::string>& row : table.rows) {
    HONE_CHECK(row.size() == table.columns.size());
    body_ += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) cell("td", row[i], i);
    body_ += "</tr>\n";
  }
  body_ += "</table></div>\n";
}

void HtmlReport::Figure(const Svg& svg, absl::string_view caption) {
  absl::StrAppend(&body_, "<figure>\n", svg.text(), "<figcaption>", EscapeHtml(caption), "</figcaption></figure>\n");
}

void HtmlReport::Code(absl::string_view caption, absl::string_view text, bool open) {
  absl::StrAppend(&body_, "<details", open ? " open" : "", "><summary>", EscapeHtml(caption), "</summary><pre>",
                  EscapeHtml(text), "</pre></details>\n");
}

std::string HtmlReport::Html() const {
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      title_, "</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n<h1>", title_, "</h1>\n<p class=\"subtitle\">",
      subtitle_, "</p>\n", body_, "</body>\n</html>\n");
}

}  // namespace hone
