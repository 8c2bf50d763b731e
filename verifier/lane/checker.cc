#include "verifier/lane/checker.h"

#include <algorithm>
#include <fcntl.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace hone::verifier {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kAlignment = 16;    // of a tensor that ends at a guard page: what the widest vector load asks for
constexpr absl::Duration kMapTime = absl::Seconds(30);
constexpr uint64_t kWatched = 16 << 10;  // bytes around an output that must not change

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// A quiet NaN in every floating-point type, when repeated: 0x7FF0 to 0xFFFF in steps the judge alone knows.
uint16_t DrawPoison(SecretSeeds& seeds) {
  return static_cast<uint16_t>((seeds.Below(2) << 15) | 0x7FF0u | (1 + seeds.Below(15)));
}

}  // namespace

/// One candidate's check.
struct Checker::Run {
  const LaneJob& job;
  Budget& budget;
  std::unique_ptr<Runner> runner;
  uint16_t poison = 0;
  std::vector<TableRegion> regions;      // [tensors]
  std::vector<uint64_t> tensor_offsets;  // [tensors], in the region, of the current call
  std::vector<uint64_t> addresses;       // [tensors], of the current call
  Workmanship work;                      // of a Python candidate
  CheckResult result;

  bool IsPython() const { return job.build.format != Format::kNative; }
  bool IsOutput(size_t t) const { return job.signature.tensors[t].role == TensorArgument::Role::kOutput; }
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
  Run run{job, budget};
  HONE_ASSIGN_OR_RETURN(run.runner, host_->Start());
  run.poison = DrawPoison(*seeds_);

  // One region a tensor, for the largest of its shapes, with a page to spare and unmapped space all around.
  const size_t tensors = job.signature.tensors.size();
  uint64_t input_bytes = kPage, output_bytes = kPage, address = 0x200000000000 + seeds_->Below(1 << 20) * (1 << 21);
  for (size_t t = 0; t < tensors; ++t) {
    int64_t largest = 0;
    for (const CheckCase& check : sets.cases) largest = std::max(largest, check.pool->plan().tensors[t].Bytes());
    TableRegion region;
    region.bytes = RoundUp(static_cast<uint64_t>(largest) + kAlignment, kPage);
    region.writable = run.IsOutput(t);
    uint64_t& end = region.writable ? output_bytes : input_bytes;
    region.offset = end;
    end += region.bytes;
    region.address = address;
    address += RoundUp(region.bytes, 1 << 21) + (64 << 20);
    run.regions.push_back(region);
  }
  size_t longest_recipe = 0;
  for (const CheckCase& check : sets.cases) longest_recipe = std::max(longest_recipe, check.pool->plan().recipe.size());
  const uint64_t table_bytes = TableWriter::BytesFor(tensors, tensors, job.signature.sizes.size(),
                                                     job.signature.scalars.size(), 1, longest_recipe);
  HONE_RETURN_IF_ERROR(stage_.Reserve(table_bytes, input_bytes, output_bytes, 1));
  const CheckCase& first = sets.cases.front();
  TableWriter(stage_.table().data(), stage_.table().bytes())
      .Write(run.regions, job.signature, first.pool->plan(), first.size_values, std::vector<uint64_t>(tensors, 0));
  HONE_RETURN_IF_ERROR(Map(run));

