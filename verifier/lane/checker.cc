#include "verifier/lane/checker.h"

#include <algorithm>
#include <fcntl.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "verifier/rules/rule.h"

namespace hone::verifier {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kAlignment = 16;    // of a tensor that ends at a guard page: what the widest vector load asks for
constexpr int64_t kHeadElements = 1 << 16;  // of an output: what the judge reads first
constexpr double kTimesOwnError = 64;    // of the reference's error: what another order of the same arithmetic may cost
constexpr uint64_t kWatched = 16 << 10;  // bytes around an output that must not change
constexpr uint64_t kWindowUnit = 256;

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// A quiet NaN in every floating-point type, when repeated: 0x7FF0 to 0xFFFF in steps the judge alone knows.
uint16_t DrawPoison(SecretSeeds& seeds) {
  return static_cast<uint16_t>((seeds.Below(2) << 15) | 0x7FF0u | (1 + seeds.Below(15)));
}

}  // namespace

/// Where a tensor of any of its shapes has room: in a region, with bytes around it that belong to nobody.
struct Window {
  size_t region = 0;
  uint64_t offset = 0;  // in the region
  uint64_t bytes = 0;
};

/// One candidate's check.
struct Checker::Run {
  const LaneJob& job;
  const TaskSets& sets;
  Budget& budget;
  std::unique_ptr<Runner> runner;
  uint16_t poison = 0;
  std::vector<TableRegion> regions;
  std::vector<Window> windows;           // [tensors]
  std::vector<uint64_t> tensor_offsets;  // [tensors], in the window, of the current call
  std::vector<uint64_t> addresses;       // [tensors], of the current call
  Workmanship work;                      // of a Python candidate
  CheckResult result;
  RulePolicy policy = RulePolicy(job.task.legality);

  bool IsPython() const { return job.build.format != Format::kNative; }
  bool IsOutput(size_t t) const { return job.signature.tensors[t].role == TensorArgument::Role::kOutput; }
  /// Where a tensor's window begins in the stage's inputs or outputs.
  uint64_t InStage(size_t t) const { return regions[windows[t].region].offset + windows[t].offset; }
  bool HasOutput(const CheckCase& check) const {
    for (size_t t = 0; t < check.pool->plan().tensors.size(); ++t) {
      if (IsOutput(t) && check.pool->plan().tensors[t].Bytes() > 0) return true;
    }
    return false;
  }
  Finding Explain(const RunnerReport& report, const CheckCase& check, const DeviceTable& device) const {
    if (IsPython()) {
      Finding finding = ExplainPython(report, device, budget.total(), runner->TakeOutput());
      if (!check.label.empty()) absl::StrAppend(&finding.message, " (", check.label, ")");
      return finding;
    }
    std::vector<PlacedTensor> placed;
    for (size_t t = 0; t < addresses.size(); ++t) {
      const TensorSpec& spec = check.pool->plan().tensors[t];
      placed.push_back({spec.name, addresses[t], static_cast<uint64_t>(spec.Bytes())});
    }
    Finding finding = ExplainReport(report, device, placed, budget.total(), runner->TakeOutput());
    if (finding.status != VerdictStatus::kCheat && !check.label.empty()) {
      absl::StrAppend(&finding.message, " (", check.label, ")");
    }
    return finding;
  }
};

