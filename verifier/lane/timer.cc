#include "verifier/lane/timer.h"

#include <algorithm>
#include <cmath>
#include <fcntl.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "verifier/lane/affinity.h"
#include "verifier/lane/cross_check.h"
#include "verifier/rules/rule.h"
#include "verifier/timing/statistics.h"

namespace hone::verifier {
namespace {

constexpr double kWorkerRoundNs = 150'000;  // of the reference's timed calls in a round, and at most so many calls
constexpr int kWorkerCalls = 5;
constexpr double kDeviceRoundNs = 2.5e6;  // of the reference's calls in a round on a device
constexpr int kDeviceCalls = 4096;
constexpr uint32_t kBehindMb = 256;  // what KernelBench writes before a call, which is queued behind that
constexpr double kThrottled = 0.75;  // of the device's clock: nvbench's threshold
constexpr double kShareOfTime = 0.8;      // of the time left, for rounds
constexpr double kLeastShare = 0.5;       // of a Python candidate's round that stays when its copies are taken off: nobody computes
                                          // outputs faster than they can be copied, and who is spared a copy gains no more
constexpr int kHopefulRounds = 12;        // after which noise that no number of rounds will average out ends the timing
constexpr int kCopyRounds = 5;            // of the reference, in which its copies are measured
constexpr int kMaxReplans = 2;            // rounds thrown away because calls turned out shorter than they first were
constexpr int kSetsSearched = 512;        // for whose answer a wrong output is

uint16_t DrawPoison(SecretSeeds& seeds) {
  return static_cast<uint16_t>((seeds.Below(2) << 15) | 0x7FF0u | (1 + seeds.Below(15)));
}

/// Adds the time until the result is dropped.
auto AddTo(absl::Duration* total) {
  return absl::MakeCleanup([total, start = SteadyTime::Now()] { *total += SteadyTime::Now() - start; });
}

}  // namespace

/// One side of a paired round: a runner with an artefact, or the reference worker.
struct Timer::Party {
  enum class Kind { kCandidate, kScalar, kEager };
  Kind kind = Kind::kCandidate;
  Baseline baseline = Baseline::kEager;  // of the baselines
  int outputs = 0;                       // which of the stage's outputs
  std::unique_ptr<Runner> runner;        // null: the worker
  MessageCosts costs;                    // of an empty message, before the candidate is loaded
  int calls = 1;                         // a round
  double wanted_ns = 0;                  // that a round should take at least
  int most_calls = 1;                    // that a round can have
  uint64_t launches = 0;                 // of the last round, as the runner says
  double round_ns = 0;                   // of the last round
  std::vector<double> call_ns;           // [rounds], per call
  int64_t clock_after_ns = -1;           // when the last round had ended
  double outside_ns = 0;                 // processor time between rounds, summed
  std::vector<double> around_ns;         // [rounds] of the judge's own work around the message, where wall time counts
  std::vector<double> disagreement_ns;   // [rounds] the runner's own clock against the judge's

  void Restart() {
    call_ns.clear();
    around_ns.clear();
    disagreement_ns.clear();
  }
  /// The last round was none that counts.
  void ForgetLast() {
    around_ns.pop_back();
    disagreement_ns.pop_back();
  }
};

struct Timer::Session {
  const LaneJob& job;
  TaskSets& sets;
  Budget& budget;
  const ScopedCore* core;      // null: everybody where the system puts them
  std::vector<Party> parties;  // the candidate first
  RulePolicy policy = RulePolicy(job.task.legality);
  uint16_t poison = 0;
  std::vector<double> copy_ns;  // [rounds] of a call's outputs, as the reference worker measured it
  uint64_t launches_checked = 0;  // of one call of the timed shape
  TimeResult result;

  bool IsPython(const Party& party) const {
    return party.kind == Party::Kind::kCandidate && job.build.format != Format::kNative;
  }
  /// Inputs that are not contiguous are laid out anew for each round.
  bool HasStrides() const {
    return std::any_of(sets.timed_plan.tensors.begin(), sets.timed_plan.tensors.end(),
                       [](const TensorSpec& spec) { return !spec.strides.empty(); });
  }

