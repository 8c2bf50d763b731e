#include "verifier/service/engine.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "base/file.h"
#include "base/protocol.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "verifier/lane/affinity.h"
#include "verifier/service/noop_lane.h"
#include "verifier/service/wire.h"

namespace hone::verifier {
namespace {

// Until a worker has read the job and asks for the time that it needs.
constexpr absl::Duration kFirstLease = absl::Minutes(1);
// A worker's own limits end its work long before its lease: this is the room between the two.
constexpr absl::Duration kLeaseSlack = absl::Minutes(3);
// A member of a farm that is silent for so long is gone, for all we know.
constexpr absl::Duration kGone = absl::Seconds(30);

std::string DescribeKind(const std::string& device) { return absl::StrCat("describe/", device); }
std::string BuildKind(const std::string& device) { return absl::StrCat("build/", device); }
std::string LaneKind(const std::string& device) { return absl::StrCat("lane/", device); }
/// Of second measurements that a lane left to the others.
std::string AgainKind(const std::string& device) { return absl::StrCat("again/", device); }

/// "cpu" of "build/cpu".
std::string DeviceOf(const LeasedJob& job) { return job.kind.substr(job.kind.find('/') + 1); }

bool IsDescribe(const LeasedJob& job) { return absl::StartsWith(job.kind, "describe/"); }

std::string RandomKey() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad16), absl::Hex(random(), absl::kZeroPad16));
}

const Task& TaskOf(const JobPayload& payload) {
  const auto* verify = std::get_if<VerifyRequest>(&payload);
  return verify != nullptr ? verify->task : std::get<Task>(payload);
}

absl::string_view TraceOf(const JobPayload& payload) {
  const auto* verify = std::get_if<VerifyRequest>(&payload);
  return verify != nullptr ? absl::string_view(verify->trace_id) : "";
}

bool WantsScalar(const VerifyRequest& request) {
  const std::vector<Baseline>& baselines = request.protocol.baselines;
  return !request.task.scalar_baseline.empty() &&
         std::find(baselines.begin(), baselines.end(), Baseline::kScalar) != baselines.end();
}

Verdict VerdictOf(const BuildResult& build) {
  Verdict verdict;
  verdict.status = build.status;
  verdict.message = build.message;
  verdict.compiler_output = build.compiler_output;
  verdict.rules = build.rules;
  verdict.toolchain = build.toolchain;
  return verdict;
}

/// Whether a look at the text may save the lane the description of its task (Builder::RejectUnbuilt).
bool IsRead(const Candidate& candidate) { return candidate.format != Format::kNative; }

/// Errors that another try would meet again, and that the caller can act on.
bool IsCallersToFix(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
}

/// Signatures by task, the least recently used go first. Thread-safe.
class SignatureMemory {
 public:
  explicit SignatureMemory(size_t limit) : limit_(limit) {}

  std::optional<Signature> Find(const std::string& key) {
    absl::MutexLock lock(&mutex_);
    const auto found = index_.find(key);
    if (found == index_.end()) return std::nullopt;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->second;
  }

  void Put(const std::string& key, const Signature& signature) {
    absl::MutexLock lock(&mutex_);
    if (index_.count(key) != 0) return;
    entries_.emplace_front(key, signature);
    index_[key] = entries_.begin();
    if (entries_.size() <= limit_) return;
    index_.erase(entries_.back().first);
    entries_.pop_back();
  }

 private:
  const size_t limit_;
  absl::Mutex mutex_;
  std::list<std::pair<std::string, Signature>> entries_ ABSL_GUARDED_BY(mutex_);  // newest use first
  std::unordered_map<std::string, std::list<std::pair<std::string, Signature>>::iterator> index_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace

/// One caller's wait.
class Engine::Call {
 public:
  using OnResult = std::function<void(absl::StatusOr<JobResult>)>;

  Call(std::string key, std::string protocol, CacheUse use, OnResult on_result)
      : key(std::move(key)), protocol(std::move(protocol)), use(use), on_result_(std::move(on_result)) {}

  /// The callback, for the one who is to call it; empty for everybody later.
  OnResult Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(on_result_, nullptr);
  }
  void SetTicket(const Ticket& ticket) {
    absl::MutexLock lock(&mutex_);
    ticket_ = ticket;
  }
  Ticket ticket() const {
    absl::MutexLock lock(&mutex_);
    return ticket_;
  }

  const std::string key;       // the caller's, for Cancel; may be empty
  const std::string protocol;  // for a verdict that says INFRA
  const CacheUse use;
  const SteadyTime arrived = SteadyTime::Now();

 private:
  mutable absl::Mutex mutex_;
  OnResult on_result_ ABSL_GUARDED_BY(mutex_);
  Ticket ticket_ ABSL_GUARDED_BY(mutex_);
};

struct Engine::State {
  struct LaneSlot {
    LaneSpec spec;
    absl::Mutex mutex;
    std::shared_ptr<Lane> lane ABSL_GUARDED_BY(mutex);  // shared with the thread that uses it while another interrupts
    LaneFacts facts ABSL_GUARDED_BY(mutex);             // of the last lane that started
    bool passed_on = false;                             // of its thread: it has just left a job to the others
    SteadyTime held_until = SteadyTime::InfinitePast();  // of its thread
  };

  State(EngineOptions options, Queue& queue, ResultCache& cache, Builder& builder, Metrics& metrics, Logger log)
      : options(std::move(options)), queue(queue), cache(cache), builder(builder), metrics(metrics), log(log.For("engine")),
        signatures(this->options.max_signatures) {}

  const EngineOptions options;
  Queue& queue;
  ResultCache& cache;
  Builder& builder;
  Metrics& metrics;
  const Logger log;
  SignatureMemory signatures;
  std::vector<std::unique_ptr<LaneSlot>> lanes;
  std::vector<std::string> build_kinds;
  std::vector<std::thread> threads;
  absl::Mutex stop_mutex;
  bool stopping ABSL_GUARDED_BY(stop_mutex) = false;

