#include "trainer/simulate/sim_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/config.h"
#include "base/file.h"
#include "base/html_report.h"
#include "base/status_macros.h"
#include "rewards/lab/lab_report.h"

namespace hone::trainer {
namespace {

/// The default configuration by the names of its parts, so that an override may put another one in a place.
constexpr char kDefaultText[] =
    "rewards: {terms: [{name: musacoder}], turns: {name: primeecho}, advantage: {name: grpo}}\n"
    "filters: {chain: [{name: mirrorpop}]}\n";

struct Figure {
  const char* name;
  double (*of)(const SimScore&);
  bool percent;
};
constexpr Figure kFigures[] = {
    {"first turn", [](const SimScore& s) { return s.first_turn_correct; }, true},
    {"pass at 8", [](const SimScore& s) { return s.pass_at_8; }, true},
    {"faster", [](const SimScore& s) { return s.faster; }, true},
    {"speedup", [](const SimScore& s) { return std::exp(s.log_speedup); }, false},
};

struct Spread {
  double mean = 0;
  double low = 0;
  double high = 0;
};
Spread SpreadOf(const std::vector<double>& values) {
  Spread spread{0, values[0], values[0]};
  for (const double value : values) {
    spread.mean += value / static_cast<double>(values.size());
    spread.low = std::min(spread.low, value);
    spread.high = std::max(spread.high, value);
  }
  return spread;
}

std::vector<double> Values(const VariantRuns& variant, const Figure& figure) {
  std::vector<double> values;
  for (const SimResult& run : variant.runs) values.push_back(figure.of(run.after));
  return values;
}

/// Seed by seed, so that what the seeds have in common falls out.
std::vector<double> Differences(const VariantRuns& variant, const VariantRuns& first, const Figure& figure) {
  std::vector<double> values = Values(variant, figure);
  for (size_t i = 0; i < values.size(); ++i) values[i] -= figure.of(first.runs[i].after);
  return values;
}

std::string Shown(const Figure& figure, double value) {
  return figure.percent ? absl::StrFormat("%.1f %%", 100 * value) : absl::StrFormat("%.2fx", value);
}

std::string ShownDifference(const Figure& figure, const Spread& spread) {
  const double unit = figure.percent ? 100 : 1;
  return absl::StrFormat(figure.percent ? "%+.1f [%+.1f, %+.1f]" : "%+.2f [%+.2f, %+.2f]", unit * spread.mean,
                         unit * spread.low, unit * spread.high);
}

std::string Introduction(const World& world, const std::vector<VariantRuns>& variants) {
  const SimScore& before = variants[0].runs[0].before;
  std::string text = absl::StrFormat(
      "%d tasks; before training: first turn %.1f %%, pass at 8 %.1f %%, speedup %.2fx; %d %s, %d steps\n",
      world.tasks.size(), 100 * before.first_turn_correct, 100 * before.pass_at_8, std::exp(before.log_speedup),
      variants[0].runs.size(), variants[0].runs.size() == 1 ? "seed" : "seeds", variants[0].runs[0].curve.size());
  if (world.tasks_left_out > 0) {
    absl::StrAppend(&text, world.tasks_left_out, " recorded tasks have one distinct outcome and were left out\n");
  }
  return text;
}

LineSeries Curve(const VariantRuns& variant, const Figure& figure) {
  LineSeries series;
  series.name = variant.name;
  const size_t steps = variant.runs[0].curve.size();
  const size_t stride = std::max<size_t>(1, steps / 100);
  for (size_t step = 0; step < steps; step += stride) {
    std::vector<double> values;
    for (const SimResult& run : variant.runs) values.push_back(figure.of(run.curve[step]));
    const Spread spread = SpreadOf(values);
    series.x.push_back(static_cast<double>(step + 1));
    series.y.push_back(spread.mean);
  }
  return series;
}

}  // namespace

absl::StatusOr<SimulationConfig> LoadSimulation(const std::string& path, const std::vector<std::string>& overrides) {
  std::string text = kDefaultText;
  if (!path.empty()) {
    HONE_ASSIGN_OR_RETURN(text, ReadFile(path, 16 << 20));
  }
  HONE_ASSIGN_OR_RETURN(const ConfigFile file,
                        ConfigFile::Parse(text, path.empty() ? "default simulation" : path, overrides));
  SimulationConfig config;
  HONE_RETURN_IF_ERROR(file.Read(config));
  return config;
}

absl::StatusOr<std::vector<SimVariant>> SweepSimulation(const std::string& path,
                                                        const std::vector<std::string>& overrides,
                                                        const rewards::Sweep& sweep) {
  HONE_ASSIGN_OR_RETURN(SimulationConfig full, LoadSimulation(path, overrides));
  std::vector<SimVariant> variants = {{"full", std::move(full)}};
  const std::string parameter = sweep.key.substr(sweep.key.rfind('.') + 1);
  for (const double value : sweep.values) {
    std::vector<std::string> all = overrides;
    all.push_back(absl::StrCat(sweep.key, "=", value));
    HONE_ASSIGN_OR_RETURN(SimulationConfig config, LoadSimulation(path, all));
    variants.push_back({absl::StrCat(parameter, "=", value), std::move(config)});
  }
  return variants;
}

absl::StatusOr<std::vector<VariantRuns>> RunVariants(const World& world, const std::vector<SimVariant>& variants,
                                                     int64_t seeds, uint64_t seed) {
  std::vector<VariantRuns> all;
  for (const SimVariant& variant : variants) {
    VariantRuns& runs = all.emplace_back(VariantRuns{variant.name, {}});
    for (int64_t i = 0; i < seeds; ++i) {
      HONE_ASSIGN_OR_RETURN(SimResult result, Simulate(world, variant.config, seed + static_cast<uint64_t>(i)));
      runs.runs.push_back(std::move(result));
    }
  }
  return all;
}

std::string SimText(const World& world, const std::vector<VariantRuns>& variants) {
  std::string text = Introduction(world, variants);
  size_t width = 8;
  for (const VariantRuns& variant : variants) width = std::max(width, variant.name.size());
  absl::StrAppendFormat(&text, "%-*s", static_cast<int>(width), "");
  for (const Figure& figure : kFigures) absl::StrAppendFormat(&text, "  %22s", figure.name);
  absl::StrAppend(&text, "\n");
  for (const VariantRuns& variant : variants) {
    absl::StrAppendFormat(&text, "%-*s", static_cast<int>(width), variant.name);
    for (const Figure& figure : kFigures) {
      const std::string cell = &variant == &variants[0]
                                   ? Shown(figure, SpreadOf(Values(variant, figure)).mean)
                                   : ShownDifference(figure, SpreadOf(Differences(variant, variants[0], figure)));
      absl::StrAppendFormat(&text, "  %22s", cell);
    }
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppend(&text,
                  "Rows below the first: difference to it, mean [smallest, largest] over seeds.\n"
                  "A tabular model under stated assumptions (trainer/simulate/simulation.h): directions, not sizes.\n");
  return text;
}

std::string SimCsv(const std::vector<VariantRuns>& variants) {
  std::string csv =
      "variant,run,first_turn_correct,pass_at_8,faster,speedup_geomean,rejected_sequences,repair_share,"
      "retry_hit_rate,zero_signal_share,skipped_steps\n";
  const auto metric = [](const SimResult& run, const char* name) {
    const auto found = run.metrics.find(name);
    return found == run.metrics.end() ? 0.0 : found->second;
  };
  for (const VariantRuns& variant : variants) {
    for (size_t i = 0; i < variant.runs.size(); ++i) {
      const SimResult& run = variant.runs[i];
      absl::StrAppend(&csv, rewards::CsvField(variant.name), ",", i, ",", run.after.first_turn_correct, ",",
                      run.after.pass_at_8, ",", run.after.faster, ",", std::exp(run.after.log_speedup), ",");
      absl::StrAppend(&csv, metric(run, "filter/rejected_sequences"), ",", metric(run, "retry/repair_share"), ",",
                      metric(run, "retry/hit_rate"), ",", metric(run, "reward/zero_signal_share"), ",",
                      run.skipped_steps, "\n");
    }
  }
  return csv;
}

std::string SimHtml(const World& world, const std::vector<VariantRuns>& variants) {
  HtmlReport report("Simulation", Introduction(world, variants));
  report.Warning(
      "A tabular policy under stated assumptions: it shows in which direction a mechanism pushes and nothing about "
      "the size of the effect on a language model.");
  HtmlTable table;
  table.columns = {"variant"};
  table.align = {Align::kLeft};
  for (const Figure& figure : kFigures) {
    table.columns.push_back(figure.name);
    table.columns.push_back(absl::StrCat("difference to ", variants[0].name));
    table.align.insert(table.align.end(), 2, Align::kRight);
  }
  for (const VariantRuns& variant : variants) {
    std::vector<std::string> row = {variant.name};
    for (const Figure& figure : kFigures) {
      row.push_back(Shown(figure, SpreadOf(Values(variant, figure)).mean));
      row.push_back(&variant == &variants[0]
                        ? "–"
                        : ShownDifference(figure, SpreadOf(Differences(variant, variants[0], figure))));
    }
    table.rows.push_back(std::move(row));
  }
  report.Section("After training");
  report.Table(table);
  report.Paragraph("Differences are taken seed by seed: mean [smallest, largest].");
  report.Section("Learning curves");
  for (const Figure& figure : kFigures) {
    std::vector<LineSeries> curves;
    for (const VariantRuns& variant : variants) curves.push_back(Curve(variant, figure));
    report.Figure(LineChart({.x_label = "step", .y_label = figure.name}, curves),
                  absl::StrCat("Mean over seeds: ", figure.name));
  }
  return report.Html();
}

}  // namespace hone::trainer
