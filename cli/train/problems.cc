#include "cli/train/problems.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/task_suite.h"
#include "rollout/prompt/skeleton.h"
#include "rollout/sampler/generator.h"

namespace hone::cli {
namespace {

Problem ProblemOf(const rollout::GeneratedTask& generated) { return {generated.task, generated.prompt}; }

absl::Status Unusable() {
  return absl::DataLossError("the checkpoint's task state is not one that this program wrote for this configuration");
}

class Generated : public ProblemSource {
 public:
  Generated(uint64_t seed, double named_share) : generator_(seed, Options(named_share)), named_share_(named_share) {}

  absl::StatusOr<Problem> Next() override { return ProblemOf(generator_.NextTask()); }
  void Report(const std::string&, bool) override {}  // every task is a new one

  absl::StatusOr<Problem> ById(const std::string& task_id) override {
    const std::optional<rollout::Program> program = rollout::ParseKey(task_id);
    if (!program) return absl::DataLossError("no program of the generator: " + task_id);
    return ProblemOf(rollout::MakeTask(*program));
  }

  absl::StatusOr<std::vector<Problem>> Listed(Split split) override {
    std::vector<Problem> problems;
    for (const rollout::GeneratedTask& task : rollout::NamedTasks(split)) problems.push_back(ProblemOf(task));
    return problems;
  }

  std::string Save() const override { return nlohmann::json{{"generator", generator_.state()}}.dump(); }
  absl::Status Restore(const std::string& text) override {
    const nlohmann::json state = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!state.is_object() || !state.contains("generator") || !state["generator"].is_number_unsigned()) return Unusable();
    generator_ = rollout::Generator(state["generator"].get<uint64_t>(), Options(named_share_));
    return absl::OkStatus();
  }

 private:
  static rollout::GeneratorOptions Options(double named_share) {
    rollout::GeneratorOptions options;
    options.named_share = named_share;
    return options;
  }

  rollout::Generator generator_;
  double named_share_;
};

class Collected : public ProblemSource {
 public:
  Collected(std::vector<Task> train, std::vector<Task> held_out, double settled_share, uint64_t seed, verifier::Client& client)
      : train_(std::move(train)), held_out_(std::move(held_out)), settled_share_(settled_share), random_(seed), client_(client) {}

  absl::StatusOr<Problem> Next() override {
    for (;;) {
      if (next_ == order_.size()) Shuffle();
      const Task& task = train_[order_[next_++]];
      if (settled_.count(task.id) == 0 || random_.Chance(settled_share_)) return ProblemOf(task);
    }
  }

  void Report(const std::string& task_id, bool settled) override {
    if (settled_share_ == 1) return;
    if (settled) {
      settled_.insert(task_id);
    } else {
      settled_.erase(task_id);
    }
  }

  absl::StatusOr<Problem> ById(const std::string& task_id) override {
    for (const Task& task : train_) {
      if (task.id == task_id) return ProblemOf(task);
    }
    return absl::DataLossError("no task to train on: " + task_id);
  }

  absl::StatusOr<std::vector<Problem>> Listed(Split split) override {
    std::vector<Problem> problems;
    for (const Task& task : split == Split::kTrain ? train_ : held_out_) {
      HONE_ASSIGN_OR_RETURN(Problem problem, ProblemOf(task));
      problems.push_back(std::move(problem));
    }
    return problems;
  }

  std::string Save() const override {
    return nlohmann::json{{"random", random_.state()}, {"order", order_}, {"next", next_}, {"settled", settled_}}.dump();
  }
  absl::Status Restore(const std::string& text) override {
    const nlohmann::json state = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!state.is_object() || !state.contains("random") || !state["random"].is_number_unsigned()) return Unusable();
    if (!state.contains("order") || !state["order"].is_array() || !state.contains("next")) return Unusable();
    std::vector<size_t> order;
    for (const auto& index : state["order"]) {
      if (!index.is_number_unsigned() || index.get<size_t>() >= train_.size()) return Unusable();
      order.push_back(index.get<size_t>());
    }
    if (!state["next"].is_number_unsigned() || state["next"].get<size_t>() > order.size()) return Unusable();
    std::set<std::string> settled;
    for (const auto& id : state.value("settled", nlohmann::json::array())) {
      if (!id.is_string()) return Unusable();
      settled.insert(id.get<std::string>());
    }
    random_ = rollout::SplitMix(state["random"].get<uint64_t>());
    settled_ = std::move(settled);
    order_ = std::move(order);
    next_ = state["next"].get<size_t>();
    return absl::OkStatus();
  }

 private:
  void Shuffle() {
    order_.resize(train_.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    for (size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[random_.Below(static_cast<int64_t>(i) + 1)]);
    next_ = 0;
  }

  absl::StatusOr<Problem> ProblemOf(const Task& task) {
    const auto known = entry_points_.find(task.id);
    if (known != entry_points_.end()) return Problem{task, known->second};
    HONE_ASSIGN_OR_RETURN(const Signature signature, client_.DescribeTask(task));
    std::string& text = entry_points_[task.id];
    text = rollout::Skeleton(signature);
    return Problem{task, text};
  }

  std::vector<Task> train_;
  std::vector<Task> held_out_;
  double settled_share_;
  std::set<std::string> settled_;  // ids
  rollout::SplitMix random_;
  std::vector<size_t> order_;
  size_t next_ = 0;
  std::map<std::string, std::string> entry_points_;  // by task id
  verifier::Client& client_;
};

}  // namespace

Problem ProblemOf(const Task& task, const Signature& signature) { return {task, rollout::Skeleton(signature)}; }

std::unique_ptr<ProblemSource> GeneratedProblems(uint64_t seed, double named_share) {
  return std::make_unique<Generated>(seed, named_share);
}

absl::StatusOr<std::unique_ptr<ProblemSource>> CollectedProblems(const TaskSettings& settings, uint64_t seed,
                                                                 verifier::Client& client) {
  const std::string path = settings.from == "suite" ? SuiteFolder() : settings.from;
  HONE_ASSIGN_OR_RETURN(const std::vector<Task> tasks, LoadTasks(path));
  std::vector<std::string> allowed = settings.allow_weak;
  std::vector<Task> train, held_out;
  size_t weak = 0;
  for (const Task& task : tasks) {
    const auto named = std::find(allowed.begin(), allowed.end(), task.id);
    const bool allow = named != allowed.end();
    if (allow) allowed.erase(named);
    if (task.split == Split::kHeldOut) {
      held_out.push_back(task);
    } else if (task.weak && !allow) {
      ++weak;
    } else {
      train.push_back(task);
    }
  }
  if (!allowed.empty()) return absl::InvalidArgumentError(absl::StrCat("tasks.allow_weak: ", path, " has no task ", allowed[0]));
  if (train.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("tasks.from: ", path, " has no task to train on: ", held_out.size(),
                                                   " held out, ", weak, " weak"));
  }
  return std::make_unique<Collected>(std::move(train), std::move(held_out), settings.settled_share, seed, client);
}

}  // namespace hone::cli