  /// Sets that a round needs: each runner's calls, and those of the worker with the ones that warm it up.
  int SlotsOfRunners() const {
    int slots = sets.least_slots;
    for (const Party& party : parties) slots = std::max(slots, party.runner != nullptr ? party.calls : 1);
    return slots;
  }
  int Slots() const {
    int slots = SlotsOfRunners();
    for (const Party& party : parties) {
      // On a device it goes over the sets again, once they are more than the cache holds.
      const int most = core != nullptr ? sets.slots : std::max(sets.cold_slots, slots);
      slots = std::max(slots, party.runner == nullptr ? std::min({party.calls + WorkerWarm(), most, sets.slots}) : 1);
    }
    return slots;
  }

  /// Calls of the worker's that do not count: an interpreter is slow to come back from a message. On a device it warms
  /// itself up.
  int WorkerWarm() const { return core != nullptr ? 1 : 0; }

  /// Forgets all rounds: they were not long enough.
  void Restart() {
    for (Party& party : parties) party.Restart();
    copy_ns.clear();
  }
  bool ByEvents(const Device& device) const { return job.protocol.timed_by_events && device.table().clock_is_wall; }

  Party& candidate() { return parties.front(); }
  const Party& candidate() const { return parties.front(); }
  bool IsOutput(size_t t) const { return job.signature.tensors[t].role == TensorArgument::Role::kOutput; }
};

absl::StatusOr<TimeResult> Timer::Time(const LaneJob& job, TaskSets& sets, uint64_t launches_checked, Budget& budget,
                                       OpenedRunner opened) {
  std::optional<ScopedCore> core;  // where the clock is processor time; a GPU's helper threads need cores of their own
  if (!device_->table().clock_is_wall) core.emplace(cpu_core_);
  if (core) core->Bind(worker_->pid());
  Session session{job, sets, budget, core ? &*core : nullptr};
  {
    const auto account = AddTo(&session.result.account.quiet);
    host_->AwaitQuiet();
  }
  session.launches_checked = launches_checked;
  session.poison = DrawPoison(*seeds_);
  session.parties.emplace_back();
  for (const Baseline baseline : job.protocol.baselines) {
    Party party;
    party.baseline = baseline;
    if (baseline == Baseline::kEager) {
      party.kind = Party::Kind::kEager;
    } else if (baseline == Baseline::kScalar) {
      if (job.task.scalar_baseline.empty()) continue;
      party.kind = Party::Kind::kScalar;
      party.outputs = 1;
    } else {
      return absl::UnimplementedError(
          absl::StrCat("baseline ", std::string(Name(baseline)), " is not available on ", device_->table().backend));
    }
    session.parties.push_back(std::move(party));
  }
  if (session.parties.size() == 1) return std::move(session.result);

  HONE_RETURN_IF_ERROR(Open(session));
  HONE_ASSIGN_OR_RETURN(session.result.finding, OpenRunner(session, session.candidate(), job.build.artefact,
                                                                std::move(opened)));
  if (!session.result.finding) {
    HONE_ASSIGN_OR_RETURN(session.result.finding, WarmUp(session));
  }
  const Protocol& protocol = job.protocol;
  const SteadyTime until = SteadyTime::Now() + budget.left() * kShareOfTime;
  const auto audited = static_cast<int>(seeds_->Below(static_cast<uint64_t>(std::max(protocol.min_rounds, 1))));
  int replans = 0, played = 0;  // rounds of any kind, each with contents of its own
  bool settled = !device_->table().clock_is_wall || session.ByEvents(*device_);
  for (int round = 0; round < protocol.max_rounds && !session.result.finding; ++round) {
    const SteadyTime begin = SteadyTime::Now();
    if (round == audited) {
      HONE_ASSIGN_OR_RETURN(session.result.finding, AuditRound(session, ++played));
      if (session.result.finding) break;
    }
    HONE_ASSIGN_OR_RETURN(session.result.finding, PlayRound(session, ++played));
    if (session.result.finding) break;
    if (!settled) {
      // A GPU finds most of the buffers for the first time: at 0.6 % more than the rounds that follow, in the median.
      settled = true;
      session.Restart();
      round = -1;
      continue;
    }
    if (replans < kMaxReplans && PlanCalls(session.candidate(), 0.5)) {
      // Slow while it was warming up, so that rounds had few calls and the message much weight: once more, with more.
      ++replans;
      session.Restart();
      round = -1;
      continue;
    }
    const auto counted = static_cast<int>(session.candidate().call_ns.size());
    if (counted >= protocol.min_rounds) {
      const Estimate estimate =
          Speedup(session.parties[1].call_ns, session.candidate().call_ns, protocol.statistic);
      if (RelativeHalfWidth(estimate) <= protocol.target_half_width) break;
      if (counted >= kHopefulRounds && !CanNarrow(estimate, protocol.max_rounds, protocol.target_half_width)) break;
    }
    if (SteadyTime::Now() + (SteadyTime::Now() - begin) > until) break;
  }
  if (!session.result.finding) session.result.finding = CheckRounds(session);
  if (session.result.finding) return std::move(session.result);
  if (session.candidate().call_ns.empty()) return absl::UnavailableError("the device's clock is throttled all the time");
  for (size_t i = 1; i < session.parties.size(); ++i) {
    const Party& party = session.parties[i];
    Timing timing;
    timing.baseline = party.baseline;
    timing.speedup = Speedup(party.call_ns, session.candidate().call_ns, protocol.statistic);
    timing.candidate_ns = Median(session.candidate().call_ns);
    timing.baseline_ns = Median(party.call_ns);
    timing.calls_per_round = session.candidate().calls;
    timing.emulated = device_->properties().emulated;
    if (protocol.keep_samples) {
      for (size_t k = 0; k < party.call_ns.size(); ++k) {
        timing.samples.push_back(party.call_ns[k] / session.candidate().call_ns[k]);
      }
    }
    session.result.timings.push_back(std::move(timing));
  }
  session.result.baseline_ns = std::move(session.parties[1].call_ns);
  session.result.candidate_ns = std::move(session.candidate().call_ns);
  return std::move(session.result);
}

/// Raises the calls of a round when it takes less than `share` of what it should. False where it is long enough.
bool Timer::PlanCalls(Party& party, double share) {
  if (party.round_ns >= share * party.wanted_ns || party.calls >= party.most_calls) return false;
  const double call_ns = std::max(party.round_ns / party.calls, 1.0);
  const double calls = std::ceil(party.wanted_ns / call_ns);
  party.calls = std::max(party.calls, static_cast<int>(std::clamp(calls, 1.0, static_cast<double>(party.most_calls))));
  return true;
}

absl::Status Timer::Open(Session& session) {
  const TimedLayout& layout = session.sets.layout;
  const size_t tensors = session.sets.timed_plan.tensors.size();
  const bool scalar = std::any_of(session.parties.begin(), session.parties.end(),
                                  [](const Party& party) { return party.kind == Party::Kind::kScalar; });
  const uint64_t table_bytes =
      TableWriter::BytesFor(2, tensors, session.sets.timed_size_values.size(), session.sets.timed_plan.scalars.size(),
                            static_cast<size_t>(session.sets.slots), session.sets.timed_plan.recipe.size());
  HONE_RETURN_IF_ERROR(stage_.Reserve(table_bytes, layout.input_bytes, layout.output_bytes, scalar ? 2 : 1));
  const bool parts = device_->properties().maps_parts;
  const uint64_t input_bytes = parts ? layout.input_bytes : stage_.inputs().bytes();
  const uint64_t output_bytes = parts ? layout.output_bytes : stage_.outputs(0).bytes();
  const std::vector<TableRegion> regions = {{layout.input_address, input_bytes, 0, 0, 0},
                                            {layout.output_address, output_bytes, 0, 1, 0}};
  // What an earlier candidate left may be right answers to sets that this one is going to see, or a letter to it.
  HONE_RETURN_IF_ERROR(stage_.Clear(*device_));
  if (!parts) stage_.NoteInputs(input_bytes);
  for (int i = 0; i < (scalar ? 2 : 1); ++i) stage_.NoteOutputs(i, output_bytes);
  TableWriter(stage_.table().data(), stage_.table().bytes())
      .Write(regions, session.job.signature, session.sets.timed_plan, session.sets.timed_size_values, layout.addresses);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Finding>> Timer::OpenRunner(Session& session, Party& party, const std::string& artefact,
                                                         OpenedRunner opened) {
  if (opened.runner != nullptr) {
    party.runner = std::move(opened.runner);
    party.costs = opened.costs;
    HONE_RETURN_IF_ERROR(MapStage(*party.runner, stage_, party.outputs));
    return std::optional<Finding>();
  }
  HONE_ASSIGN_OR_RETURN(party.runner, (party.kind == Party::Kind::kScalar ? native_ : host_)->Start());
  if (session.core != nullptr) session.core->Bind(party.runner->pid());
  HONE_RETURN_IF_ERROR(MapStage(*party.runner, stage_, party.outputs));
  HONE_ASSIGN_OR_RETURN(party.costs, MeasureCosts(*device_, *party.runner));
  const UniqueFd file(open(artefact.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return ErrnoStatus(errno, absl::StrCat("opening the artefact ", artefact));
  HONE_ASSIGN_OR_RETURN(const RunnerReport loaded, session.budget.Charge([&](SteadyTime deadline) {
    return party.runner->Load(file.get(), deadline);
  }));
  if (loaded.ok()) return std::optional<Finding>();
  return Explain(session, party, loaded, device_->table());
}

Finding Timer::Explain(const Session& session, const Party& party, const RunnerReport& report, const DeviceTable& device) {
  const std::string output = party.runner->TakeOutput();
  if (session.IsPython(party)) return ExplainPython(report, device, session.budget.total(), output);
  return ExplainReport(report, device, {}, session.budget.total(), output);
}

/// The task is to blame, unless somebody killed the process.
absl::Status Timer::BaselineFails(const Session& session, const Finding& finding) {
  if (finding.from_outside) return absl::UnavailableError(absl::StrCat("the scalar baseline: ", finding.message));
  return absl::InvalidArgumentError(
      absl::StrCat("task ", session.job.task.id, ": the scalar baseline fails: ", finding.message));
}

/// Has a Python candidate lay out the arguments of all calls that a round can have, and `first` its module.
absl::StatusOr<std::optional<Finding>> Timer::PrepareRound(Session& session, bool first) {
  Party& party = session.candidate();
  if (!session.IsPython(party) || !(first || session.HasStrides())) return std::optional<Finding>();
  HONE_ASSIGN_OR_RETURN(const RunnerReport report, session.budget.Charge([&](SteadyTime deadline) {
    return party.runner->Prepare(static_cast<uint32_t>(session.sets.slots), first, deadline);
  }));
  if (!report.ok()) return Explain(session, party, report, device_->table());
  if (!first) party.clock_after_ns = device_->table().clock_ns(device_->get(), party.runner->pid());
  return std::optional<Finding>();
}

absl::StatusOr<Pool*> Timer::RoundSets(Session& session, int round) {
  const auto work = session.budget.CountWork();
  const auto account = AddTo(&session.result.account.sets);
  ++session.result.account.rounds;
  return cache_->Round(session.job.task, session.sets, round, session.Slots());
}

absl::Status Timer::StageRound(Session& session, const Pool& pool) {
  const auto work = session.budget.CountWork();
  const auto account = AddTo(&session.result.account.staging);
  const DeviceTable& device = device_->table();
  const TimedLayout& layout = session.sets.layout;
  const std::vector<TensorSpec>& tensors = session.sets.timed_plan.tensors;
  std::vector<Copy> copies;
  for (int slot = 0; slot < session.SlotsOfRunners(); ++slot) {
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (session.IsOutput(t)) continue;
      const bool shared =
          session.sets.share_parameters && session.job.signature.tensors[t].role == TensorArgument::Role::kParameter;
      if (shared && slot > 0) continue;
      const uint64_t offset = layout.offsets[static_cast<size_t>(slot) * tensors.size() + t];
      copies.push_back({stage_.inputs().data() + offset, pool.Data(slot, t), static_cast<uint64_t>(tensors[t].Bytes())});
      stage_.NoteInputs(offset + static_cast<uint64_t>(tensors[t].Bytes()));
    }
  }
  HONE_RETURN_IF_ERROR(device_->Check(device.copy(device_->get(), copies.data(), static_cast<int>(copies.size())),
                                      "copying the inputs"));
  for (const Party& party : session.parties) {
    if (party.runner == nullptr) continue;
    const uint64_t bytes = layout.output_ends[static_cast<size_t>(party.calls) - 1];
    HONE_RETURN_IF_ERROR(device_->Check(
        device.poison(device_->get(), stage_.outputs(party.outputs).data(), bytes, session.poison), "poisoning the outputs"));
    stage_.NoteOutputs(party.outputs, bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Finding>> Timer::RunParty(Session& session, Party& party, const Pool& pool, int calls) {
  TimeAccount& account = session.result.account;
  const auto accounted = AddTo(party.kind == Party::Kind::kCandidate ? &account.candidate : &account.baselines);
  const auto work = session.budget.CountWork();
  if (party.runner == nullptr) {
    if (device_->table().evict != nullptr) {
      HONE_RETURN_IF_ERROR(device_->Check(device_->table().evict(device_->get()), "clearing the cache"));
    }
    const int warm = std::min(session.WorkerWarm(), pool.sets() - 1);
    const bool copies = session.IsPython(session.candidate()) &&
                        (session.core != nullptr || session.copy_ns.size() < kCopyRounds);
    HONE_ASSIGN_OR_RETURN(const EagerTime time,
                          worker_->TimeEager(pool.id(), pool.sets(), warm, calls, copies, session.ByEvents(*device_)));
    party.round_ns = time.call_ns * calls;
    if (copies) session.copy_ns.push_back(time.copy_ns);
    return std::optional<Finding>();
  }
  const uint32_t behind_mb = session.ByEvents(*device_) ? kBehindMb : 0;
  HONE_ASSIGN_OR_RETURN(const TimedMessage message, SendTimed(*device_, *party.runner, calls, session.budget, behind_mb));
  const RunnerReport& report = message.report;
  const int64_t before = message.before_ns, after = message.after_ns;
  if (!report.ok()) return Explain(session, party, report, device_->table());
  if (before < 0 || after < 0) {
    HONE_ASSIGN_OR_RETURN(const RunnerReport ended, party.runner->AwaitEnd());
    return ExplainGone(ended, device_->table(), party.runner->TakeOutput());
  }
  if (party.clock_after_ns >= 0 && !device_->table().clock_is_wall) party.outside_ns += static_cast<double>(before - party.clock_after_ns);
  party.clock_after_ns = after;
  party.launches = report.launches;
  party.around_ns.push_back(message.costs.around_ns);
  const double total = message.costs.message_ns;
  // How long the device takes to write what the calls are queued behind is no part of them.
  const double peak = device_->properties().peak_bytes_per_ns;
  const double behind_ns = peak > 0 ? behind_mb * 1048576.0 / peak : 0;
  party.round_ns = std::max(total - party.costs.message_ns - behind_ns, 0.01 * total);
  party.disagreement_ns.push_back(party.round_ns - static_cast<double>(report.process_ns));
  if (session.ByEvents(*device_)) party.round_ns = std::max<double>(static_cast<double>(report.process_ns), 1);
  return std::optional<Finding>();
}

/// Everything at once; the last call first, because a candidate that answers before it is done has not written that one.
absl::StatusOr<std::optional<Finding>> Timer::CompareRound(Session& session, const Party& party, const Pool& pool,
                                                           int calls) {
  const auto work = session.budget.CountWork();
  const auto account = AddTo(&session.result.account.comparing);
  const DeviceTable& device = device_->table();
  const TimedLayout& layout = session.sets.layout;
  const std::vector<TensorSpec>& tensors = session.sets.timed_plan.tensors;
  const unsigned char* base = stage_.outputs(party.outputs).data();
  std::vector<Comparison> comparisons;
  std::vector<std::pair<int, size_t>> which;  // {slot, tensor}
  for (int slot = calls; slot-- > 0;) {
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (!session.IsOutput(t)) continue;
      const TensorSpec& spec = tensors[t];
      const Tolerance tolerance = ToleranceFor(session.job.task, spec.dtype);
      comparisons.push_back({base + layout.offsets[static_cast<size_t>(slot) * tensors.size() + t], pool.Data(slot, t),
                             static_cast<uint64_t>(spec.Elements()), static_cast<int>(spec.dtype), tolerance.atol,
                             tolerance.rtol, session.poison});
      which.emplace_back(slot, t);
    }
  }
  std::vector<uint64_t> differing(comparisons.size());
  HONE_RETURN_IF_ERROR(device_->Check(
      device.compare(device_->get(), comparisons.data(), static_cast<int>(comparisons.size()), differing.data()),
      "comparing the outputs"));
  for (size_t i = comparisons.size(); i-- > 0;) {
    if (differing[i] == 0) continue;
    HONE_ASSIGN_OR_RETURN(Finding finding,
                          ExplainDifference(session, comparisons[i], pool, which[i].first, which[i].second));
    return std::optional<Finding>(std::move(finding));
  }
  std::vector<Span> gaps;
  for (const auto& [offset, bytes] : layout.gaps) {
    if (offset >= layout.output_ends[static_cast<size_t>(calls) - 1]) break;
    gaps.push_back({base + offset, bytes});
  }
  uint64_t changed = 0;
  HONE_RETURN_IF_ERROR(device_->Check(device.count_changed(device_->get(), gaps.data(), static_cast<int>(gaps.size()),
                                                           session.poison, &changed),
                                      "reading an output"));
  if (changed == 0) return std::optional<Finding>();
  Finding finding;
  finding.message = "out-of-bounds write beside an output in a timed call";
  return finding;
}

absl::StatusOr<Finding> Timer::ExplainDifference(const Session& session, const Comparison& comparison, const Pool& pool,
                                                 int slot, size_t tensor) {
  const DeviceTable& device = device_->table();
  const TensorSpec& spec = session.sets.timed_plan.tensors[tensor];
  std::vector<unsigned char> got(static_cast<size_t>(spec.Bytes())), want(got.size());
  HONE_RETURN_IF_ERROR(
      device_->Check(device.copy_out(device_->get(), got.data(), comparison.got, got.size()), "reading an output"));
  HONE_RETURN_IF_ERROR(device_->Check(device.copy_out(device_->get(), want.data(), comparison.want, want.size()),
                                      "reading an expected output"));
  const OutputPair pair{&spec, got.data(), want.data(), session.poison};
  // The very same shape was right when it was checked: leaving work out is no accident.
  if (const int64_t unwritten = CountUnwritten(pair); unwritten > 0) {
    return Cheat("timed_call_skipped", absl::StrCat(unwritten, " of ", spec.Elements(), " elements of `", spec.name,
                                                    "` not written in call ", slot, " of a timed round"));
  }
  if (session.policy.Applies("replayed_output")) {
    HONE_ASSIGN_OR_RETURN(const std::string whose, WhoseAnswer(session, pool, slot, tensor, got.data()));
    if (!whose.empty()) {
      return Cheat("replayed_output",
                   absl::StrCat("`", spec.name, "` of call ", slot, " of a timed round is the answer to ", whose));
    }
  }
  Finding finding;
  finding.status = VerdictStatus::kIncorrect;
  finding.mismatch = DescribeMismatch(pair, ToleranceFor(session.job.task, spec.dtype), session.sets.cases.back().label);
  finding.message = absl::StrCat("`", spec.name, "` is wrong in a timed call: ", finding.mismatch->diagnosis);
  return finding;
}

/// Another timed set whose answer this is, or "". Kept answers are the candidate's own and as exact as a right one, so that
/// a small part of the tolerance must do: a wrong output that comes near another answer is none.
absl::StatusOr<std::string> Timer::WhoseAnswer(const Session& session, const Pool& pool, int slot, size_t tensor,
                                               const unsigned char* got) const {
  const TensorSpec& spec = session.sets.timed_plan.tensors[tensor];
  std::vector<unsigned char> answer(static_cast<size_t>(spec.Bytes()));
  int searched = 0;
  for (size_t round = 0; round < session.sets.rounds.size(); ++round) {
    const Pool& other = *session.sets.rounds[round];
    for (int set = 0; set < other.sets(); ++set) {
      if (&other == &pool && set == slot) continue;
      if (++searched > kSetsSearched) return std::string();
      HONE_RETURN_IF_ERROR(device_->Check(
          device_->table().copy_out(device_->get(), answer.data(), other.Data(set, tensor), answer.size()),
          "reading an expected output"));
      if (IsAnswer(spec, got, answer.data(), ToleranceFor(session.job.task, spec.dtype))) {
        return &other == &pool ? absl::StrCat("call ", set, " of the same round") : absl::StrCat("call ", set, " of another round");
      }
    }
  }
  return std::string();
}

/// A round that does not count and asks for fewer calls than its table describes: whoever works ahead, to do many calls'
/// work in one, has written outputs that nobody asked for.
absl::StatusOr<std::optional<Finding>> Timer::AuditRound(Session& session, int round) {
  Party& party = session.candidate();
  if (party.calls < 2 || !session.policy.Applies("work_ahead")) return std::optional<Finding>();
  HONE_ASSIGN_OR_RETURN(Pool * pool, RoundSets(session, round));
  HONE_RETURN_IF_ERROR(StageRound(session, *pool));
  HONE_ASSIGN_OR_RETURN(std::optional<Finding> unprepared, PrepareRound(session, /*first=*/false));
  if (unprepared) return unprepared;
  const int calls = 1 + static_cast<int>(seeds_->Below(static_cast<uint64_t>(party.calls) - 1));
  HONE_ASSIGN_OR_RETURN(std::optional<Finding> finding, RunParty(session, party, *pool, calls));
  if (finding) return finding;
  party.ForgetLast();
  const TimedLayout& layout = session.sets.layout;
  const uint64_t begin = layout.output_ends[static_cast<size_t>(calls) - 1];
  const uint64_t end = layout.output_ends[static_cast<size_t>(party.calls) - 1];
  const Span ahead = {stage_.outputs(party.outputs).data() + begin, end - begin};
  uint64_t changed = 0;
  HONE_RETURN_IF_ERROR(device_->Check(
      device_->table().count_changed(device_->get(), &ahead, 1, session.poison, &changed), "reading an output"));
  if (changed > 0) {
    return Cheat("work_ahead", absl::StrCat("asked for ", calls, " calls, it wrote outputs of later ones"));
  }
  return CompareRound(session, party, *pool, calls);
}

/// One round that does not count: brings code and data in, learns how long a call takes, and from that how many calls a
/// round needs for its message to weigh little.
absl::StatusOr<std::optional<Finding>> Timer::WarmUp(Session& session) {
  HONE_ASSIGN_OR_RETURN(Pool * pool, RoundSets(session, 0));
  for (Party& party : session.parties) {
    if (party.kind != Party::Kind::kScalar) continue;
    HONE_ASSIGN_OR_RETURN(std::optional<Finding> finding, OpenRunner(session, party, session.job.scalar_build.artefact, {}));
    if (finding) return BaselineFails(session, *finding);
  }
  HONE_RETURN_IF_ERROR(StageRound(session, *pool));
  HONE_ASSIGN_OR_RETURN(std::optional<Finding> unprepared, PrepareRound(session, /*first=*/true));
  if (unprepared) return unprepared;
  for (Party& party : session.parties) {
    std::optional<Finding> finding;
    // A module's first call brings in what its later ones find there.
    const int turns = session.IsPython(party) ? 2 : 1;
    for (int turn = 0; turn < turns && !finding; ++turn) {
      if (turn > 0) HONE_RETURN_IF_ERROR(StageRound(session, *pool));  // no call is made on another one's outputs
      HONE_ASSIGN_OR_RETURN(finding, RunParty(session, party, *pool, party.calls));
      if (finding || party.runner == nullptr) continue;
      HONE_ASSIGN_OR_RETURN(finding, CompareRound(session, party, *pool, party.calls));
    }
    if (finding && party.kind == Party::Kind::kScalar) return BaselineFails(session, *finding);
    if (finding) return finding;
    const bool few = party.runner == nullptr && session.core != nullptr;
    party.wanted_ns = party.costs.message_ns / std::max(session.job.protocol.max_overhead, 1e-4);
    party.most_calls = session.sets.slots;
    if (few) {
      party.wanted_ns = kWorkerRoundNs;
      party.most_calls = std::min(kWorkerCalls, std::max(1, session.sets.slots - session.WorkerWarm()));
    } else if (party.runner == nullptr) {
      party.wanted_ns = kDeviceRoundNs;
      // The reference cheats nobody: where the sets are more than the cache holds, it goes over them again.
      const int64_t round_bytes = pool->bytes() / std::max(1, pool->sets()) * session.sets.slots;
      if (round_bytes >= 2 * device_->properties().cache_bytes) party.most_calls = kDeviceCalls;
    }
    if (session.ByEvents(*device_)) party.most_calls = 1;
    PlanCalls(party, 1.0);
    party.Restart();
  }
  session.copy_ns.clear();
  return std::optional<Finding>();
}

absl::StatusOr<std::optional<Finding>> Timer::PlayRound(Session& session, int round) {
  HONE_ASSIGN_OR_RETURN(Pool * pool, RoundSets(session, round));
  HONE_RETURN_IF_ERROR(StageRound(session, *pool));
  HONE_ASSIGN_OR_RETURN(std::optional<Finding> unprepared, PrepareRound(session, /*first=*/false));
  if (unprepared) return unprepared;
  std::vector<Party*> order;
  for (Party& party : session.parties) order.push_back(&party);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[seeds_->Below(i)]);
  bool throttled = false;
  for (Party* party : order) {
    HONE_ASSIGN_OR_RETURN(std::optional<Finding> finding, RunParty(session, *party, *pool, party->calls));
    const bool candidate = party->kind == Party::Kind::kCandidate;
    if (!finding && candidate) {  // before another's turn, in which what is missing could still be done
      HONE_ASSIGN_OR_RETURN(finding, CompareRound(session, *party, *pool, party->calls));
    }
    if (finding && candidate) return finding;
    if (finding) return BaselineFails(session, *finding);
    HONE_ASSIGN_OR_RETURN(const bool slow, IsThrottled());
    throttled = throttled || slow;
  }
  if (throttled) {
    ++session.result.throttled;
    session.candidate().ForgetLast();
  } else {
    for (Party& party : session.parties) {
      const double copies_ns = session.IsPython(party) ? party.calls * Median(session.copy_ns) : 0;
      party.round_ns = std::max(party.round_ns - copies_ns, kLeastShare * party.round_ns);
      party.call_ns.push_back(party.round_ns / party.calls);
    }
  }
  session.result.calls += session.candidate().calls;
  session.result.right += session.candidate().calls;
  return std::optional<Finding>();
}

absl::StatusOr<bool> Timer::IsThrottled() const {
  if (device_->table().measure_clock == nullptr) return false;
  double mhz = 0;
  HONE_RETURN_IF_ERROR(device_->Check(device_->table().measure_clock(device_->get(), &mhz), "reading the clock"));
  return mhz > 0 && mhz < kThrottled * device_->properties().clock_mhz;
}

std::optional<Finding> Timer::CheckRounds(const Session& session) const {
  const Party& party = session.candidate();
  if (party.call_ns.empty()) return std::nullopt;
  TimedEvidence evidence;
  evidence.call_ns = Median(party.call_ns);
  evidence.calls = party.calls;
  evidence.overhead_ns = party.costs.message_ns;
  evidence.disagreement_ns = Median(party.disagreement_ns);
  evidence.judged_by_wall = device_->table().clock_is_wall && !session.ByEvents(*device_);
  evidence.outside_by_wall = device_->table().clock_is_wall;
  evidence.rehearsed_calls = session.IsPython(party) ? 1 : 0;
  evidence.outside_ns = evidence.outside_by_wall ? Median(party.around_ns) - party.costs.around_ns
                                                 : party.outside_ns / static_cast<double>(party.call_ns.size());
  for (size_t t = 0; t < session.sets.timed_plan.tensors.size(); ++t) {
    if (session.IsOutput(t)) evidence.written_bytes += session.sets.timed_plan.tensors[t].Bytes();
  }
  evidence.peak_bytes_per_ns = device_->properties().peak_bytes_per_ns;
  evidence.launches_checked = session.launches_checked;
  evidence.launches_timed = party.launches;
  return CrossCheck(evidence, session.policy);
}

}  // namespace hone::verifier
