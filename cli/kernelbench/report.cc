#include "cli/kernelbench/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/html_report.h"

namespace hone::cli {
namespace {

using Row = std::vector<std::string>;

const Row kColumns = {"",       "n",      "correct",        "compiled",      "fast_0",
                      "fast_1", "fast_2", "geometric mean", "of the faster", "no candidate"};

std::string Share(int part, int all) { return all == 0 ? "-" : absl::StrFormat("%.1f %%", 100.0 * part / all); }
std::string Times(double speedup) { return speedup > 0 ? absl::StrFormat("%.3g", speedup) : "-"; }

Row RowOf(const std::string& name, const EvalSummary& s) {
  return {name,
          absl::StrCat(s.n),
          Share(s.correct, s.n),
          Share(s.compiled, s.n),
          absl::StrFormat("%.3f", s.fast_0),
          absl::StrFormat("%.3f", s.fast_1),
          absl::StrFormat("%.3f", s.fast_2),
          Times(s.geometric_mean),
          Times(s.geometric_mean_fast),
          absl::StrCat(s.missing)};
}

std::vector<Row> SummaryRows(const std::vector<EvalResult>& results) {
  std::vector<Row> rows;
  for (const auto& [name, summary] : SummariesByLevel(results)) rows.push_back(RowOf(name, summary));
  return rows;
}

std::string Aligned(const Row& columns, const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns.size(); ++c) {
    size_t width = columns[c].size();
    for (const Row& row : rows) width = std::max(width, row[c].size());
    widths.push_back(width);
  }
  std::string text;
  const auto add = [&](const Row& row) {
    for (size_t c = 0; c < row.size(); ++c) {
      absl::StrAppend(&text, c == 0 ? absl::StrFormat("%-*s", static_cast<int>(widths[c]), row[c])
                                    : absl::StrFormat("  %*s", static_cast<int>(widths[c]), row[c]));
    }
    text += "\n";
  };
  add(columns);
  for (const Row& row : rows) add(row);
  return text;
}

std::string Markdown(const Row& columns, const std::vector<Row>& rows) {
  const auto line = [](const Row& row) {
    std::string text = "|";
    for (const std::string& cell : row)
      absl::StrAppend(&text, " ", absl::StrReplaceAll(cell, {{"|", "/"}, {"\n", " "}}), " |");
    return text + "\n";
  };
  std::string text = line(columns) + "|";
  for (size_t c = 0; c < columns.size(); ++c) text += c == 0 ? " --- |" : " ---: |";
  text += "\n";
  for (const Row& row : rows) text += line(row);
  return text;
}

std::string Interval(const EvalResult& result) {
  const Timing* speed = result.verdict.speed();
  if (!result.correct() || speed == nullptr) return "";
  return absl::StrFormat("%.3g [%.3g, %.3g]", speed->speedup.median, speed->speedup.low, speed->speedup.high);
}

std::vector<Row> StatusRows(const std::vector<EvalResult>& results) {
  std::map<std::string, int> counts;
  for (const EvalResult& result : results) {
    if (result.given) ++counts[std::string(Name(result.verdict.status))];
  }
  std::vector<Row> rows;
  for (const auto& [status, count] : counts) rows.push_back({status, absl::StrCat(count)});
  return rows;
}

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}, {"\n", " "}}), "\"");
}

}  // namespace

std::vector<std::pair<std::string, EvalSummary>> SummariesByLevel(const std::vector<EvalResult>& results) {
  std::map<int, std::vector<EvalResult>> levels;
  for (const EvalResult& result : results) levels[result.level].push_back(result);
  std::vector<std::pair<std::string, EvalSummary>> summaries;
  for (const auto& [level, of_level] : levels)
    summaries.emplace_back(absl::StrCat("level ", level), Summarise(of_level));
  summaries.emplace_back("all", Summarise(results));
  return summaries;
}

std::string FormatTables(const std::vector<EvalResult>& results) {
  return absl::StrCat(Aligned(kColumns, SummaryRows(results)), "\n", Aligned({"status", "n"}, StatusRows(results)));
}