  mutable absl::Mutex calls_mutex;
  std::unordered_map<Call*, std::shared_ptr<Call>> calls ABSL_GUARDED_BY(calls_mutex);
  std::unordered_multimap<std::string, Call*> calls_by_key ABSL_GUARDED_BY(calls_mutex);
  bool draining ABSL_GUARDED_BY(calls_mutex) = false;
  SteadyTime told_of_refusal ABSL_GUARDED_BY(calls_mutex) = SteadyTime::InfinitePast();
  int working ABSL_GUARDED_BY(calls_mutex) = 0;      // leases held
  bool leasing_ended ABSL_GUARDED_BY(calls_mutex) = false;

  absl::Mutex hold_mutex;
  int holds ABSL_GUARDED_BY(hold_mutex) = 0;
  int judging ABSL_GUARDED_BY(hold_mutex) = 0;
  std::vector<std::function<void()>> on_quiet ABSL_GUARDED_BY(hold_mutex);

  // ---- start and stop
  absl::Status Start();
  absl::Status StartLane(LaneSlot& slot);
  void Stop();
  bool Stopping();
  void SleepUnlessStopping(absl::Duration duration);

  // ---- calls
  std::shared_ptr<Call> Open(std::shared_ptr<Call> call);
  void Finish(Call* call, absl::StatusOr<JobResult> result);
  void Forget(Call* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(calls_mutex);
  void Submit(const std::shared_ptr<Call>& call, const Submission& submission);
  void TellOfRefusal(const absl::Status& status);
  absl::StatusOr<JobResult> ResultOf(const Call& call, const Outcome& outcome) const;
  absl::StatusOr<std::string> DeviceFor(Backend backend) const;
  absl::StatusOr<std::string> AnyDevice() const;
  std::set<std::string> Kinds() const;
  LaneFacts FactsOf(const std::string& device) const;
  std::string Toolchain(Backend backend) const;
  std::string ContentKeyOf(const VerifyRequest& request, const std::string& device) const;
  std::optional<Verdict> FindCached(const std::string& content_key, const std::string& trace_id);

  // ---- workers
  std::optional<LeasedJob> LeaseNext(absl::Span<const std::string> kinds,
                                     SteadyTime deadline = SteadyTime::InfiniteFuture());
  std::optional<LeasedJob> LeaseForLane(LaneSlot& slot);
  std::optional<LeasedJob> LeaseFreely(LaneSlot& slot);
  bool LeasingEnded();
  void EndLease();
  bool Held();
  /// False: lanes are held.
  bool BeginJudging();
  void EndJudging();
  /// The artefacts' paths in this host's store; false when one is gone.
  bool Locate(JobState& state);
  void BuildLoop();
  void LaneLoop(LaneSlot& slot);
  void Quarantine(const LaneSlot& slot, absl::Duration& quarantine);
  bool EnsureLane(LaneSlot& slot, absl::Duration& backoff);
  void BuildOne(const LeasedJob& job);
  /// Of a task that is not described yet: its verdict, or on to its description.
  void ReadOne(const LeasedJob& job, const VerifyRequest& request, JobState& state);
  bool ScreenedOut(const LeasedJob& job, const VerifyRequest& request, JobState& state);
  BuildRequest BuildRequestOf(const VerifyRequest& request) const;
  absl::StatusOr<BuildResult> BuildSource(const VerifyRequest& request, Format format, const std::string& source,
                                          const Signature& signature);
  std::string NameOf(const LaneSlot& slot) const { return absl::StrCat(options.node, "/", slot.spec.name); }
  int LanesOf(const std::string& device) const;
  /// Whether this lane leaves the job to another one, as the request wants.
  bool PassedOn(LaneSlot& slot, const LeasedJob& job, const VerifyRequest& request, JobState& state);
  /// False: the lane is spent.
  bool LaneOne(LaneSlot& slot, Lane& lane, const LeasedJob& job);
  bool DescribeOne(Lane& lane, const LeasedJob& job, const JobPayload& payload, JobState& state);
  bool JudgeOne(LaneSlot& slot, Lane& lane, const LeasedJob& job, const VerifyRequest& request, JobState& state);
  void FinishVerdict(const LeasedJob& job, const VerifyRequest& request, const JobState& state, Verdict verdict);
  void FailTry(const LeasedJob& job, absl::string_view stage, absl::string_view trace_id, absl::string_view reason);
  void Report(const LeasedJob& job, const absl::Status& status) const;
};

// --------------------------------------------------------------------------------------------------- start and stop

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(EngineOptions options, Queue& queue, ResultCache& cache,
                                                       Builder& builder, Metrics& metrics, Logger log) {
  if (options.lanes.empty() && options.roster == nullptr) {
    return absl::InvalidArgumentError("a verifier needs at least one lane");
  }
  auto state = std::make_unique<State>(std::move(options), queue, cache, builder, metrics, std::move(log));
  HONE_RETURN_IF_ERROR(state->Start());
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}

Engine::~Engine() {
  Drain(SteadyTime::InfinitePast());
  state_->Stop();
}

absl::Status Engine::State::Start() {
  for (const LaneSpec& spec : options.lanes) {
    auto slot = std::make_unique<LaneSlot>();
    slot->spec = spec;
    lanes.push_back(std::move(slot));
    const std::string kind = BuildKind(spec.device);
    if (spec.device != kNoopDevice && std::find(build_kinds.begin(), build_kinds.end(), kind) == build_kinds.end()) {
      build_kinds.push_back(kind);
    }
  }
  for (const std::string& device : options.build_devices) {
    const std::string kind = BuildKind(device);
    if (std::find(build_kinds.begin(), build_kinds.end(), kind) == build_kinds.end()) build_kinds.push_back(kind);
  }
  std::vector<absl::Status> started(lanes.size());
  std::vector<std::thread> starters;
  for (size_t i = 0; i < lanes.size(); ++i) {
    starters.emplace_back([this, i, &started] { started[i] = StartLane(*lanes[i]); });
  }
  for (std::thread& starter : starters) starter.join();
  std::map<std::string, absl::Status> kinds;  // of each, OK or why no lane of it has started
  for (size_t i = 0; i < lanes.size(); ++i) {
    const auto [kind, first] = kinds.try_emplace(lanes[i]->spec.device, started[i]);
    if (!first && started[i].ok()) kind->second = absl::OkStatus();
  }
  for (const auto& [kind, status] : kinds) HONE_RETURN_IF_ERROR(status);
  for (const absl::Status& status : started) {
    if (!status.ok()) log.Error("lane does not start", {{"error", status.message()}});
  }
  for (std::unique_ptr<LaneSlot>& slot : lanes) threads.emplace_back([this, &slot = *slot] { LaneLoop(slot); });
  if (build_kinds.empty()) return absl::OkStatus();
  for (int i = 0; i < options.build_slots; ++i) threads.emplace_back([this] { BuildLoop(); });
  return absl::OkStatus();
}

absl::Status Engine::State::StartLane(LaneSlot& slot) {
  metrics.SetLane(slot.spec.name, LaneState::kDown);
  metrics.CountLaneStart(slot.spec.name);
  absl::StatusOr<std::unique_ptr<Lane>> lane = slot.spec.start();
  if (!lane.ok()) {
    return absl::Status(lane.status().code(), absl::StrCat("lane ", slot.spec.name, ": ", lane.status().message()));
  }
  absl::MutexLock lock(&slot.mutex);
  slot.facts = (*lane)->Facts();
  slot.lane = std::move(lane).value();
  log.Info("lane ready", {{"lane", slot.spec.name}, {"device", slot.facts.device}, {"sandbox", slot.facts.sandbox}});
  metrics.SetLane(slot.spec.name, LaneState::kIdle);
  return absl::OkStatus();
}

void Engine::State::Stop() {
  {
    absl::MutexLock lock(&stop_mutex);
    stopping = true;
  }
  queue.Close();
  for (std::unique_ptr<LaneSlot>& slot : lanes) {
    absl::MutexLock lock(&slot->mutex);
    if (slot->lane) slot->lane->Interrupt();
  }
  if (options.screen != nullptr) options.screen->Interrupt();
  for (std::thread& thread : threads) thread.join();
}

bool Engine::State::Stopping() {
  absl::MutexLock lock(&stop_mutex);
  return stopping;
}

void Engine::State::SleepUnlessStopping(absl::Duration duration) {
  absl::MutexLock lock(&stop_mutex);
  AwaitFor(stop_mutex, absl::Condition(&stopping), duration);
}

// ------------------------------------------------------------------------------------------------------------ calls

std::shared_ptr<Engine::Call> Engine::Verify(const VerifyRequest& request, OnVerdict on_verdict) {
  State& state = *state_;
  const bool use_cache = request.use_cache && request.avoid_lane.empty();
  const CacheUse use = use_cache ? CacheUse::kMiss : CacheUse::kBypass;
  std::shared_ptr<Call> call = state.Open(std::make_shared<Call>(
      request.key, request.protocol.id, use, [on_verdict = std::move(on_verdict)](absl::StatusOr<JobResult> result) {
        if (!result.ok()) return on_verdict(result.status());
        on_verdict(std::get<Verdict>(*std::move(result)));
      }));
  if (!call) return nullptr;
  const absl::StatusOr<std::string> device = state.DeviceFor(request.candidate.backend);
  if (!device.ok()) {
    state.Finish(call.get(), device.status());
    return call;
  }
  const bool noop = *device == kNoopDevice;
  const std::string content_key = state.ContentKeyOf(request, *device);
  if (use_cache && !noop) {
    if (std::optional<Verdict> cached = state.FindCached(content_key, request.trace_id)) {
      state.metrics.CountRequest(CacheUse::kHit, absl::ToDoubleSeconds(SteadyTime::Now() - call->arrived));
      state.Finish(call.get(), *std::move(cached));
      return call;
    }
  }
  Submission submission;
  submission.digest = content_key;
  submission.priority = request.priority;
  VerifyRequest traced = request;
  if (traced.trace_id.empty()) traced.trace_id = content_key.substr(0, 12);
  submission.payload = EncodeJobPayload(std::move(traced));
  if (use_cache && !noop) {
    submission.key = absl::StrCat("content/", content_key);
  } else {
    submission.key = request.key.empty() ? absl::StrCat("once/", RandomKey()) : absl::StrCat("key/", request.key);
    submission.retain = !request.key.empty();
  }
  if (noop) {
    submission.kind = LaneKind(*device);
  } else {
    const bool described = state.signatures.Find(TaskContentKey(request.task)).has_value();
    submission.kind = described || IsRead(request.candidate) ? BuildKind(*device) : DescribeKind(*device);
  }
  state.Submit(call, submission);
  return call;
}

std::shared_ptr<Engine::Call> Engine::Describe(const Task& task, OnSignature on_signature) {
  State& state = *state_;
  std::shared_ptr<Call> call = state.Open(std::make_shared<Call>(
      "", "", CacheUse::kMiss, [on_signature = std::move(on_signature)](absl::StatusOr<JobResult> result) {
        if (!result.ok()) return on_signature(result.status());
        if (const auto* dead = std::get_if<Verdict>(&*result)) return on_signature(absl::InternalError(dead->message));
        on_signature(std::get<Signature>(*std::move(result)));
      }));
  if (!call) return nullptr;
  const std::string task_key = TaskContentKey(task);
  if (std::optional<Signature> known = state.signatures.Find(task_key)) {
    state.Finish(call.get(), *std::move(known));
    return call;
  }
  const absl::StatusOr<std::string> device = state.AnyDevice();
  if (!device.ok()) {
    state.Finish(call.get(), device.status());
    return call;
  }
  Submission submission;
  submission.key = absl::StrCat("describe/", task_key);
  submission.digest = task_key;
  submission.kind = DescribeKind(*device);
  submission.priority = Priority::kHigh;  // a person or a prompt waits for it, and it takes milliseconds
  submission.payload = EncodeJobPayload(task);
  state.Submit(call, submission);
  return call;
}

/// Registers the call; null when draining, and then it has been answered.
std::shared_ptr<Engine::Call> Engine::State::Open(std::shared_ptr<Call> call) {
  {
    absl::MutexLock lock(&calls_mutex);
    if (!draining) {
      if (!call->key.empty()) calls_by_key.emplace(call->key, call.get());
      calls.emplace(call.get(), call);
      return call;
    }
  }
  call->Take()(absl::UnavailableError("the verifier is shutting down"));
  return nullptr;
}

void Engine::State::Forget(Call* call) {
  if (!call->key.empty()) {
    auto [begin, end] = calls_by_key.equal_range(call->key);
    const auto found = std::find_if(begin, end, [&](const auto& entry) { return entry.second == call; });
    if (found != end) calls_by_key.erase(found);
  }
  calls.erase(call);
}

void Engine::State::Finish(Call* call, absl::StatusOr<JobResult> result) {
  Call::OnResult on_result = call->Take();
  if (!on_result) return;
  const auto* verdict = result.ok() ? std::get_if<Verdict>(&*result) : nullptr;
  if (verdict != nullptr && !verdict->from_cache) {
    metrics.CountRequest(call->use, absl::ToDoubleSeconds(SteadyTime::Now() - call->arrived));
  }
  on_result(std::move(result));
  absl::MutexLock lock(&calls_mutex);
  Forget(call);
}

void Engine::State::Submit(const std::shared_ptr<Call>& call, const Submission& submission) {
  const absl::StatusOr<Ticket> ticket = queue.Submit(
      submission, [this, call](const Outcome& outcome) { Finish(call.get(), ResultOf(*call, outcome)); });
  if (ticket.ok()) {
    call->SetTicket(*ticket);
  } else {
    TellOfRefusal(ticket.status());
    Finish(call.get(), ticket.status());
  }
}

/// Once in ten seconds: where the disk is full, every request is refused.
void Engine::State::TellOfRefusal(const absl::Status& status) {
  {
    absl::MutexLock lock(&calls_mutex);
    if (SteadyTime::Now() - told_of_refusal < absl::Seconds(10)) return;
    told_of_refusal = SteadyTime::Now();
  }
  log.Warning("request refused", {{"error", status.message()}});
}

absl::StatusOr<JobResult> Engine::State::ResultOf(const Call& call, const Outcome& outcome) const {
  switch (outcome.ending) {
    case Outcome::Ending::kCancelled: return absl::CancelledError(outcome.reason);
    case Outcome::Ending::kRefused: return outcome.refusal;
    case Outcome::Ending::kDead: {
      Verdict verdict;
      verdict.status = VerdictStatus::kInfra;
      verdict.message = outcome.reason;
      verdict.protocol = call.protocol;
      return verdict;
    }
    case Outcome::Ending::kDone: break;
  }
  return DecodeJobResult(outcome.result);
}

/// The device kinds that can be asked for.
std::set<std::string> Engine::State::Kinds() const {
  std::set<std::string> kinds;
  for (const LaneSpec& spec : options.lanes) kinds.insert(spec.device);
  if (options.roster == nullptr) return kinds;
  for (const Member& member : options.roster->Members()) {
    for (const Member::Device& device : member.devices) kinds.insert(device.kind);
  }
  return kinds;
}

absl::StatusOr<std::string> Engine::State::AnyDevice() const {
  const std::set<std::string> kinds = Kinds();
  if (kinds.empty()) return absl::UnavailableError("no lane has joined this farm in the last ten minutes");
  return *kinds.begin();
}

absl::StatusOr<std::string> Engine::State::DeviceFor(Backend backend) const {
  const std::string wanted(Name(backend));
  const std::set<std::string> kinds = Kinds();
  if (kinds.count(wanted) != 0) return wanted;
  if (kinds.count(kNoopDevice) != 0) return kNoopDevice;
  HONE_RETURN_IF_ERROR(AnyDevice().status());
  return absl::InvalidArgumentError(
      absl::StrCat("this verifier has no ", wanted, " device; it has: ", absl::StrJoin(kinds, ", ")));
}

/// How many lanes of a kind there are, in all the farm.
int Engine::State::LanesOf(const std::string& device) const {
  int count = 0;
  if (options.roster != nullptr) {
    for (const Member& member : options.roster->Members()) {
      if (member.silent > kGone) continue;
      for (const Member::Device& other : member.devices) count += other.kind == device ? other.lanes : 0;
    }
    return count;
  }
  for (const LaneSpec& spec : options.lanes) count += spec.device == device;
  return count;
}

/// Lanes of one device kind are alike.
LaneFacts Engine::State::FactsOf(const std::string& device) const {
  for (const std::unique_ptr<LaneSlot>& slot : lanes) {
    if (slot->spec.device != device) continue;
    absl::MutexLock lock(&slot->mutex);
    if (!slot->facts.device.empty()) return slot->facts;  // else it has not started yet
  }
  if (options.roster != nullptr) {
    for (const Member& member : options.roster->Members()) {
      for (const Member::Device& other : member.devices) {
        if (other.kind == device) return {other.name, other.sandbox};
      }
    }
  }
  return {device, ""};
}

/// What builds for this backend, here or elsewhere in the farm.
std::string Engine::State::Toolchain(Backend backend) const {
  if (options.roster != nullptr) {
    for (const Member& member : options.roster->Members()) {
      const auto found = member.toolchains.find(std::string(Name(backend)));
      if (found != member.toolchains.end()) return found->second;
    }
  }
  return builder.Toolchain(backend);
}

std::string Engine::State::ContentKeyOf(const VerifyRequest& request, const std::string& device) const {
  const std::string toolchain = absl::StrCat(options.version, "/", Toolchain(request.candidate.backend));
  return ResultKey(request.task, request.candidate, request.protocol, FactsOf(device).device, toolchain);
}

std::optional<Verdict> Engine::State::FindCached(const std::string& content_key, const std::string& trace_id) {
  absl::StatusOr<std::optional<Verdict>> found = cache.Find(content_key);
  if (found.ok()) return *std::move(found);
  log.Warning("result cache", {{"trace", trace_id}, {"error", found.status().message()}});
  return std::nullopt;
}

void Engine::Abandon(const std::shared_ptr<Call>& call) {
  if (!call || !call->Take()) return;
  state_->queue.Abandon(call->ticket());
  absl::MutexLock lock(&state_->calls_mutex);
  state_->Forget(call.get());
}

int64_t Engine::Cancel(const std::string& key) {
  std::vector<std::shared_ptr<Call>> found;
  {
    absl::MutexLock lock(&state_->calls_mutex);
    auto [begin, end] = state_->calls_by_key.equal_range(key);
    for (auto entry = begin; entry != end; ++entry) found.push_back(state_->calls.at(entry->second));
  }
  for (const std::shared_ptr<Call>& call : found) {
    state_->Finish(call.get(), absl::CancelledError("cancelled on request"));
    state_->queue.Abandon(call->ticket());
  }
  // Jobs of this key that were queued through another process, or before a restart.
  const absl::StatusOr<int64_t> queued = state_->queue.Cancel(absl::StrCat("key/", key));
  return static_cast<int64_t>(found.size()) + queued.value_or(0);
}

void Engine::Drain(SteadyTime deadline) {
  State& state = *state_;
  const bool farm = state.options.roster != nullptr;
  {
    absl::MutexLock lock(&state.calls_mutex);
    state.draining = true;
    state.leasing_ended = farm;
  }
  if (farm) state.queue.Close();
  std::vector<std::shared_ptr<Call>> left;
  {
    absl::MutexLock lock(&state.calls_mutex);
    const auto over = [](State* state) ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return state->calls.empty() && (state->working == 0 || !state->leasing_ended);
    };
    AwaitUntil(state.calls_mutex, absl::Condition(+over, &state), deadline);
    for (const auto& [pointer, call] : state.calls) left.push_back(call);
  }
  for (const std::shared_ptr<Call>& call : left) {
    state.Finish(call.get(), absl::UnavailableError("the verifier is shutting down; the job stays queued"));
  }
}