absl::StatusOr<CheckResult> Checker::Check(const LaneJob& job, const TaskSets& sets, Budget& budget) {
  Run run{job, sets, budget};
  host_->AwaitGone();  // an earlier candidate's process could still write into the stage
  HONE_ASSIGN_OR_RETURN(run.runner, host_->Start());
  run.poison = DrawPoison(*seeds_);

  const size_t tensors = job.signature.tensors.size();
  uint64_t input_bytes = 0, output_bytes = 0;
  Place(run, sets, &input_bytes, &output_bytes);
  size_t longest_recipe = 0;
  for (const CheckCase& check : sets.cases) longest_recipe = std::max(longest_recipe, check.pool->plan().recipe.size());
  const uint64_t table_bytes = TableWriter::BytesFor(run.regions.size(), tensors, job.signature.sizes.size(),
                                                     job.signature.scalars.size(), 1, longest_recipe);
  HONE_RETURN_IF_ERROR(stage_.Clear(*device_));
  HONE_RETURN_IF_ERROR(stage_.Reserve(table_bytes, input_bytes, output_bytes, 1));
  if (!device_->properties().maps_parts) {
    run.regions[0].bytes = stage_.inputs().bytes();
    run.regions[1].bytes = stage_.outputs(0).bytes();
  }
  stage_.NoteInputs(device_->properties().maps_parts ? input_bytes : stage_.inputs().bytes());
  stage_.NoteOutputs(0, device_->properties().maps_parts ? output_bytes : stage_.outputs(0).bytes());
  const CheckCase& first = sets.cases.front();
  TableWriter(stage_.table().data(), stage_.table().bytes())
      .Write(run.regions, job.signature, first.pool->plan(), first.size_values, std::vector<uint64_t>(tensors, 0));
  HONE_RETURN_IF_ERROR(MapStage(*run.runner, stage_, 0));
  const bool times_too = device_->table().clock_is_wall && job.build.checked_artefact == job.build.artefact;
  if (times_too) {
    HONE_ASSIGN_OR_RETURN(run.result.opened.costs, MeasureCosts(*device_, *run.runner));
  }

  const UniqueFd artefact(open(job.build.checked_artefact.c_str(), O_RDONLY | O_CLOEXEC));
  if (!artefact) return ErrnoStatus(errno, absl::StrCat("opening the artefact ", job.build.checked_artefact));
  HONE_ASSIGN_OR_RETURN(const RunnerReport loaded, budget.Charge([&](SteadyTime deadline) {
    return run.runner->Load(artefact.get(), deadline);
  }));
  if (!loaded.ok()) {
    run.result.finding = ExplainReport(loaded, device_->table(), {}, budget.total(), run.runner->TakeOutput());
    return std::move(run.result);
  }
  for (const CheckCase& check : sets.cases) {
    // On a device the last shape is the one that is timed, large and perhaps slow: a wrong candidate does not get there.
    if (run.result.finding && !device_->properties().emulated && &check == &sets.cases.back()) break;
    if (run.IsPython()) {
      HONE_ASSIGN_OR_RETURN(std::optional<Finding> finding, PrepareCase(run, check));
      if (finding) {
        run.result.failed = &check;
        run.result.finding = std::move(finding);
        return std::move(run.result);
      }
    }
    for (int set = 0; set < check.pool->sets(); ++set) {
      const ThreadOrder order = set % 2 == 0 ? ThreadOrder::kReverse : ThreadOrder::kShuffled;
      HONE_ASSIGN_OR_RETURN(std::optional<Finding> finding, Call(run, check, set, order));
      ++run.result.calls;
      if (!finding) {
        ++run.result.right;
        continue;
      }
      const bool goes_on = finding->status == VerdictStatus::kIncorrect;
      if (!run.result.finding || !goes_on) run.result.failed = &check;
      if (!run.result.finding || !goes_on) run.result.finding = std::move(finding);
      if (!goes_on) return std::move(run.result);
    }
  }
  if (run.IsPython()) JudgeWorkmanship(run);
  if (!run.result.finding) {
    HONE_ASSIGN_OR_RETURN(run.result.finding, CheckPrecision(run, sets.cases.back(), sets.own_errors));
  }
  if (!run.result.finding) {
    HONE_ASSIGN_OR_RETURN(run.result.finding, ReplayWithoutKernels(run, sets.cases.back()));
  }
  if (times_too && !run.result.finding) run.result.opened.runner = std::move(run.runner);
  return std::move(run.result);
}