std::string FormatCsv(const std::vector<EvalResult>& results) {
  std::string text =
      "id,level,problem_id,status,speedup,speedup_low,speedup_high,candidate_ns,baseline_ns,coverage,claimed_speedup,"
      "protocol,"
      "device,build_s,check_s,time_s,message\n";
  for (const EvalResult& result : results) {
    const Timing* speed = result.verdict.speed();
    Row row = {result.id, absl::StrCat(result.level), absl::StrCat(result.problem_id),
               result.given ? std::string(Name(result.verdict.status)) : "NONE"};
    if (result.correct() && speed != nullptr) {
      for (const double value :
           {speed->speedup.median, speed->speedup.low, speed->speedup.high, speed->candidate_ns, speed->baseline_ns}) {
        row.push_back(absl::StrFormat("%.6g", value));
      }
    } else {
      row.resize(row.size() + 5);
    }
    row.push_back(result.verdict.coverage ? absl::StrFormat("%.3g", *result.verdict.coverage) : "");
    row.push_back(result.claimed_speedup ? absl::StrFormat("%.6g", *result.claimed_speedup) : "");
    row.push_back(result.verdict.protocol);
    row.push_back(result.verdict.device);
    for (const double value :
         {result.verdict.seconds.build, result.verdict.seconds.check, result.verdict.seconds.time}) {
      row.push_back(absl::StrFormat("%.3f", value));
    }
    row.push_back(result.verdict.message);
    for (size_t c = 0; c < row.size(); ++c) absl::StrAppend(&text, c == 0 ? "" : ",", CsvCell(row[c]));
    text += "\n";
  }
  return text;
}

std::string FormatJson(const std::vector<EvalResult>& results) {
  nlohmann::ordered_json json;
  for (const auto& [name, s] : SummariesByLevel(results)) {
    json[name] = {{"n", s.n},
                  {"missing", s.missing},
                  {"correct", s.correct},
                  {"compiled", s.compiled},
                  {"fast_0", s.fast_0},
                  {"fast_1", s.fast_1},
                  {"fast_2", s.fast_2},
                  {"geometric_mean", s.geometric_mean},
                  {"geometric_mean_fast", s.geometric_mean_fast},
                  {"statuses", s.statuses}};
  }
  return json.dump(2) + "\n";
}

std::string FormatHtml(const std::string& title, const std::string& subtitle, const std::vector<EvalResult>& results) {
  HtmlReport report(title, subtitle);
  report.Section("By level");
  std::vector<Align> align(kColumns.size(), Align::kRight);
  align[0] = Align::kLeft;
  report.Table({kColumns, align, SummaryRows(results)});
  report.Paragraph("fast_p: share of all candidates that are correct and more than p times as fast as the baseline.");
  report.Section("Verdicts");
  report.Table({{"status", "n"}, {Align::kLeft, Align::kRight}, StatusRows(results)});
  std::vector<double> speedups;
  for (const EvalResult& result : results) {
    if (result.speedup() > 0) speedups.push_back(result.speedup());
  }
  if (speedups.size() > 1) {
    ChartOptions chart;
    chart.x_label = "speedup";
    chart.y_label = "share";
    chart.log_x = true;
    report.Figure(Histogram(chart, {{"correct candidates", speedups}}), "Speedups of correct candidates.");
  }
  report.Section("Candidates");
  std::vector<Row> rows;
  for (const EvalResult& result : results) {
    rows.push_back({result.id, result.given ? std::string(Name(result.verdict.status)) : "none given", Interval(result),
                    result.claimed_speedup ? absl::StrFormat("%.3g", *result.claimed_speedup) : "",
                    result.verdict.message});
  }
  report.Table({{"task", "verdict", "speedup", "claimed", "message"},
                {Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kLeft},
                rows});
  return report.Html();
}

// ---- Claims. ----

std::string ReasonOf(const EvalResult& result) {
  if (!result.given) return "no candidate published";
  const Verdict& verdict = result.verdict;
  const auto rejected_by = [&](const char* rule) {
    return std::any_of(verdict.rules.begin(), verdict.rules.end(),
                       [&](const RuleHit& hit) { return hit.reject && hit.rule == rule; });
  };
  switch (verdict.status) {
    case VerdictStatus::kForbidden:
      if (rejected_by("no_custom_kernel")) return "plain PyTorch";
      if (rejected_by("library_compute")) return "partly PyTorch";
      if (rejected_by("py_compile")) return "compiles at run time";
      if (rejected_by("unresolved_extension")) return "sources unknown before the run";
      for (const RuleHit& hit : verdict.rules) {
        if (hit.reject) return absl::StrCat("forbidden: ", hit.rule);
      }
      return "forbidden";
    case VerdictStatus::kCheat:
      return verdict.rules.empty() ? "cheat" : absl::StrCat("cheat: ", verdict.rules.back().rule);
    case VerdictStatus::kParse:
    case VerdictStatus::kCompile:
    case VerdictStatus::kCompileTimeout:
      return "does not build";
    case VerdictStatus::kIncorrect:
      return "wrong result";
    case VerdictStatus::kRuntime:
      return "fails at run time";
    case VerdictStatus::kTimeout:
      return "too slow to judge";
    case VerdictStatus::kOom:
      return "out of memory";
    case VerdictStatus::kInfra:
      return "not judged";
    case VerdictStatus::kOk:
      break;
  }
  const Timing* speed = verdict.speed();
  if (speed == nullptr) return "not timed";
  if (!result.claimed_speedup) return "no claim";
  const double claimed = *result.claimed_speedup;
  if (claimed <= speed->speedup.high * 1.1 && claimed >= speed->speedup.low / 1.1) return "agrees";
  return claimed > speed->speedup.high ? "slower than claimed" : "faster than claimed";
}

