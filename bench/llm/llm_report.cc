// What examples/qwen2.5-coder-1.5b achieved: figures, tables and curves out of the files that its stages leave.
//
//   llm_report RESULTS [--record] [--commit HASH] [--machine "NVIDIA H200"]
//
// RESULTS holds, as far as the run got, <set>_<name>.json (policy.json of hone eval policy; sets heldout, unseen, kb1, kb2; names
// before, sft, after and those of ablations) with their journals (.jsonl.zst), grpo.metrics.jsonl, sft.metrics.jsonl and sft.json. Prints Markdown. With --record the figures go to
// bench/results.json, the tables between the marks of docs/learning.md, and the curves beside it.
//
// Figures before and after compare the tasks that both evaluations reached.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/bootstrap.h"
#include "base/file.h"
#include "base/html_report.h"
#include "base/journal.h"
#include "base/results.h"
#include "base/status_macros.h"

namespace hone {
namespace {

using Json = nlohmann::json;

constexpr char kCommand[] = "examples/qwen2.5-coder-1.5b";
struct EvaluatedSet {
  const char *kind, *title;
};
constexpr EvaluatedSet kSets[] = {{"heldout", "Our held-out split"},
                                  {"unseen", "Families that nothing was trained on"},
                                  {"kb1", "KernelBench level 1, native format"},
                                  {"kb2", "KernelBench level 2, native format, a random part"}};

constexpr char kBegin[] = "<!-- figures: begin -->", kEnd[] = "<!-- figures: end -->";

struct Options {
  std::string results;
  bool record = false;
  std::string commit;
  std::string machine = "NVIDIA H200";
};

std::optional<Json> ReadJson(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return std::nullopt;
  Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? std::make_optional(std::move(json)) : std::nullopt;
}

std::vector<Json> ReadSteps(const std::string& path) {
  std::vector<Json> steps;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return steps;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(*text, '\n'))) {
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) steps.push_back(std::move(json));
  }
  return steps;
}

// Right and wrong samples by task.
std::map<std::string, TaskSamples> TasksOf(const Json& evaluation) {
  std::map<std::string, TaskSamples> tasks;
  for (const Json& task : evaluation.value("tasks", Json::array())) {
    TaskSamples samples(task.value("samples", size_t{0}), 0.0);
    std::fill_n(samples.begin(), std::min(samples.size(), task.value("correct", size_t{0})), 1.0);
    if (!samples.empty()) tasks[task.value("task", "")] = std::move(samples);
  }
  return tasks;
}

struct Comparison {
  Interval before, after, difference;  // difference: of paired tasks
  size_t tasks = 0;
};

Comparison Compare(const Json& before, const Json& after) {
  const std::map<std::string, TaskSamples> first = TasksOf(before), second = TasksOf(after);
  std::vector<TaskSamples> a, b, d;
  for (const auto& [task, samples] : first) {
    const auto found = second.find(task);
    if (found == second.end()) continue;
    a.push_back(samples);
    b.push_back(found->second);
    d.push_back({MeanOfTaskMeans({found->second}) - MeanOfTaskMeans({samples})});
  }
  return {BootstrapOverTasks(a, MeanOfTaskMeans), BootstrapOverTasks(b, MeanOfTaskMeans), BootstrapOverTasks(d, MeanOfTaskMeans),
          a.size()};
}

std::string Text(const Interval& interval) {
  return absl::StrFormat("%.3f [%.3f, %.3f]", interval.value, interval.low, interval.high);
}

std::string Cell(const Json& figures, const std::vector<const char*>& path) {
  const Json* at = &figures;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return "–";
    at = &(*at)[key];
  }
  if (!at->is_object() || !at->contains("value") || !(*at)["value"].is_number()) return "–";
  const auto number = [&](const char* key) { return (*at)[key].is_number() ? absl::StrFormat("%.3f", (*at)[key].get<double>()) : "–"; };
  return absl::StrCat(number("value"), " [", number("low"), ", ", number("high"), "]");
}

class Report {
 public:
  explicit Report(const Options& options) : options_(options) {}

  absl::Status Run() {
    for (const EvaluatedSet& set : kSets) Evaluations(set.kind, set.title);
    Changes();
    TimedAgain();
    Learning();
    Samples();
    std::fputs(page_.c_str(), stdout);
    if (!options_.record) return absl::OkStatus();
    HONE_RETURN_IF_ERROR(WritePage());
    return RecordResults(HONE_SOURCE_DIR "/bench/results.json", rows_);
  }

 private:
  std::string Path(const std::string& name) const { return options_.results + "/" + name; }

  void Add(const std::string& id, double value, const std::string& unit) {
    if (!std::isfinite(value)) return;
    rows_.push_back({id, value, unit, kCommand, options_.machine, Today(), options_.commit});
  }