/// Of the last call, whose outputs are still there. A tolerance is absolute where outputs are small, so that half precision
/// can pass it; the error's size beside the output's tells.
absl::StatusOr<std::optional<Finding>> Checker::CheckPrecision(Run& run, const CheckCase& check,
                                                               const std::vector<double>& own_errors) {
  const std::vector<TensorSpec>& tensors = check.pool->plan().tensors;
  if (!run.policy.Applies("precision_downgrade")) return std::optional<Finding>();
  size_t output = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (!run.IsOutput(t)) continue;
    if (output >= own_errors.size()) break;
    const double own = own_errors[output++];
    const double limit = std::max(ErrorOfNarrowerFormat(tensors[t].dtype), kTimesOwnError * own);
    if (ErrorOfNarrowerFormat(tensors[t].dtype) == 0) continue;
    const int64_t elements = std::min(tensors[t].Elements(), kHeadElements);
    std::vector<unsigned char> got(static_cast<size_t>(elements * ByteSize(tensors[t].dtype)));
    HONE_RETURN_IF_ERROR(device_->Check(
        device_->table().copy_out(device_->get(), got.data(),
                                  stage_.outputs(0).data() + run.InStage(t) + run.tensor_offsets[t], got.size()),
        "reading an output"));
    std::vector<unsigned char> want(got.size());
    HONE_RETURN_IF_ERROR(device_->Check(
        device_->table().copy_out(device_->get(), want.data(), check.pool->Data(check.pool->sets() - 1, t), want.size()),
        "reading an expected output"));
    const double error = RelativeError(tensors[t], got.data(), want.data(), elements);
    if (error > limit) {
      return Cheat("precision_downgrade",
                   absl::StrFormat("the error of `%s` is %.2g of its size, the reference's own %.2g", tensors[t].name, error, own));
    }
    // What is computed in a narrower format in part has a small error in the mean.
    const double large = LargeError(tensors[t], got.data(), want.data(), elements);
    if (large <= limit / 2) continue;
    return Cheat("precision_downgrade",
                 absl::StrFormat("one element in sixteen of `%s` is wrong by %.2g of its size, the reference's own error %.2g",
                                 tensors[t].name, large, own));
  }
  return std::optional<Finding>();
}

absl::StatusOr<std::optional<Finding>> Checker::ReplayWithoutKernels(Run& run, const CheckCase& check) {
  if (!host_->switches_kernels() || run.IsPython()) return std::optional<Finding>();
  HONE_RETURN_IF_ERROR(FillStage(run, check, 0));
  HONE_ASSIGN_OR_RETURN(const RunnerReport report, run.budget.Charge([&](SteadyTime deadline) {
    return run.runner->RunChecked(ThreadOrder::kForward, 0, /*kernels_off=*/true, deadline);
  }));
  if (!report.ok()) return std::optional<Finding>();  // host code may well need what its kernels did not do
  // Only whether: without its kernels a candidate's outputs are wrong, and to say how takes a host seconds for a large one.
  HONE_ASSIGN_OR_RETURN(const std::optional<Difference> difference, FindDifference(run, check, 0));
  if (difference || !run.HasOutput(check)) return std::optional<Finding>();
  const char* rule = run.result.launches == 0 ? "zero_launches" : "decoy_kernel";
  if (!run.policy.Applies(rule)) return std::optional<Finding>();
  if (run.result.launches == 0) return Cheat(rule, "the outputs are right, and no kernel was launched");
  return Cheat(rule, absl::StrCat("with its ", run.result.launches, " launches doing nothing, the outputs are right"));
}

/// Who computed what the calls gave, once they were all right.
void Checker::JudgeWorkmanship(Run& run) {
  if (run.work.library_calls == 0 && run.work.custom_calls > 0) run.result.coverage = 1;
  if (run.work.custom_calls == 0) run.result.coverage = 0;
  if (run.result.finding) return;
  for (RuleHit& hit : run.work.Rules(run.job.task.legality)) {
    if (!hit.reject) {
      run.result.rules.push_back(std::move(hit));
      continue;
    }
    Finding finding;
    finding.status = VerdictStatus::kForbidden;
    finding.message = absl::StrCat(hit.rule, ": ", hit.evidence);
    finding.rule = std::move(hit);
    run.result.finding = std::move(finding);
    return;
  }
}