std::map<std::string, std::string> ToolchainsOf(const Builder& builder) {
  std::map<std::string, std::string> toolchains;
  for (const Backend backend : {Backend::kCpu, Backend::kCuda, Backend::kMusa}) {
    const std::string toolchain = builder.Toolchain(backend);
    if (!toolchain.empty()) toolchains[std::string(Name(backend))] = toolchain;
  }
  return toolchains;
}

Capabilities Engine::GetCapabilities() const {
  const State& state = *state_;
  Capabilities capabilities;
  capabilities.version = state.options.version;
  capabilities.protocols = ProtocolIds();
  const auto add = [](std::vector<std::string>& list, const std::string& item) {
    if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
  };
  std::vector<Member> members;
  if (state.options.roster != nullptr) members = state.options.roster->Members();
  if (members.empty()) {
    Member self;
    self.devices = Devices();
    self.toolchains = ToolchainsOf(state.builder);
    self.formats = state.options.formats;
    self.build_slots = state.options.build_slots;
    members.push_back(std::move(self));
  }
  for (const Member& member : members) {
    if (member.silent > kGone) continue;
    for (const Member::Device& device : member.devices) {
      add(capabilities.devices, device.name);
      add(capabilities.backends, device.kind);
      capabilities.lanes += device.lanes;
      if (capabilities.sandbox.empty() || device.sandbox == "none") capabilities.sandbox = device.sandbox;
    }
    for (const auto& [backend, toolchain] : member.toolchains) {
      add(capabilities.toolchains, absl::StrCat(backend, ": ", toolchain));
    }
    for (const std::string& format : member.formats) add(capabilities.formats, format);
    capabilities.build_slots += member.build_slots;
  }
  return capabilities;
}