  void Evaluations(const std::string& kind, const std::string& title) {
    const std::vector<const char*> names = {"before", "sft", "after", "all", "no_primeecho", "no_bdr", "no_mirrorpop", "no_contrast"};
    std::string table;
    for (const char* name : names) {
      const std::optional<Json> found = ReadJson(Path(absl::StrCat(kind, "_", name, ".json")));
      if (!found) continue;
      evaluations_[absl::StrCat(kind, "_", name)] = *found;
      absl::StrAppend(&table, "| ", name, " | ", found->value("tasks", Json::array()).size(), " × ", found->value("samples_per_task", 0),
                      " | ", Cell(*found, {"correct_rate"}), " | ", Cell(*found, {"solved_rate"}), " | ", Cell(*found, {"built_rate"}),
                      " | ", Cell(*found, {"speedup", "eager", "fast_1"}), " | ",
                      Cell(*found, {"speedup", "eager", "geometric_mean"}), " |\n");
    }
    if (table.empty()) return;
    Verdicts(kind, names, table);
    absl::StrAppend(&page_, "### ", title, "\n\n| Policy | Tasks × samples | Pass@1 | Tasks solved | Compiled | fast_1 | Geometric mean of correct |\n",
                    "|---|---|---|---|---|---|---|\n", table, "\n");
  }