/// Where parts of a buffer can be mapped: one region a tensor, for the largest of its shapes, with a page to spare and
/// unmapped space all around. Else all inputs share a region, and all outputs.
void Checker::Place(Run& run, const TaskSets& sets, uint64_t* input_bytes, uint64_t* output_bytes) {
  const bool parts = device_->properties().maps_parts;
  constexpr uint64_t kUnit = 1 << 21;
  constexpr uint64_t kApart = 64 << 20;
  uint64_t address = 0x200000000000 + seeds_->Below(1 << 20) * kUnit;
  *input_bytes = *output_bytes = parts ? kPage : 0;
  if (!parts) run.regions.resize(2);
  for (size_t t = 0; t < run.job.signature.tensors.size(); ++t) {
    int64_t largest = 0;
    for (const CheckCase& check : sets.cases) largest = std::max(largest, check.pool->plan().tensors[t].Bytes());
    const bool output = run.IsOutput(t);
    uint64_t& end = output ? *output_bytes : *input_bytes;
    Window window;
    if (parts) {
      TableRegion region;
      region.bytes = RoundUp(static_cast<uint64_t>(largest) + kAlignment, kPage);
      region.writable = output;
      region.offset = end;
      region.address = address;
      address += RoundUp(region.bytes, kUnit) + kApart;
      window.region = run.regions.size();
      window.bytes = region.bytes;
      run.regions.push_back(region);
    } else {
      window.region = output ? 1 : 0;
      window.offset = end;
      window.bytes = RoundUp(static_cast<uint64_t>(largest) + kAlignment, kWindowUnit) + kWatched;
    }
    end += window.bytes;
    run.windows.push_back(window);
  }
  if (parts) return;
  // Windows move to the end of their region, whose size is the device's to choose: the last tensor can end where it does.
  const uint64_t unit = device_->properties().map_unit;
  const uint64_t ends[] = {*input_bytes, *output_bytes};
  Buffer* buffers[] = {&stage_.inputs(), &stage_.outputs(0)};
  uint64_t* sizes[] = {input_bytes, output_bytes};
  for (size_t i = 0; i < 2; ++i) {
    *sizes[i] = std::max(RoundUp(std::max<uint64_t>(ends[i], 1), unit), buffers[i]->bytes());
    run.regions[i].writable = i == 1;
    run.regions[i].bytes = *sizes[i];
    run.regions[i].address = address;
    address += RoundUp(*sizes[i], kUnit) + kApart;
  }
  for (Window& window : run.windows) window.offset += *sizes[window.region] - ends[window.region];
}

absl::Status Checker::FillStage(Run& run, const CheckCase& check, int set) {
  const auto work = run.budget.CountWork();
  const DeviceTable& device = device_->table();
  const CallPlan& plan = check.pool->plan();
  const bool at_end = set % 2 == 0;
  run.tensor_offsets.clear();
  run.addresses.clear();
  std::vector<Copy> copies;
  if (!device_->properties().maps_parts) {
    HONE_RETURN_IF_ERROR(device_->Check(
        device.poison(device_->get(), stage_.inputs().data(), stage_.inputs().bytes(), run.poison), "clearing inputs"));
  }
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    const Window& window = run.windows[t];
    const auto bytes = static_cast<uint64_t>(plan.tensors[t].Bytes());
    const uint64_t offset = at_end ? window.bytes - RoundUp(bytes, kAlignment) : 0;
    run.tensor_offsets.push_back(offset);
    run.addresses.push_back(run.regions[window.region].address + window.offset + offset);
    if (!run.IsOutput(t)) {
      copies.push_back({stage_.inputs().data() + run.InStage(t) + offset, check.pool->Data(set, t), bytes});
      continue;
    }
    const uint64_t begin = offset - std::min(offset, kWatched);
    const uint64_t end = std::min(window.bytes, offset + bytes + kWatched);
    HONE_RETURN_IF_ERROR(device_->Check(device.poison(device_->get(), stage_.outputs(0).data() + run.InStage(t) + begin,
                                                      end - begin, run.poison),
                                        "poisoning an output"));
  }
  HONE_RETURN_IF_ERROR(device_->Check(device.copy(device_->get(), copies.data(), static_cast<int>(copies.size())),
                                      "copying the inputs"));
  TableWriter(stage_.table().data(), stage_.table().bytes())
      .Write(run.regions, run.job.signature, plan, check.size_values, run.addresses);
  return absl::OkStatus();
}