std::vector<Member::Device> Engine::Devices() const {
  std::vector<Member::Device> devices;
  for (const std::unique_ptr<State::LaneSlot>& slot : state_->lanes) {
    const auto same = [&](const Member::Device& device) { return device.kind == slot->spec.device; };
    auto device = std::find_if(devices.begin(), devices.end(), same);
    if (device == devices.end()) {
      absl::MutexLock lock(&slot->mutex);
      device = devices.insert(devices.end(), {slot->spec.device, slot->facts.device, slot->facts.sandbox, 0});
    } else if (device->name.empty()) {  // of a lane that has not started yet
      absl::MutexLock lock(&slot->mutex);
      device->name = slot->facts.device;
      device->sandbox = slot->facts.sandbox;
    }
    ++device->lanes;
  }
  return devices;
}

// ---------------------------------------------------------------------------------------------------------- workers

/// Nothing: the deadline has passed, or it is time to end. Each job that is returned is given back by EndLease.
std::optional<LeasedJob> Engine::State::LeaseNext(absl::Span<const std::string> kinds, SteadyTime deadline) {
  while (!Stopping()) {
    {
      absl::MutexLock lock(&calls_mutex);
      if (leasing_ended) return std::nullopt;
      ++working;  // before the job is leased, so that a drain cannot miss it
    }
    absl::StatusOr<std::optional<LeasedJob>> leased = queue.Lease(kinds, kFirstLease, deadline);
    if (leased.ok() && leased->has_value()) return *std::move(leased);
    EndLease();
    if (SteadyTime::Now() >= deadline) return std::nullopt;
    if (leased.ok()) continue;
    log.Error("queue", {{"error", leased.status().message()}});
    SleepUnlessStopping(absl::Seconds(1));
  }
  return std::nullopt;
}