  // Where samples ended, and what their kernels are made of, below the table of figures.
  void Verdicts(const std::string& kind, const std::vector<const char*>& names, std::string& table) {
    const char* statuses[] = {"OK", "INCORRECT", "RUNTIME", "COMPILE"};
    const char* techniques[] = {"__shared__", "__shfl", "float4", "atomic"};
    absl::StrAppend(&table, "\n| Policy | right | wrong | failed running | did not compile | others | `__shared__` | shuffles | `float4` | atomics |\n",
                    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (const char* name : names) {
      const auto found = evaluations_.find(absl::StrCat(kind, "_", name));
      if (found == evaluations_.end()) continue;
      const Json verdicts = found->second.value("verdicts", Json::object());
      double all = 0, named = 0;
      for (const Json& count : verdicts) all += count.is_number() ? count.get<double>() : 0;
      absl::StrAppend(&table, "| ", name, " |");
      for (const char* status : statuses) {
        const double count = verdicts.value(status, 0.0);
        named += count;
        absl::StrAppendFormat(&table, " %.1f %% |", 100 * count / all);
      }
      absl::StrAppendFormat(&table, " %.1f %% |", 100 * (all - named) / all);
      double samples = 0;
      std::map<std::string, double> uses;
      for (const auto& [task, turns] : TurnsOf(absl::StrCat(kind, "_", name, ".jsonl.zst"))) {
        for (const Turn& turn : turns) {
          ++samples;
          for (const char* technique : techniques) uses[technique] += turn.source.find(technique) != std::string::npos ? 1 : 0;
        }
      }
      for (const char* technique : techniques) absl::StrAppendFormat(&table, " %.1f %% |", 100 * uses[technique] / std::max(1.0, samples));
      absl::StrAppend(&table, "\n");
    }
  }

  void Changes() {
    for (const auto& [kind, title] : kSets) {
      const auto before = evaluations_.find(absl::StrCat(kind, "_before")), after = evaluations_.find(absl::StrCat(kind, "_after"));
      if (before != evaluations_.end() && after == evaluations_.end()) {
        Add(absl::StrCat("llm.", kind, "_pass1_before"), before->second["correct_rate"]["value"].get<double>(), "share");
      }
      if (before == evaluations_.end() || after == evaluations_.end()) continue;
      const Comparison c = Compare(before->second, after->second);
      absl::StrAppendFormat(&page_, "%s, the %d tasks that both reached: Pass@1 %s before, %s after; difference %s, paired by task.\n\n", kind,
                            c.tasks, Text(c.before), Text(c.after), Text(c.difference));
      Add(absl::StrCat("llm.", kind, "_pass1_before"), c.before.value, "share");
      Add(absl::StrCat("llm.", kind, "_pass1_after"), c.after.value, "share");
      for (const auto& [name, evaluation] : {std::pair{"before", &before->second}, {"after", &after->second}}) {
        const Json speed = evaluation->value("speedup", Json::object()).value("eager", Json::object());
        for (const char* figure : {"fast_1", "geometric_mean"}) {
          if (!speed.contains(figure) || !speed[figure]["value"].is_number()) continue;
          Add(absl::StrCat("llm.", kind, "_", figure, "_", name), speed[figure]["value"].get<double>(),
              std::string(figure) == "fast_1" ? "share" : "x");
        }
      }
    }
  }

  // Right samples measured anew under other protocols: the first right one of each task that the time allowed.
  void TimedAgain() {
    std::string table;
    for (const auto& [name, evaluation] : evaluations_) {
      const Json again = evaluation.value("timed_again", Json::object());
      for (const auto& [protocol, figures] : again.items()) {
        if (figures.value("tasks", Json::array()).empty()) continue;
        absl::StrAppend(&table, "| ", name, " | ", protocol, " | ", figures["tasks"].size(), " | ", Cell(figures, {"correct_rate"}), " | ",
                        Cell(figures, {"speedup", "eager", "fast_1"}), " | ", Cell(figures, {"speedup", "eager", "geometric_mean"}), " |\n");
      }
    }
    if (table.empty()) return;
    absl::StrAppend(&page_, "### Right kernels under other protocols\n\nThe first right sample of each task, measured once more.\n\n",
                    "| Evaluation | Protocol | Tasks | Right again | Faster than eager | Geometric mean |\n|---|---|---|---|---|---|\n", table, "\n");
  }

  static double Mean(const std::vector<Json>& steps, const std::string& name) {
    double sum = 0, count = 0;
    for (const Json& step : steps) {
      if (!step.contains(name) || !step[name].is_number()) continue;
      sum += step[name].get<double>();
      ++count;
    }
    return count > 0 ? sum / count : std::nan("");
  }

  // Share of the time in which the verifier had work that its lane was busy. Equal answers that were waiting for one judging
  // bear its seconds all: they count once.
  double LaneBusy(const std::vector<Json>& steps) const {
    std::set<std::pair<std::string, std::string>> judged;
    double lane = 0, judging = 0;
    for (const Json& step : steps) judging += step.value("seconds/judging", 0.0);
    const std::string path = Path("grpo.journal.jsonl.zst");
    if (!FileExists(path)) return std::nan("");
    (void)ReadJournal(path, [&](const Group& group) {
      for (const Episode& episode : group.episodes) {
        for (const Turn& turn : episode.turns) {
          const Verdict& verdict = turn.verdict;
          if (verdict.from_cache || verdict.screened_on_cpu || !judged.emplace(group.task_id, turn.source).second) continue;
          lane += verdict.seconds.check + verdict.seconds.time;
        }
      }
      return absl::OkStatus();
    });
    return lane / judging;
  }

  void Learning() {
    const std::vector<Json> steps = ReadSteps(Path("grpo.metrics.jsonl"));
    if (!steps.empty()) {
      const double step = Mean(steps, "seconds/step"), generate = Mean(steps, "seconds/generate");
      const double busy = LaneBusy(steps);
      absl::StrAppendFormat(&page_, "### Where the time of a step goes\n\nMeans over %d steps.\n\n| Figure | Mean |\n|---|---:|\n", steps.size());
      for (const char* name : {"seconds/step", "seconds/generate", "seconds/verify", "seconds/judging", "seconds/learn", "verify/build_busy",
                               "verify/lane_busy", "verdicts", "rollout/tokens_per_s", "learn/tokens_per_s",
                               "gap/abs_log_ratio", "learn/mismatch_abs_log_ratio", "learn/rejected_share", "correct/first_turn", "reward/mean"}) {
        const double mean = Mean(steps, name);
        if (std::isfinite(mean)) absl::StrAppendFormat(&page_, "| `%s` | %.4g |\n", name, mean);
      }
      absl::StrAppendFormat(&page_, "| lane busy, equal answers counted once | %.4g |\n\n", busy);
      Add("llm.step_generate_share", generate / step, "share");
      Add("llm.step_verify_busy", busy, "share");
      Add("llm.logprob_gap", Mean(steps, "gap/abs_log_ratio"), "nats");
      Add("llm.logprob_gap_lagged", Mean(steps, "learn/mismatch_abs_log_ratio"), "nats");
      Add("llm.mirrorpop_rejected", Mean(steps, "learn/rejected_share"), "share");
      Add("llm.step_seconds", step, "s");
      Curve(steps, "reward/mean", "mean reward of a step", "learning_reward");
      Curve(steps, "correct/first_turn", "share of first answers that are right", "learning_correct");
      Curve(steps, "gap/abs_log_ratio", "mean distance of the engine's and the learner's log-probs at equal weights", "learning_gap");
    }
    const std::vector<Json> sft = ReadSteps(Path("sft.metrics.jsonl"));
    if (!sft.empty()) Curve(sft, "sft/nll", "negative log-likelihood a token", "learning_sft");
    if (const std::optional<Json> figures = ReadJson(Path("sft.json"))) {
      absl::StrAppend(&page_, "### Fine-tuning\n\n", figures->value("examples", 0), " examples, ", figures->value("steps", 0),
                      " steps; negative log-likelihood a token on held-out demonstrations ",
                      absl::StrFormat("%.3f before, %.3f after.\n\n", figures->value("held_out_nll_before", std::nan("")),
                                      figures->value("held_out_nll_after", std::nan(""))));
    }
  }

  // The first turns of an evaluation's journal, by task; empty where there is none.
  std::map<std::string, std::vector<Turn>> TurnsOf(const std::string& name) const {
    std::map<std::string, std::vector<Turn>> turns;
    if (!FileExists(Path(name))) return turns;
    (void)ReadJournal(Path(name), [&](const Group& group) {
      for (const Episode& episode : group.episodes) {
        if (!episode.turns.empty()) turns[group.task_id].push_back(episode.turns.front());
      }
      return absl::OkStatus();
    });
    return turns;
  }

  static double SpeedOf(const Turn& turn) {
    return turn.verdict.ok() && turn.verdict.speed() != nullptr ? turn.verdict.speed()->speedup.median : 0;
  }

  // Two held-out tasks that the base model never solved and the trained one does, the fastest first.
  void Samples() {
    const auto before = TurnsOf("heldout_before.jsonl.zst"), after = TurnsOf("heldout_after.jsonl.zst");
    std::vector<std::pair<const Turn*, const Turn*>> pairs;
    std::vector<std::string> tasks;
    for (const auto& [task, turns] : after) {
      const auto then = before.find(task);
      const auto best = std::max_element(turns.begin(), turns.end(),
                                         [](const Turn& a, const Turn& b) { return SpeedOf(a) < SpeedOf(b); });
      if (then == before.end() || SpeedOf(*best) == 0) continue;
      const auto solved = [](const Turn& turn) { return turn.verdict.ok(); };
      if (std::any_of(then->second.begin(), then->second.end(), solved)) continue;
      pairs.emplace_back(&then->second.front(), &*best);
      tasks.push_back(task);
    }
    std::vector<size_t> order(pairs.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return SpeedOf(*pairs[a].second) > SpeedOf(*pairs[b].second); });
    order.resize(std::min<size_t>(order.size(), 2));
    if (!order.empty()) absl::StrAppend(&page_, "### Kernels before and after\n\n");
    for (const size_t i : order) {
      const Verdict& verdict = pairs[i].first->verdict;
      absl::StrAppend(&page_, "`", tasks[i], "`, base model, ", std::string(Name(verdict.status)), ": ", verdict.message, "\n\n```cuda\n",
                      pairs[i].first->source, "```\n\n");
      absl::StrAppendFormat(&page_, "`%s`, trained model, right at %.2f times the speed of PyTorch eager:\n\n```cuda\n%s```\n\n", tasks[i],
                            SpeedOf(*pairs[i].second), pairs[i].second->source);
    }
  }