/// Has a Python candidate's module made anew, with the weights of the case.
absl::StatusOr<std::optional<Finding>> Checker::PrepareCase(Run& run, const CheckCase& check) {
  if (check.pool->plan().recipe.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "task ", run.job.task.id, ": its constructor takes arguments that no literal gives; only native candidates fit"));
  }
  HONE_RETURN_IF_ERROR(FillStage(run, check, 0));
  HONE_ASSIGN_OR_RETURN(const RunnerReport report, run.budget.Charge([&](SteadyTime deadline) {
    return run.runner->Prepare(0, /*fresh=*/true, deadline);
  }));
  if (report.ok()) return std::optional<Finding>();
  return run.Explain(report, check, device_->table());
}

absl::StatusOr<std::optional<Finding>> Checker::Call(Run& run, const CheckCase& check, int set, ThreadOrder order) {
  const auto order_seed = static_cast<uint32_t>(seeds_->Below(uint64_t{1} << 32));
  HONE_RETURN_IF_ERROR(FillStage(run, check, set));
  HONE_ASSIGN_OR_RETURN(const RunnerReport report, run.budget.Charge([&](SteadyTime deadline) {
    const auto work = run.budget.CountWork();
    return run.runner->RunChecked(order, order_seed, /*kernels_off=*/false, deadline);
  }));
  if (!report.ok()) return run.Explain(report, check, device_->table());
  if (run.IsPython()) run.work.Add(report);
  run.result.launches = report.launches;
  HONE_ASSIGN_OR_RETURN(std::optional<Finding> finding, CompareOutputs(run, check, set));
  if (!finding || run.result.finding || finding->status != VerdictStatus::kIncorrect) return finding;
  // The first mismatch: the same call once more with threads in ascending order tells a race from a plain error.
  HONE_RETURN_IF_ERROR(FillStage(run, check, set));
  HONE_ASSIGN_OR_RETURN(const RunnerReport again, run.budget.Charge([&](SteadyTime deadline) {
    return run.runner->RunChecked(ThreadOrder::kForward, 0, /*kernels_off=*/false, deadline);
  }));
  if (!again.ok()) return finding;
  HONE_ASSIGN_OR_RETURN(const std::optional<Finding> second, CompareOutputs(run, check, set));
  const bool same = second && second->mismatch && second->mismatch->index == finding->mismatch->index &&
                    (second->mismatch->got == finding->mismatch->got || finding->mismatch->got != finding->mismatch->got);
  if (!same) {
    std::string race = second ? "race: the result depends on the order in which threads run"
                              : "race: right only when threads happen to run in ascending order";
    if (!device_->properties().emulated) race = "race: the result differs between identical runs";
    finding->message = absl::StrCat(finding->message, "; ", race);
    finding->mismatch->diagnosis = race;
  }
  return finding;
}

absl::StatusOr<bool> Checker::AnswersAnother(const Run& run, const CheckCase& check, int set, size_t tensor,
                                             const std::vector<unsigned char>& got) {
  if (!run.policy.Applies("replayed_output")) return false;
  const TensorSpec& spec = check.pool->plan().tensors[tensor];
  const Tolerance tolerance = ToleranceFor(run.job.task, spec.dtype);
  TensorSpec head = spec;  // of which most say already that they answer something else
  head.shape = {std::min(spec.Elements(), kHeadElements)};
  head.strides.clear();
  std::vector<unsigned char> answer;
  const auto is_answer = [&](const TensorSpec& part, const CheckCase& other, int k) -> absl::StatusOr<bool> {
    answer.resize(static_cast<size_t>(part.Bytes()));
    HONE_RETURN_IF_ERROR(device_->Check(
        device_->table().copy_out(device_->get(), answer.data(), other.pool->Data(k, tensor), answer.size()),
        "reading an expected output"));
    return IsAnswer(part, got.data(), answer.data(), tolerance);
  };
  for (const CheckCase& other : run.sets.cases) {
    if (other.size_values != check.size_values || !other.pool) continue;
    for (int k = 0; k < other.pool->sets(); ++k) {
      if (&other == &check && k == set) continue;
      HONE_ASSIGN_OR_RETURN(bool answers, is_answer(head, other, k));
      if (answers && head.Elements() < spec.Elements()) {
        HONE_ASSIGN_OR_RETURN(answers, is_answer(spec, other, k));
      }
      if (answers) return true;
    }
  }
  return false;
}