bool Engine::State::LeasingEnded() {
  if (Stopping()) return true;
  absl::MutexLock lock(&calls_mutex);
  return leasing_ended;
}

std::shared_ptr<void> Engine::HoldLanes(std::function<void()> on_quiet) {
  State& state = *state_;
  bool quiet = false;
  {
    absl::MutexLock lock(&state.hold_mutex);
    ++state.holds;
    quiet = state.judging == 0;
    if (!quiet) state.on_quiet.push_back(std::move(on_quiet));
  }
  if (quiet) on_quiet();
  return {&state, [](State* held) {
            absl::MutexLock lock(&held->hold_mutex);
            --held->holds;
          }};
}

bool Engine::State::Held() {
  absl::MutexLock lock(&hold_mutex);
  return holds > 0;
}

bool Engine::State::BeginJudging() {
  absl::MutexLock lock(&hold_mutex);
  if (holds > 0) return false;
  ++judging;
  return true;
}

void Engine::State::EndJudging() {
  std::vector<std::function<void()>> tell;
  {
    absl::MutexLock lock(&hold_mutex);
    if (--judging == 0) tell.swap(on_quiet);
  }
  for (const auto& quiet : tell) quiet();
}

void Engine::State::EndLease() {
  absl::MutexLock lock(&calls_mutex);
  --working;
}

