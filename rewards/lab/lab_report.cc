#include "rewards/lab/lab_report.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/html_report.h"
#include "rewards/lab/statistics.h"

namespace hone::rewards {
namespace {

constexpr size_t kRankRows = 12;
constexpr size_t kHistogramPipelines = 6;

std::string Number(double value) { return std::isfinite(value) ? absl::StrFormat("%.4g", value) : "–"; }
std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

std::vector<double> Doubles(const std::vector<float>& values) {
  std::vector<double> doubles;
  for (const float value : values) {
    if (!std::isnan(value)) doubles.push_back(value);
  }
  return doubles;
}

/// Pipelines that are shown one by one: those that are no step of a sweep, or all when there is nothing else.
std::vector<size_t> Named(const LabResult& result) {
  std::vector<size_t> named;
  for (size_t p = 0; p < result.replay.summaries().size(); ++p) {
    const bool swept = std::any_of(result.sweeps.begin(), result.sweeps.end(), [p](const SweepRange& range) {
      return p >= range.first && p < range.first + range.sweep.values.size();
    });
    if (!swept) named.push_back(p);
  }
  return named;
}

void AddWarnings(const LabResult& result, HtmlReport& report) {
  if (result.read.emulated) {
    report.Warning("These speeds were measured on emulated kernels on the CPU: they say nothing about a GPU.");
  }
  for (const std::string& warning : result.read.warnings) report.Warning(warning);
  for (const PipelineSummary& summary : result.replay.summaries()) {
    if (summary.untimed_passes == 0) continue;
    report.Warning(
        absl::StrCat(summary.name, ": ", summary.untimed_passes,
                     " passes have no timing against the baseline that it reads and count as a speedup of 1."));
  }
}

void AddSummaryTable(const LabResult& result, HtmlReport& report) {
  HtmlTable table;
  table.columns = {"pipeline", "samples",   "not scored", "reward mean", "std",
                   "median",   "group std", "no signal",  "mean |A|"};
  table.align.assign(table.columns.size(), Align::kRight);
  table.align[0] = Align::kLeft;
  for (const PipelineSummary& s : result.replay.summaries()) {
    table.rows.push_back({s.name, absl::StrCat(s.samples), absl::StrCat(s.episodes_unscored), Number(s.RewardMean()),
                          Number(s.RewardStd()), Number(Quantile(s.rewards, 0.5)), Number(s.MeanGroupSpread()),
                          Percent(s.ZeroSignalShare()),
                          Number(s.samples > 0 ? s.advantage_abs_sum / static_cast<double>(s.samples) : 0)});
  }
  report.Section("Pipelines");
  report.Table(table);
  report.Paragraph(
      "Group std: mean over groups of the rewards' standard deviation. No signal: share of the groups in which "
      "every advantage is zero, which teach nothing.");
}

void AddDistributions(const LabResult& result, HtmlReport& report) {
  std::vector<hone::Sample> rewards, spreads;
  for (const size_t p : Named(result)) {
    if (rewards.size() == kHistogramPipelines) break;
    const PipelineSummary& summary = result.replay.summaries()[p];
    rewards.push_back({summary.name, Doubles(summary.rewards)});
    spreads.push_back({summary.name, Doubles(summary.group_spreads)});
  }
  report.Section("Distributions");
  report.Figure(Histogram({.x_label = "reward of an episode", .y_label = "share"}, rewards),
                "Rewards of episodes (of the first trained turn).");
  report.Figure(Histogram({.x_label = "standard deviation of the rewards in a group", .y_label = "share"}, spreads),
                "Spread within groups: a group at zero gives no signal.");
}

void AddVerdicts(const LabResult& result, HtmlReport& report) {
  HtmlTable table;
  table.columns = {"first turn's verdict", "episodes"};
  table.align = {Align::kLeft, Align::kRight};
  for (const size_t p : Named(result)) {
    table.columns.push_back("mean reward: " + result.replay.summaries()[p].name);
    table.align.push_back(Align::kRight);
  }
  for (size_t status = 0; status < kStatuses; ++status) {
    const int64_t count = result.replay.first_turn_verdicts()[status];
    if (count == 0) continue;
    std::vector<std::string> row = {std::string(Name(static_cast<VerdictStatus>(status))), absl::StrCat(count)};
    for (const size_t p : Named(result)) {
      const PipelineSummary& s = result.replay.summaries()[p];
      row.push_back(s.samples_by_status[status] > 0
                        ? Number(s.reward_by_status[status] / static_cast<double>(s.samples_by_status[status]))
                        : "–");
    }
    table.rows.push_back(std::move(row));
  }
  report.Section("Verdicts");
  report.Table(table);
}

void AddRankCorrelation(const LabResult& result, HtmlReport& report) {
  const std::vector<size_t> named = Named(result);
  if (named.size() < 2) return;
  HtmlTable table;
  table.columns = {""};
  table.align = {Align::kLeft};
  for (const size_t p : named) {
    table.columns.push_back(result.replay.summaries()[p].name);
    table.align.push_back(Align::kRight);
  }
  for (const size_t a : named) {
    std::vector<std::string> row = {result.replay.summaries()[a].name};
    for (const size_t b : named) row.push_back(Number(result.rank_correlation[a][b]));
    table.rows.push_back(std::move(row));
  }
  report.Section("Rank correlation");
  report.Paragraph(
      "Spearman's correlation of the episodes' rewards: 1 means that two pipelines prefer the same episodes.");
  report.Table(table);
}

/// The episodes whose place in the order differs most between the first pipeline and another one.
void AddRankChanges(const LabResult& result, HtmlReport& report) {
  const std::vector<size_t> named = Named(result);
  for (size_t i = 1; i < named.size(); ++i) {
    const PipelineSummary& first = result.replay.summaries()[named[0]];
    const PipelineSummary& other = result.replay.summaries()[named[i]];
    std::vector<size_t> both;
    std::vector<float> a, b;
    for (size_t e = 0; e < first.rewards.size(); ++e) {
      if (std::isnan(first.rewards[e]) || std::isnan(other.rewards[e])) continue;
      both.push_back(e);
      a.push_back(first.rewards[e]);
      b.push_back(other.rewards[e]);
    }
    const std::vector<double> rank_a = MeanRanks(a), rank_b = MeanRanks(b);
    std::vector<size_t> order(both.size());
    std::iota(order.begin(), order.end(), 0);
    const size_t rows = std::min(kRankRows, order.size());
    std::partial_sort(order.begin(), order.begin() + rows, order.end(), [&](size_t x, size_t y) {
      return std::fabs(rank_a[x] - rank_b[x]) > std::fabs(rank_a[y] - rank_b[y]);
    });
    HtmlTable table;
    table.columns = {"group and episode", "reward: " + first.name, "reward: " + other.name,
                     "better than: " + first.name, "better than: " + other.name};
    table.align = {Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight};
    const double count = static_cast<double>(std::max<size_t>(both.size(), 1));
    for (size_t r = 0; r < rows; ++r) {
      const size_t e = order[r];
      if (rank_a[e] == rank_b[e]) break;
      table.rows.push_back({result.replay.EpisodeName(both[e]), Number(a[e]), Number(b[e]),
                            Percent((rank_a[e] - 1) / count), Percent((rank_b[e] - 1) / count)});
    }
    if (table.rows.empty()) continue;
    report.Section(absl::StrCat("Largest rank changes from ", first.name, " to ", other.name));
    report.Table(table);
  }
}

void AddSweeps(const LabResult& result, HtmlReport& report) {
  for (const SweepRange& range : result.sweeps) {
    LineSeries mean{"mean reward", range.sweep.values, {}, {}, {}};
    LineSeries spread{"mean group std", range.sweep.values, {}, {}, {}};
    LineSeries silent{"groups without signal", range.sweep.values, {}, {}, {}};
    LineSeries same{"rank correlation with the first pipeline", range.sweep.values, {}, {}, {}};
    for (size_t i = 0; i < range.sweep.values.size(); ++i) {
      const PipelineSummary& summary = result.replay.summaries()[range.first + i];
      mean.y.push_back(summary.RewardMean());
      spread.y.push_back(summary.MeanGroupSpread());
      silent.y.push_back(summary.ZeroSignalShare());
      same.y.push_back(result.rank_correlation[0][range.first + i]);
    }
    report.Section("Sensitivity to " + range.sweep.key);
    report.Figure(LineChart({.x_label = range.sweep.key, .y_label = "reward"}, {mean, spread}),
                  "Rewards over the values of the parameter.");
    report.Figure(LineChart({.x_label = range.sweep.key, .y_label = "share, correlation"}, {silent, same}),
                  "Groups without signal, and how far the order of the episodes stays that of the first pipeline.");
  }
}

}  // namespace

LabResult MakeResult(const Replay& replay, ReadSummary read, std::vector<std::string> inputs,
                     std::vector<SweepRange> sweeps) {
  std::vector<std::vector<float>> rewards;
  for (const PipelineSummary& summary : replay.summaries()) rewards.push_back(summary.rewards);
  return {replay, std::move(read), std::move(inputs), std::move(sweeps), SpearmanMatrix(rewards)};
}

std::string ResultText(const LabResult& result) {
  std::string text = absl::StrFormat("%d episodes in %d groups%s%s\n", result.read.episodes, result.read.groups,
                                     result.read.device.empty() ? "" : ", timed on " + result.read.device,
                                     result.read.emulated ? " (emulated: says nothing about a GPU)" : "");
  size_t width = 8;
  for (const PipelineSummary& s : result.replay.summaries()) width = std::max(width, s.name.size());
  absl::StrAppendFormat(&text, "%-*s %9s %9s %9s %9s %10s %10s\n", static_cast<int>(width), "pipeline", "samples",
                        "mean", "std", "group std", "no signal", "rank corr.");
  for (size_t p = 0; p < result.replay.summaries().size(); ++p) {
    const PipelineSummary& s = result.replay.summaries()[p];
    absl::StrAppendFormat(&text, "%-*s %9d %9.4g %9.4g %9.4g %9.1f%% %10s\n", static_cast<int>(width), s.name,
                          s.samples, s.RewardMean(), s.RewardStd(), s.MeanGroupSpread(), 100 * s.ZeroSignalShare(),
                          Number(result.rank_correlation[0][p]));
  }
  for (const std::string& warning : result.read.warnings) absl::StrAppend(&text, "warning: ", warning, "\n");
  for (const PipelineSummary& s : result.replay.summaries()) {
    if (s.untimed_passes > 0) {
      absl::StrAppend(&text, "warning: ", s.name, ": ", s.untimed_passes, " passes without a timing that it reads\n");
    }
  }
  return text;
}

std::string ResultCsv(const LabResult& result) {
  std::string csv =
      "pipeline,episodes,episodes_unscored,samples,groups,zero_signal_groups,untimed_passes,reward_mean,reward_std,"
      "reward_p05,reward_p50,reward_p95,group_std_mean,advantage_abs_mean,rank_correlation_with_first\n";
  for (size_t p = 0; p < result.replay.summaries().size(); ++p) {
    const PipelineSummary& s = result.replay.summaries()[p];
    const double samples = static_cast<double>(std::max<int64_t>(s.samples, 1));
    absl::StrAppend(&csv, CsvField(s.name), ",", s.episodes, ",", s.episodes_unscored, ",", s.samples, ",", s.groups,
                    ",", s.zero_signal_groups, ",", s.untimed_passes, ",");
    absl::StrAppend(
        &csv,
        absl::StrJoin(std::vector<double>{s.RewardMean(), s.RewardStd(), Quantile(s.rewards, 0.05),
                                          Quantile(s.rewards, 0.5), Quantile(s.rewards, 0.95), s.MeanGroupSpread(),
                                          s.advantage_abs_sum / samples, result.rank_correlation[0][p]},
                      ","),
        "\n");
  }
  return csv;
}

std::string ResultHtml(const LabResult& result) {
  HtmlReport report("Reward lab", absl::StrCat(result.read.episodes, " episodes in ", result.read.groups, " groups of ",
                                               absl::StrJoin(result.inputs, ", ")));
  AddWarnings(result, report);
  AddSummaryTable(result, report);
  AddDistributions(result, report);
  AddVerdicts(result, report);
  AddRankCorrelation(result, report);
  AddRankChanges(result, report);
  AddSweeps(result, report);
  report.Section("Formulas");
  for (const NamedPipeline& named : result.replay.pipelines()) {
    report.Code(named.name, named.pipeline.InWords(), result.replay.pipelines().size() <= 3);
  }
  return report.Html();
}

std::string CsvField(absl::string_view text) {
  if (text.find_first_of(",\"\n\r") == absl::string_view::npos) return std::string(text);
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

absl::StatusOr<std::unique_ptr<CandidateCsv>> CandidateCsv::Create(const std::string& path,
                                                                   const std::vector<NamedPipeline>& pipelines) {
  std::unique_ptr<CandidateCsv> csv(new CandidateCsv(path));
  const std::string partial = path + ".partial";
  csv->file_ = std::fopen(partial.c_str(), "w");
  if (csv->file_ == nullptr) return ErrnoStatus(errno, absl::StrCat("creating ", partial));
  std::string head = "group,task,episode,turn,status,correct_rate,speedup,speedup_low,speedup_high";
  for (const NamedPipeline& named : pipelines) {
    for (const char* column : {" score", " reward", " advantage"})
      absl::StrAppend(&head, ",", CsvField(named.name + column));
  }
  csv->failed_ = std::fprintf(csv->file_, "%s\n", head.c_str()) < 0;
  return csv;
}

CandidateCsv::~CandidateCsv() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::remove((path_ + ".partial").c_str());
}

void CandidateCsv::Add(const CandidateRow& row) {
  const Outcome& outcome = row.group.outcomes[row.episode][row.turn];
  const Speedup speedup =
      outcome.first_baseline ? outcome.speedups[static_cast<int>(*outcome.first_baseline)] : Speedup();
  std::string line = absl::StrCat(CsvField(row.group.id), ",", CsvField(row.group.task_id), ",",
                                  CsvField(row.group.episode_ids[row.episode]), ",", row.turn + 1, ",",
                                  Name(outcome.status), ",", outcome.correct_rate);
  if (speedup.measured()) {
    absl::StrAppend(&line, ",", speedup.median, ",", speedup.low, ",", speedup.high);
  } else {
    absl::StrAppend(&line, ",,,");
  }
  const auto cell = [](const std::optional<double>& value) { return value ? absl::StrCat(*value) : ""; };
  for (const TurnCredit* credit : row.credits) {
    absl::StrAppend(&line, ",", cell(credit->score), ",", cell(credit->reward), ",",
                    credit->trained() ? absl::StrCat(credit->advantage) : "");
  }
  line += '\n';
  failed_ |= std::fwrite(line.data(), 1, line.size(), file_) != line.size();
}

absl::Status CandidateCsv::Finish() {
  const bool flushed = std::fclose(std::exchange(file_, nullptr)) == 0 && !failed_;
  const std::string partial = path_ + ".partial";
  if (!flushed || std::rename(partial.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    std::remove(partial.c_str());
    return ErrnoStatus(error, absl::StrCat("writing ", path_));
  }
  return absl::OkStatus();
}

}  // namespace hone::rewards