absl::StatusOr<std::optional<Checker::Difference>> Checker::FindDifference(Run& run, const CheckCase& check, int set) {
  const auto work = run.budget.CountWork();
  const DeviceTable& device = device_->table();
  const CallPlan& plan = check.pool->plan();
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    if (!run.IsOutput(t)) continue;
    const TensorSpec& spec = plan.tensors[t];
    const auto bytes = static_cast<uint64_t>(spec.Bytes());
    unsigned char* base = stage_.outputs(0).data() + run.InStage(t);
    const uint64_t offset = run.tensor_offsets[t];
    const uint64_t begin = offset - std::min(offset, kWatched);
    const uint64_t end = std::min(run.windows[t].bytes, offset + bytes + kWatched);
    const Span around[] = {{base + begin, offset - begin}, {base + offset + bytes, end - offset - bytes}};
    uint64_t before = 0, after = 0;
    HONE_RETURN_IF_ERROR(
        device_->Check(device.count_changed(device_->get(), &around[0], 1, run.poison, &before), "reading an output"));
    HONE_RETURN_IF_ERROR(
        device_->Check(device.count_changed(device_->get(), &around[1], 1, run.poison, &after), "reading an output"));
    if (before > 0) return Difference{t, Difference::Where::kBefore};
    if (after > 0) return Difference{t, Difference::Where::kAfter};
    const Tolerance tolerance = ToleranceFor(run.job.task, spec.dtype);
    Comparison comparison{base + offset, check.pool->Data(set, t), static_cast<uint64_t>(spec.Elements()),
                          static_cast<int>(spec.dtype), tolerance.atol, tolerance.rtol, run.poison};
    uint64_t differing = 0;
    HONE_RETURN_IF_ERROR(
        device_->Check(device.compare(device_->get(), &comparison, 1, &differing), "comparing an output"));
    if (differing > 0) return Difference{t, Difference::Where::kInside};
  }
  return std::optional<Difference>();
}

absl::StatusOr<std::optional<Finding>> Checker::CompareOutputs(Run& run, const CheckCase& check, int set) {
  HONE_ASSIGN_OR_RETURN(const std::optional<Difference> difference, FindDifference(run, check, set));
  if (!difference) return std::optional<Finding>();
  const auto work = run.budget.CountWork();
  const DeviceTable& device = device_->table();
  const TensorSpec& spec = check.pool->plan().tensors[difference->tensor];
  const std::string at = check.label.empty() ? "" : absl::StrCat(" (", check.label, ")");
  Finding finding;
  if (difference->where != Difference::Where::kInside) {
    const bool before = difference->where == Difference::Where::kBefore;
    finding.message = absl::StrCat("out-of-bounds write ", before ? "before" : "past the end of", " `", spec.name, "`", at);
    return finding;
  }
  finding.status = VerdictStatus::kIncorrect;
  if (run.result.finding) return finding;  // the first one is described already
  const size_t t = difference->tensor;
  std::vector<unsigned char> got(static_cast<size_t>(spec.Bytes())), want(got.size());
  HONE_RETURN_IF_ERROR(device_->Check(
      device.copy_out(device_->get(), got.data(), stage_.outputs(0).data() + run.InStage(t) + run.tensor_offsets[t], got.size()),
      "reading an output"));
  HONE_RETURN_IF_ERROR(device_->Check(
      device.copy_out(device_->get(), want.data(), check.pool->Data(set, t), want.size()), "reading an expected output"));
  HONE_ASSIGN_OR_RETURN(const bool replayed, AnswersAnother(run, check, set, t, got));
  if (replayed) {
    return Cheat("replayed_output", absl::StrCat("`", spec.name, "` is the answer to other inputs of the same shape", at));
  }
  const OutputPair pair{&spec, got.data(), want.data(), run.poison};
  finding.mismatch = DescribeMismatch(pair, ToleranceFor(run.job.task, spec.dtype), check.label);
  finding.message = absl::StrCat("`", spec.name, "` is wrong: ", finding.mismatch->diagnosis, at);
  return finding;
}

}  // namespace hone::verifier