/// What the queue answers to a worker's report: a lost lease is business as usual, a full disk is not.
void Engine::State::Report(const LeasedJob& job, const absl::Status& status) const {
  if (status.ok() || absl::IsNotFound(status)) return;
  log.Error("queue", {{"job", job.id}, {"error", status.message()}});
}

void Engine::State::FailTry(const LeasedJob& job, absl::string_view stage, absl::string_view trace_id,
                            absl::string_view reason) {
  if (Stopping()) return Report(job, queue.Release(job));
  metrics.CountFailure(stage);
  log.Warning("try failed", {{"trace", trace_id}, {"stage", stage}, {"job", job.id}, {"try", job.tries}, {"reason", reason}});
  Report(job, queue.Fail(job, std::string(reason)));
}

void Engine::State::BuildLoop() {
  const ScopedCores cores(options.build_cores);
  while (std::optional<LeasedJob> job = LeaseNext(build_kinds)) {
    BuildOne(*job);
    EndLease();
  }
}

void Engine::State::BuildOne(const LeasedJob& job) {
  const absl::StatusOr<JobPayload> payload = DecodeJobPayload(job.payload);
  absl::StatusOr<JobState> state = DecodeJobState(job.state);
  if (!payload.ok() || !state.ok()) return FailTry(job, "build", "", "the queue's record does not decode");
  const VerifyRequest& request = std::get<VerifyRequest>(*payload);
  Report(job, queue.Renew(job, 2 * absl::Milliseconds(request.protocol.build_timeout_ms) + kLeaseSlack));
  state->queue_seconds += absl::ToDoubleSeconds(job.waited);
  if (!state->signature) state->signature = signatures.Find(TaskContentKey(request.task));
  if (!state->signature) return ReadOne(job, request, *state);

  const SteadyTime begin = SteadyTime::Now();
  if (ScreenedOut(job, request, *state)) return;
  absl::StatusOr<BuildResult> built = BuildSource(request, request.candidate.format, request.candidate.source, *state->signature);
  if (built.ok() && built->status == VerdictStatus::kOk && WantsScalar(request)) {
    absl::StatusOr<BuildResult> scalar = BuildSource(request, Format::kNative, request.task.scalar_baseline, *state->signature);
    if (scalar.ok() && scalar->status != VerdictStatus::kOk) {
      scalar = absl::InvalidArgumentError(absl::StrCat("task ", request.task.id, ": its scalar baseline does not build: ",
                                                       Name(scalar->status), ": ", scalar->message));
    }
    if (scalar.ok()) {
      state->scalar_build = *std::move(scalar);
    } else {
      built = scalar.status();
    }
  }
  state->build_seconds += absl::ToDoubleSeconds(SteadyTime::Now() - begin);
  if (!built.ok() && IsCallersToFix(built.status())) {
    return Report(job, queue.Complete(job, EncodeJobResult(built.status())));
  }
  if (!built.ok()) return FailTry(job, "build", request.trace_id, built.status().message());
  if (built->status != VerdictStatus::kOk) return FinishVerdict(job, request, *state, VerdictOf(*built));
  state->build = *std::move(built);
  Report(job, queue.Advance(job, LaneKind(DeviceOf(job)), EncodeJobState(*state)));
}

/// Looks at the candidate on the CPU first; true: it has its verdict.
bool Engine::State::ScreenedOut(const LeasedJob& job, const VerifyRequest& request, JobState& state) {
  if (options.screen == nullptr || !options.screen->Takes(request.candidate)) return false;
  if (state.screened) return false;  // on its way to the device by now
  const SteadyTime begin = SteadyTime::Now();
  std::optional<Verdict> verdict = options.screen->Look(request, *state.signature);
  if (!verdict) {
    metrics.CountScreen("passed");
    return false;
  }
  thread_local std::mt19937_64 random{std::random_device{}()};
  if (std::uniform_real_distribution<double>()(random) < options.screen_rerun_share) {
    metrics.CountScreen("rerun");
    state.screened = verdict->status;
    return false;
  }
  metrics.CountScreen("rejected");
  state.build_seconds += absl::ToDoubleSeconds(SteadyTime::Now() - begin);
  FinishVerdict(job, request, state, *std::move(verdict));
  return true;
}