  const UniqueFd artefact(open(job.build.checked_artefact.c_str(), O_RDONLY | O_CLOEXEC));
  if (!artefact) return ErrnoStatus(errno, absl::StrCat("opening the artefact ", job.build.checked_artefact));
  HONE_ASSIGN_OR_RETURN(const RunnerReport loaded, budget.Charge([&](absl::Time deadline) {
    return run.runner->Load(artefact.get(), deadline);
  }));
  if (!loaded.ok()) {
    run.result.finding = ExplainReport(loaded, device_->table(), {}, budget.total(), run.runner->TakeOutput());
    return std::move(run.result);
  }
  for (const CheckCase& check : sets.cases) {
    if (run.IsPython()) {
      HONE_ASSIGN_OR_RETURN(std::optional<Finding> finding, PrepareCase(run, check));
      if (finding) {
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
      if (!run.result.finding || !goes_on) run.result.finding = std::move(finding);
      if (!goes_on) return std::move(run.result);
    }
  }
  if (run.IsPython()) JudgeWorkmanship(run);
  return std::move(run.result);
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

absl::Status Checker::Map(Run& run) {
  HONE_ASSIGN_OR_RETURN(const UniqueFd table, stage_.table().Export(Access::kRead));
  HONE_ASSIGN_OR_RETURN(const UniqueFd inputs, stage_.inputs().Export(Access::kRead));
  HONE_ASSIGN_OR_RETURN(const UniqueFd outputs, stage_.outputs(0).Export(Access::kReadWrite));
  HONE_ASSIGN_OR_RETURN(const RunnerReport mapped, run.runner->Map(table.get(), stage_.table().bytes(), inputs.get(),
                                                                   outputs.get(), absl::Now() + kMapTime));
  if (!mapped.ok()) return absl::UnavailableError(absl::StrCat("a runner cannot map its buffers: ", mapped.text));
  return absl::OkStatus();
}

absl::Status Checker::FillStage(Run& run, const CheckCase& check, int set) {
  const DeviceTable& device = device_->table();
  const CallPlan& plan = check.pool->plan();
  const bool at_end = set % 2 == 0;
  run.tensor_offsets.clear();
  run.addresses.clear();
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    const TableRegion& region = run.regions[t];
    const auto bytes = static_cast<uint64_t>(plan.tensors[t].Bytes());
    const uint64_t offset = at_end ? region.bytes - RoundUp(bytes, kAlignment) : 0;
    run.tensor_offsets.push_back(offset);
    run.addresses.push_back(region.address + offset);
    if (!run.IsOutput(t)) {
      HONE_RETURN_IF_ERROR(device_->Check(device.copy_in(device_->get(), stage_.inputs().data() + region.offset + offset,
                                                         check.pool->Data(set, t), bytes),
                                          "copying an input"));
      continue;
    }
    const uint64_t begin = offset - std::min(offset, kWatched);
    const uint64_t end = std::min(region.bytes, offset + bytes + kWatched);
    HONE_RETURN_IF_ERROR(device_->Check(device.poison(device_->get(), stage_.outputs(0).data() + region.offset + begin,
                                                      end - begin, run.poison),
                                        "poisoning an output"));
  }
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
  HONE_ASSIGN_OR_RETURN(const RunnerReport report, run.budget.Charge([&](absl::Time deadline) {
    return run.runner->Prepare(0, /*fresh=*/true, deadline);
  }));
  if (report.ok()) return std::optional<Finding>();
  return run.Explain(report, check, device_->table());
}

absl::StatusOr<std::optional<Finding>> Checker::Call(Run& run, const CheckCase& check, int set, ThreadOrder order) {
  const auto order_seed = static_cast<uint32_t>(seeds_->Below(uint64_t{1} << 32));
  HONE_RETURN_IF_ERROR(FillStage(run, check, set));
  HONE_ASSIGN_OR_RETURN(const RunnerReport report, run.budget.Charge([&](absl::Time deadline) {
    return run.runner->RunChecked(order, order_seed, deadline);
  }));
  if (!report.ok()) return run.Explain(report, check, device_->table());
  if (run.IsPython()) run.work.Add(report);
  HONE_ASSIGN_OR_RETURN(std::optional<Finding> finding, CompareOutputs(run, check, set));
  if (!finding || run.result.finding || finding->status != VerdictStatus::kIncorrect) return finding;
  // The first mismatch: the same call once more with threads in ascending order tells a race from a plain error.
  HONE_RETURN_IF_ERROR(FillStage(run, check, set));
  HONE_ASSIGN_OR_RETURN(const RunnerReport again, run.budget.Charge([&](absl::Time deadline) {
    return run.runner->RunChecked(ThreadOrder::kForward, 0, deadline);
  }));
  if (!again.ok()) return finding;
  HONE_ASSIGN_OR_RETURN(const std::optional<Finding> second, CompareOutputs(run, check, set));
  const bool same = second && second->mismatch && second->mismatch->index == finding->mismatch->index &&
                    (second->mismatch->got == finding->mismatch->got || finding->mismatch->got != finding->mismatch->got);
  if (!same) {
    const std::string race = second ? "race: the result depends on the order in which threads run"
                                    : "race: right only when threads happen to run in ascending order";
    finding->message = absl::StrCat(finding->message, "; ", race);
    finding->mismatch->diagnosis = race;
  }
  return finding;
}

absl::StatusOr<std::optional<Finding>> Checker::CompareOutputs(Run& run, const CheckCase& check, int set) {
  const DeviceTable& device = device_->table();
  const CallPlan& plan = check.pool->plan();
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    if (!run.IsOutput(t)) continue;
    const TableRegion& region = run.regions[t];
    const TensorSpec& spec = plan.tensors[t];
    const auto bytes = static_cast<uint64_t>(spec.Bytes());
    unsigned char* base = stage_.outputs(0).data() + region.offset;
    const uint64_t offset = run.tensor_offsets[t];

    const uint64_t begin = offset - std::min(offset, kWatched);
    const uint64_t end = std::min(region.bytes, offset + bytes + kWatched);
    uint64_t before = 0, after = 0;
    HONE_RETURN_IF_ERROR(device_->Check(
        device.count_changed(device_->get(), base + begin, offset - begin, run.poison, &before), "reading an output"));
    HONE_RETURN_IF_ERROR(device_->Check(device.count_changed(device_->get(), base + offset + bytes,
                                                             end - offset - bytes, run.poison, &after),
                                        "reading an output"));
    if (before + after > 0) {
      Finding finding;
      finding.message = absl::StrCat("out-of-bounds write ", before > 0 ? "before" : "past the end of", " `", spec.name,
                                     "`", check.label.empty() ? "" : absl::StrCat(" (", check.label, ")"));
      return finding;
    }
    const Tolerance tolerance = ToleranceFor(run.job.task, spec.dtype);
    Comparison comparison{base + offset, check.pool->Data(set, t), static_cast<uint64_t>(spec.Elements()),
                          static_cast<int>(spec.dtype), tolerance.atol, tolerance.rtol, run.poison};
    uint64_t differing = 0;
    HONE_RETURN_IF_ERROR(
        device_->Check(device.compare(device_->get(), &comparison, &differing), "comparing an output"));
    if (differing == 0) continue;
    std::vector<unsigned char> got(bytes);
    HONE_RETURN_IF_ERROR(
        device_->Check(device.copy_out(device_->get(), got.data(), base + offset, bytes), "reading an output"));
    const OutputPair pair{&spec, got.data(), check.pool->Data(set, t), run.poison};
    Finding finding;
    finding.status = VerdictStatus::kIncorrect;
    finding.mismatch = DescribeMismatch(pair, tolerance, check.label);
    finding.message = absl::StrCat("`", spec.name, "` is wrong: ", finding.mismatch->diagnosis,
                                   check.label.empty() ? "" : absl::StrCat(" (", check.label, ")"));
    return finding;
  }
  return std::optional<Finding>();
}

}  // namespace hone::verifier