namespace {

/// One line a candidate: the claim, and of each protocol what was measured and the reason.
std::string ClaimRows(const std::vector<MeasuredClaims>& measured, bool judged_only) {
  Row columns = {"task", "claimed"};
  for (const MeasuredClaims& one : measured) {
    columns.push_back(absl::StrCat("measured, ", one.protocol));
    columns.push_back("outcome");
  }
  columns.push_back("evidence");
  std::vector<Row> rows;
  for (size_t i = 0; !measured.empty() && i < measured.front().results.size(); ++i) {
    const EvalResult& first = measured.front().results[i];
    Row row = {first.id, first.claimed_speedup ? absl::StrFormat("%.3g", *first.claimed_speedup) : ""};
    bool judged = false;
    for (const MeasuredClaims& one : measured) {
      const auto found = std::find_if(one.results.begin(), one.results.end(),
                                      [&](const EvalResult& other) { return other.id == first.id; });
      row.push_back(found == one.results.end() ? "" : Interval(*found));
      row.push_back(found == one.results.end() ? "not judged" : ReasonOf(*found));
      judged = judged || (found != one.results.end() && found->given && found->verdict.status != VerdictStatus::kInfra);
    }
    row.push_back(first.correct() || !first.given ? "" : first.verdict.message.substr(0, 140));
    if (judged || !judged_only) rows.push_back(std::move(row));
  }
  return Markdown(columns, rows);
}

}  // namespace

std::string FormatClaims(const std::vector<MeasuredClaims>& measured,
                         const std::vector<std::pair<std::string, int>>& where_built,
                         const std::vector<MeasuredClaims>& library) {
  std::string text =
      "# CUDA-L1's published candidates, measured again\n\n"
      "Rendered by `hone eval claims`; do not edit. The claims are speedups that the authors published for an H100; "
      "the "
      "measurements are verdicts of hone. A claim counts as agreeing when it lies within 10 % of the 95 % interval.\n\n"
      "## How the candidates ask for their extension\n\nFound by reading their text, without running it.\n\n";
  std::vector<Row> rows;
  for (const auto& [where, count] : where_built) rows.push_back({where, absl::StrCat(count)});
  text += Markdown({"how", "candidates"}, rows);

  std::map<std::string, std::map<std::string, int>> reasons;  // reason -> protocol -> count
  for (const MeasuredClaims& one : measured) {
    for (const EvalResult& result : one.results) {
      ++reasons[ReasonOf(result)][one.protocol];
    }
  }
  text += "\n## What became of the claims\n\n";
  Row columns = {"outcome"};
  for (const MeasuredClaims& one : measured) columns.push_back(one.protocol);
  rows.clear();
  for (const auto& [reason, counts] : reasons) {
    Row row = {reason};
    for (const MeasuredClaims& one : measured) {
      const auto found = counts.find(one.protocol);
      row.push_back(found == counts.end() ? "0" : absl::StrCat(found->second));
    }
    rows.push_back(std::move(row));
  }
  text += Markdown(columns, rows);
  for (const MeasuredClaims& one : measured) {
    const std::set<std::string> devices = [&] {
      std::set<std::string> names;
      for (const EvalResult& result : one.results) {
        if (!result.verdict.device.empty()) names.insert(result.verdict.device);
      }
      return names;
    }();
    absl::StrAppend(&text, "\n## ", one.protocol, devices.empty() ? "" : absl::StrCat(" on ", *devices.begin()), "\n\n",
                    Markdown(kColumns, SummaryRows(one.results)));
  }
  absl::StrAppend(&text, "\n## Each candidate\n\n", ClaimRows(measured, /*judged_only=*/false));
  if (!library.empty()) {
    absl::StrAppend(&text,
                    "\n## Where PyTorch may compute\n\nWhat some of the candidates that are plain PyTorch measure under "
                    "`--policy library`, which lets PyTorch, cuBLAS and cuDNN compute.\n\n",
                    ClaimRows(library, /*judged_only=*/true));
  }
  return text;
}

}  // namespace hone::cli