void Engine::State::ReadOne(const LeasedJob& job, const VerifyRequest& request, JobState& state) {
  if (IsRead(request.candidate)) {
    const SteadyTime begin = SteadyTime::Now();
    const absl::StatusOr<std::optional<BuildResult>> rejected = builder.RejectUnbuilt(BuildRequestOf(request));
    state.build_seconds += absl::ToDoubleSeconds(SteadyTime::Now() - begin);
    if (!rejected.ok() && IsCallersToFix(rejected.status())) {
      return Report(job, queue.Complete(job, EncodeJobResult(rejected.status())));
    }
    if (!rejected.ok()) return FailTry(job, "build", request.trace_id, rejected.status().message());
    if (rejected->has_value()) return FinishVerdict(job, request, state, VerdictOf(**rejected));
  }
  Report(job, queue.Advance(job, DescribeKind(DeviceOf(job)), EncodeJobState(state)));
}

BuildRequest Engine::State::BuildRequestOf(const VerifyRequest& request) const {
  BuildRequest build;
  build.candidate = request.candidate;
  build.legality = request.task.legality;
  build.timeout = absl::Milliseconds(request.protocol.build_timeout_ms);
  return build;
}

absl::StatusOr<BuildResult> Engine::State::BuildSource(const VerifyRequest& request, Format format,
                                                       const std::string& source, const Signature& signature) {
  BuildRequest build = BuildRequestOf(request);
  build.candidate.format = format;
  build.candidate.source = source;
  build.signature = signature;
  return builder.Build(build);
}

void Engine::State::LaneLoop(LaneSlot& slot) {
  absl::Duration backoff = options.lane_backoff_min, quarantine = options.quarantine_min;
  int faults = 0;                 // in a row
  std::set<std::string> victims;  // tasks that met them: one alone may be to blame itself
  while (!Stopping()) {
    if (!EnsureLane(slot, backoff)) continue;
    const SteadyTime free_since = SteadyTime::Now();
    const std::optional<LeasedJob> job = LeaseForLane(slot);
    if (!job) break;
    const bool judges = !IsDescribe(*job);
    const SteadyTime begin = SteadyTime::Now();
    std::shared_ptr<Lane> lane;
    {
      absl::MutexLock lock(&slot.mutex);
      lane = slot.lane;
    }
    metrics.SetLane(slot.spec.name, LaneState::kBusy);
    const bool usable = LaneOne(slot, *lane, *job);
    if (judges) EndJudging();
    EndLease();
    metrics.SetLane(slot.spec.name, usable ? LaneState::kIdle : LaneState::kDown);
    metrics.CountLaneTime(slot.spec.name, absl::ToDoubleSeconds(SteadyTime::Now() - begin),
                          absl::ToDoubleSeconds(std::min(job->waited, begin - std::max(free_since, slot.held_until))));
    if (usable) {
      faults = 0;
      victims.clear();
      quarantine = options.quarantine_min;
      continue;
    }
    {
      absl::MutexLock lock(&slot.mutex);
      slot.lane.reset();
    }
    const absl::StatusOr<JobPayload> payload = DecodeJobPayload(job->payload);
    if (payload.ok()) victims.insert(TaskContentKey(TaskOf(*payload)));
    if (++faults < options.lane_faults || victims.size() < 2) continue;
    Quarantine(slot, quarantine);
    faults = 0;
    victims.clear();
  }
}

void Engine::State::Quarantine(const LaneSlot& slot, absl::Duration& quarantine) {
  if (Stopping()) return;
  metrics.SetLane(slot.spec.name, LaneState::kQuarantined);
  log.Error("lane quarantined", {{"lane", slot.spec.name}, {"seconds", absl::ToDoubleSeconds(quarantine)}});
  SleepUnlessStopping(quarantine);
  quarantine = std::min(2 * quarantine, options.quarantine_max);
}

/// The next job of a lane; one that judges has begun to, and ends with EndJudging. A held lane describes tasks.
std::optional<LeasedJob> Engine::State::LeaseForLane(LaneSlot& slot) {
  while (true) {
    while (Held()) {
      std::optional<LeasedJob> job = LeaseNext({DescribeKind(slot.spec.device)}, SteadyTime::Now() + options.held_pause);
      slot.held_until = SteadyTime::Now();
      if (job || LeasingEnded()) return job;
    }
    std::optional<LeasedJob> job = LeaseFreely(slot);
    if (!job || IsDescribe(*job) || BeginJudging()) return job;
    Report(*job, queue.Release(*job));  // the hold came while this lane waited
    EndLease();
  }
}

/// Second measurements first, so that they find a lane in a busy farm; but who has just left one to the others does what
/// else there is, for a moment.
std::optional<LeasedJob> Engine::State::LeaseFreely(LaneSlot& slot) {
  const std::string& device = slot.spec.device;
  if (std::exchange(slot.passed_on, false)) {
    std::optional<LeasedJob> other =
        LeaseNext({DescribeKind(device), LaneKind(device)}, SteadyTime::Now() + options.pass_on_pause);
    if (other) return other;
  }
  return LeaseNext({DescribeKind(device), AgainKind(device), LaneKind(device)});
}

bool Engine::State::EnsureLane(LaneSlot& slot, absl::Duration& backoff) {
  {
    absl::MutexLock lock(&slot.mutex);
    if (slot.lane) return true;
  }
  const absl::Status started = StartLane(slot);
  if (started.ok()) {
    backoff = options.lane_backoff_min;
    return true;
  }
  log.Error("lane does not start", {{"error", started.message()}});
  SleepUnlessStopping(backoff);
  backoff = std::min(2 * backoff, options.lane_backoff_max);
  return false;
}

bool Engine::State::LaneOne(LaneSlot& slot, Lane& lane, const LeasedJob& job) {
  const absl::StatusOr<JobPayload> payload = DecodeJobPayload(job.payload);
  absl::StatusOr<JobState> state = DecodeJobState(job.state);
  if (!payload.ok() || !state.ok()) {
    FailTry(job, "lane", "", "the queue's record does not decode");
    return true;
  }
  state->queue_seconds += absl::ToDoubleSeconds(job.waited);
  if (IsDescribe(job)) return DescribeOne(lane, job, *payload, *state);
  return JudgeOne(slot, lane, job, std::get<VerifyRequest>(*payload), *state);
}