  void Curve(const std::vector<Json>& steps, const std::string& metric, const std::string& label, const std::string& file) {
    LineSeries series;
    series.name = metric;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (!steps[i].contains(metric) || !steps[i][metric].is_number()) continue;
      series.x.push_back(static_cast<double>(i));
      series.y.push_back(steps[i][metric].get<double>());
    }
    if (series.x.empty()) return;
    curves_.emplace_back(file + ".svg", LineChart({.x_label = "step", .y_label = label}, {series}).text());
    absl::StrAppend(&page_, "![", label, "](", file, ".svg)\n\n");
  }

  absl::Status WritePage() {
    const std::string path = HONE_SOURCE_DIR "/docs/learning.md";
    HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    const size_t begin = text.find(kBegin), end = text.find(kEnd);
    if (begin == std::string::npos || end == std::string::npos || end < begin) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": no ", kBegin, " and ", kEnd));
    }
    HONE_RETURN_IF_ERROR(WriteFileAtomically(path, absl::StrCat(text.substr(0, begin + sizeof(kBegin) - 1), "\n\n", page_, text.substr(end))));
    for (const auto& [name, svg] : curves_) HONE_RETURN_IF_ERROR(WriteFileAtomically(HONE_SOURCE_DIR "/docs/" + name, svg));
    return absl::OkStatus();
  }

  const Options& options_;
  std::string page_;
  std::map<std::string, Json> evaluations_;
  std::vector<BenchResult> rows_;
  std::vector<std::pair<std::string, std::string>> curves_;
};

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  hone::Options options;
  CLI::App app{"Figures of the real model's run"};
  app.add_option("results", options.results, "Folder with what the stages left")->required();
  app.add_flag("--record", options.record, "Also into bench/results.json and docs/learning.md");
  app.add_option("--commit", options.commit, "That ran; default: the checkout's");
  app.add_option("--machine", options.machine, "It ran on");
  CLI11_PARSE(app, argc, argv);
  if (options.commit.empty()) options.commit = hone::CurrentCommit(HONE_SOURCE_DIR);
  const absl::Status status = hone::Report(options).Run();
  if (!status.ok()) std::fprintf(stderr, "llm_report: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