bool Engine::State::DescribeOne(Lane& lane, const LeasedJob& job, const JobPayload& payload, JobState& state) {
  const std::string task_key = TaskContentKey(TaskOf(payload));
  state.signature = signatures.Find(task_key);
  if (!state.signature) {
    Report(job, queue.Renew(job, kLeaseSlack));
    const SteadyTime begin = SteadyTime::Now();
    absl::StatusOr<Signature> signature = lane.Describe(TaskOf(payload));
    state.queue_seconds += absl::ToDoubleSeconds(SteadyTime::Now() - begin);  // to its candidate it is a wait
    if (!signature.ok() && IsCallersToFix(signature.status())) {
      Report(job, queue.Complete(job, EncodeJobResult(signature.status())));
      return true;
    }
    if (!signature.ok()) {
      FailTry(job, "describe", TraceOf(payload), signature.status().message());
      return false;
    }
    signatures.Put(task_key, *signature);
    state.signature = *std::move(signature);
  }
  if (std::holds_alternative<Task>(payload)) {
    Report(job, queue.Complete(job, EncodeJobResult(*state.signature)));
  } else {
    Report(job, queue.Advance(job, BuildKind(DeviceOf(job)), EncodeJobState(state)));
  }
  return true;
}

bool Engine::State::Locate(JobState& state) {
  const auto locate = [this](BuildResult& build) {
    for (std::string* path : {&build.artefact, &build.checked_artefact}) {
      if (path->empty()) continue;
      if (options.artefacts != nullptr) {
        absl::StatusOr<std::string> here = options.artefacts->Locate(*path);
        if (!here.ok()) return false;
        *path = *std::move(here);
      }
      if (!FileExists(*path)) return false;
    }
    return true;
  };
  return locate(*state.build) && (!state.scalar_build || locate(*state.scalar_build));
}

bool Engine::State::PassedOn(LaneSlot& slot, const LeasedJob& job, const VerifyRequest& request, JobState& state) {
  if (request.avoid_lane.empty() || request.avoid_lane != NameOf(slot)) return false;
  if (LanesOf(slot.spec.device) < 2 || state.passed_on >= options.most_passes) return false;
  ++state.passed_on;
  Report(job, queue.Advance(job, AgainKind(slot.spec.device), EncodeJobState(state)));
  slot.passed_on = true;
  return true;
}

bool Engine::State::JudgeOne(LaneSlot& slot, Lane& lane, const LeasedJob& job, const VerifyRequest& request,
                             JobState& state) {
  const bool noop = slot.spec.device == kNoopDevice;
  if (!noop && (!state.signature || !state.build)) {
    FailTry(job, "lane", request.trace_id, "the job reached the lane unbuilt");
    return true;
  }
  if (PassedOn(slot, job, request, state)) return true;
  // The artefact store may have dropped it while the job waited, or between two starts of the verifier.
  if (!noop && !Locate(state)) {
    state.build.reset();
    state.scalar_build.reset();
    Report(job, queue.Advance(job, BuildKind(DeviceOf(job)), EncodeJobState(state)));
    return true;
  }
  Report(job, queue.Renew(job, absl::Milliseconds(request.protocol.run_timeout_ms) + kLeaseSlack));
  LaneJob work;
  work.task = request.task;
  work.protocol = request.protocol;
  work.trace_id = request.trace_id;
  if (state.signature) work.signature = *state.signature;
  if (state.build) work.build = *state.build;
  if (state.scalar_build) work.scalar_build = *state.scalar_build;
  log.Debug("judging", {{"trace", request.trace_id}, {"job", job.id}, {"lane", slot.spec.name}, {"try", job.tries}});
  absl::StatusOr<Verdict> verdict = lane.Judge(work);
  if (!verdict.ok() && IsCallersToFix(verdict.status())) {
    Report(job, queue.Complete(job, EncodeJobResult(verdict.status())));
    return true;
  }
  if (!verdict.ok() || verdict->status == VerdictStatus::kInfra) {
    FailTry(job, "lane", request.trace_id, verdict.ok() ? verdict->message : verdict.status().message());
    return verdict.ok();
  }
  const RunnerSupply supply = lane.Supply();
  metrics.CountRunners(slot.spec.name, supply.ahead, supply.waited_s);
  verdict->lane = NameOf(slot);
  if (state.screened && verdict->ok()) {
    metrics.CountScreen("disagreed");
    log.Warning("the CPU screen rejected what the device finds right",
                {{"trace", request.trace_id}, {"task", request.task.id}, {"screen", Name(*state.screened)}});
  }
  FinishVerdict(job, request, state, *std::move(verdict));
  return true;
}

void Engine::State::FinishVerdict(const LeasedJob& job, const VerifyRequest& request, const JobState& state,
                                  Verdict verdict) {
  verdict.seconds.queue = state.queue_seconds;
  verdict.seconds.build = state.build_seconds;
  verdict.protocol = request.protocol.id;
  const std::string device = DeviceOf(job);
  const LaneFacts facts = FactsOf(device);
  if (verdict.device.empty()) verdict.device = facts.device;
  if (verdict.sandbox.empty()) verdict.sandbox = facts.sandbox;
  if (device != kNoopDevice) {
    const absl::Status kept = cache.Put(job.digest, verdict);
    if (!kept.ok()) log.Warning("result cache", {{"trace", request.trace_id}, {"error", kept.message()}});
  }
  metrics.CountVerdict(verdict);
  log.Info("verdict", {{"trace", request.trace_id},
                       {"job", job.id},
                       {"task", request.task.id},
                       {"status", Name(verdict.status)},
                       {"device", verdict.device},
                       {"lane", verdict.lane},
                       {"queue_s", verdict.seconds.queue},
                       {"build_s", verdict.seconds.build},
                       {"check_s", verdict.seconds.check},
                       {"time_s", verdict.seconds.time}});
  Report(job, queue.Complete(job, EncodeJobResult(verdict)));
}

}  // namespace hone::verifier
