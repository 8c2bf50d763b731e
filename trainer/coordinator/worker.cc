#include "trainer/coordinator/worker.h"

#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "hone/v1/rollout.grpc.pb.h"
#include "proto/convert.h"

namespace hone::trainer {
namespace {

constexpr int kMaxMessageBytes = 256 << 20;
constexpr absl::Duration kLook = absl::Milliseconds(100);  // how often it is seen whether to stop
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100), kLongestBackoff = absl::Seconds(5);
constexpr absl::Duration kAnswer = absl::Seconds(30);  // of a call that does not wait for work
constexpr absl::Duration kLongestRest = absl::Seconds(30);  // after failed samplings

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

gpr_timespec In(absl::Duration duration) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(absl::ToInt64Milliseconds(duration), GPR_TIMESPAN));
}

// The coordinator does not answer now, and may later. One that stops cancels the calls that it still has.
bool Transient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
}

absl::Status FromWire(const v1::GroupLease& from, LeasedGroup* to) {
  to->lease = from.lease();
  to->request.id = from.group_id();
  HONE_RETURN_IF_ERROR(proto::FromWire(from.task(), &to->request.task));
  to->request.prompt_ids.assign(from.prompt_ids().begin(), from.prompt_ids().end());
  to->request.retry = from.retry();
  to->seed = from.seed();
  to->oldest_version = from.oldest_version();
  if (from.has_best_speedup()) to->request.best = from.best_speedup();
  return absl::OkStatus();
}

class Connection {
 public:
  explicit Connection(const WorkerOptions& options) : options_(options) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    arguments.SetMaxSendMessageSize(kMaxMessageBytes);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
    channel_ = grpc::CreateCustomChannel(options.coordinator, grpc::InsecureChannelCredentials(), arguments);
    stub_ = v1::Coordinator::NewStub(channel_);
  }

  /// Calls until somebody answers, `unreachable` has passed, or kCancelled: stopped.
  template <class Request, class Response>
  absl::Status Call(grpc::Status (v1::Coordinator::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response, absl::Duration answer) {
    SteadyTime give_up = SteadyTime::InfiniteFuture();
    for (absl::Duration pause = kFirstBackoff;; pause = std::min(pause * 2, kLongestBackoff)) {
      grpc::ClientContext context;
      context.set_deadline(In(answer));
      response->Clear();
      const absl::Status status = FromGrpc((stub_.get()->*method)(&context, request, response));
      if (!Transient(status)) return status;
      if (Stopped()) return absl::CancelledError("the worker was stopped");
      give_up = std::min(give_up, SteadyTime::Now() + options_.unreachable);
      if (options_.on_wait && pause > kFirstBackoff) {
        options_.on_wait(absl::StrCat("waiting for a coordinator at ", options_.coordinator));
      }
      if (SteadyTime::Now() + pause > give_up) {
        return absl::UnavailableError(absl::StrCat("coordinator at ", options_.coordinator, " has not answered for ",
                                                   absl::FormatDuration(options_.unreachable), ": ", status.message()));
      }
      Pause(pause);
    }
  }

  bool Stopped() const { return options_.stop != nullptr && options_.stop->load(); }
  v1::Coordinator::Stub& stub() { return *stub_; }
  void Rest(absl::Duration duration) const {
    const SteadyTime end = SteadyTime::Now() + duration;
    while (!Stopped() && SteadyTime::Now() < end) absl::SleepFor(std::min(end - SteadyTime::Now(), kLook));
  }

 private:
  // A synchronous channel connects only while somebody waits on it.
  void Pause(absl::Duration duration) {
    const SteadyTime end = SteadyTime::Now() + duration;
    while (!Stopped() && SteadyTime::Now() < end) {
      const absl::Duration slice = std::min(end - SteadyTime::Now(), kLook);
      const bool ready = channel_->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
      if (!ready && channel_->WaitForConnected(In(slice))) return;
      if (ready) absl::SleepFor(slice);
    }
  }

  const WorkerOptions& options_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Coordinator::Stub> stub_;
};

/// Renews leases from a thread of its own, three times as often as they run out; gives them back when told to stop, while
/// the work on them may still unwind.
class Renewer {
 public:
  Renewer(Connection& connection, v1::RenewRequest request, absl::Duration period)
      : connection_(connection), request_(std::move(request)), period_(period / 3), thread_([this] { Run(); }) {}
  ~Renewer() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

 private:
  void Run() {
    SteadyTime next = SteadyTime::Now() + period_;
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, absl::ToChronoMilliseconds(std::min(kLook, period_)), [this] { return done_; })) {
      lock.unlock();
      if (connection_.Stopped()) return GiveBack();
      if (SteadyTime::Now() >= next) {
        Renew();
        next += period_;
      }
      lock.lock();
    }
  }

  void Renew() {
    grpc::ClientContext context;
    context.set_deadline(In(period_));
    v1::RenewResponse response;
    connection_.stub().Renew(&context, request_, &response);  // one that fails is tried again in a period
  }

  void GiveBack() {
    for (const std::string& lease : request_.leases()) {
      grpc::ClientContext context;
      context.set_deadline(In(absl::Seconds(2)));
      v1::GiveBackRequest request;
      request.set_worker(request_.worker());
      request.set_lease(lease);
      request.set_reason("the worker leaves");
      request.set_leaving(true);
      v1::GiveBackResponse response;
      if (!connection_.stub().GiveBack(&context, request, &response).ok()) return;  // it runs out
    }
  }

  Connection& connection_;
  const v1::RenewRequest request_;
  const absl::Duration period_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace

class WorkerLink::State {
 public:
  explicit State(const WorkerOptions& options) : options_(options), connection_(options_) {}

  absl::StatusOr<RunDescription> Join() {
    v1::JoinRequest request;
    request.set_worker(options_.name);
    v1::JoinResponse response;
    HONE_RETURN_IF_ERROR(connection_.Call(&v1::Coordinator::Stub::Join, request, &response, kAnswer));
    RunDescription run;
    run.session = session_ = response.session();
    run.settings = response.settings();
    for (const auto& [name, bytes] : response.files()) run.files[name] = bytes;
    run.store_port = response.store_port();
    return run;
  }

  void Use(const RunDescription& run) { session_ = run.session; }

  absl::StatusOr<std::optional<WeightGrant>> AwaitWeights(int64_t held, bool connected, absl::Duration wait) {
    v1::AwaitWeightsRequest request;
    request.set_worker(options_.name);
    request.set_session(session_);
    request.set_held(held);
    request.set_connected(connected);
    request.set_wait_ms(absl::ToInt64Milliseconds(wait));
    v1::AwaitWeightsResponse response;
    HONE_RETURN_IF_ERROR(connection_.Call(&v1::Coordinator::Stub::AwaitWeights, request, &response, wait + kAnswer));
    if (!response.granted()) return std::optional<WeightGrant>();
    return std::make_optional(WeightGrant{response.channel(), response.fresh(), response.nccl()});
  }

  absl::StatusOr<WorkerReport> Work(const SampleGroups& sample) {
    WorkerReport report;
    int64_t failures = 0;  // in a row
    while (!connection_.Stopped()) {
      v1::LeaseResponse leased;
      const absl::Status status = Ask(&leased);
      if (leased.over() || absl::IsCancelled(status)) break;
      HONE_RETURN_IF_ERROR(status);
      if (leased.leases().empty()) continue;
      const absl::Status worked = WorkOn(leased, sample, report);
      if (absl::IsCancelled(worked)) break;
      if (absl::IsUnavailable(worked)) return worked;
      if (worked.ok()) {
        failures = 0;
        continue;
      }
      if (++failures >= options_.failures) return worked;
      if (options_.on_wait) options_.on_wait(absl::StrCat("pausing: ", worked.message()));
      connection_.Rest(std::min(absl::Seconds(1) * (1 << std::min<int64_t>(failures - 1, 10)), kLongestRest));
    }
    return report;
  }

  void Leave() {
    grpc::ClientContext context;
    context.set_deadline(In(absl::Seconds(2)));
    v1::LeaveRequest request;
    request.set_worker(options_.name);
    v1::LeaveResponse response;
    connection_.stub().Leave(&context, request, &response);  // else it is found out by its silence
  }

 private:
  absl::Status Ask(v1::LeaseResponse* leased) {
    v1::LeaseRequest request;
    request.set_worker(options_.name);
    request.set_session(session_);
    request.set_max_groups(static_cast<int32_t>(options_.groups));
    // In short questions, so that a stop is not slept through.
    const absl::Duration wait = options_.stop == nullptr ? options_.wait : std::min(options_.wait, absl::Seconds(1));
    request.set_wait_ms(absl::ToInt64Milliseconds(wait));
    return connection_.Call(&v1::Coordinator::Stub::Lease, request, leased, wait + kAnswer);
  }

  // kUnavailable: nobody answers; kCancelled: stopped; another error is the sampling's, whose leases have gone back.
  absl::Status WorkOn(const v1::LeaseResponse& leased, const SampleGroups& sample, WorkerReport& report) {
    std::vector<LeasedGroup> work(leased.leases_size());
    v1::RenewRequest renewal;
    renewal.set_worker(options_.name);
    for (int i = 0; i < leased.leases_size(); ++i) {
      HONE_RETURN_IF_ERROR(FromWire(leased.leases(i), &work[i]));
      work[i].ready_version = leased.ready_version();
      renewal.add_leases(work[i].lease);
    }
    const Renewer renewer(connection_, std::move(renewal), absl::Milliseconds(leased.renew_ms()));
    absl::StatusOr<SampledWork> done = sample(work);
    if (done.ok() && done->groups.size() != work.size()) {
      done = absl::InternalError(absl::StrCat(done->groups.size(), " groups for ", work.size(), " requests"));
    }
    if (!done.ok()) {
      if (!connection_.Stopped()) HONE_RETURN_IF_ERROR(GiveBack(work, std::string(done.status().message()), report));
      // Who is to join again finds it out by the next question.
      return absl::IsUnavailable(done.status()) ? absl::InternalError(done.status().message()) : done.status();
    }
    const double share = 1.0 / static_cast<double>(work.size());
    for (size_t i = 0; i < work.size(); ++i) {
      HONE_RETURN_IF_ERROR(Deliver(work[i].lease, done->groups[i],
                                   {done->seconds.generate * share, done->seconds.verify * share}, report));
    }
    return absl::OkStatus();
  }

  absl::Status Deliver(const std::string& lease, const Group& group, const WorkSeconds& seconds,
                       WorkerReport& report) {
    v1::DeliverRequest request;
    request.set_worker(options_.name);
    request.set_lease(lease);
    proto::ToWire(group, request.mutable_group());
    request.set_generate_s(seconds.generate);
    request.set_verify_s(seconds.verify);
    v1::DeliverResponse response;
    const absl::Status status = connection_.Call(&v1::Coordinator::Stub::Deliver, request, &response, kAnswer);
    if (absl::IsInvalidArgument(status)) {
      ++report.refused;
      return absl::OkStatus();
    }
    // A coordinator that was restarted does not know the lease.
    if (status.ok() || absl::IsNotFound(status))
      ++(status.ok() && response.counted() ? report.counted : report.unwanted);
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }

  absl::Status GiveBack(const std::vector<LeasedGroup>& work, const std::string& reason, WorkerReport& report) {
    for (const LeasedGroup& group : work) {
      v1::GiveBackRequest request;
      request.set_worker(options_.name);
      request.set_lease(group.lease);
      request.set_reason(reason);
      v1::GiveBackResponse response;
      HONE_RETURN_IF_ERROR(connection_.Call(&v1::Coordinator::Stub::GiveBack, request, &response, kAnswer));
      ++report.given_back;
    }
    return absl::OkStatus();
  }

  const WorkerOptions options_;
  Connection connection_;
  std::string session_;
};

WorkerLink::WorkerLink(std::unique_ptr<State> state) : state_(std::move(state)) {}
WorkerLink::~WorkerLink() = default;

absl::StatusOr<std::unique_ptr<WorkerLink>> WorkerLink::Create(const WorkerOptions& options) {
  if (options.name.empty()) return absl::InvalidArgumentError("worker: name is empty");
  if (options.groups < 1 || options.groups > 1024)
    return absl::InvalidArgumentError(absl::StrCat("worker: groups = ", options.groups, ", allowed [1, 1024]"));
  return std::unique_ptr<WorkerLink>(new WorkerLink(std::make_unique<State>(options)));
}

absl::StatusOr<RunDescription> WorkerLink::Join() { return state_->Join(); }
void WorkerLink::Use(const RunDescription& run) { state_->Use(run); }
absl::StatusOr<std::optional<WeightGrant>> WorkerLink::AwaitWeights(int64_t held, bool connected, absl::Duration wait) {
  return state_->AwaitWeights(held, connected, wait);
}
absl::StatusOr<WorkerReport> WorkerLink::Work(const SampleGroups& sample) { return state_->Work(sample); }
void WorkerLink::Leave() { state_->Leave(); }

absl::StatusOr<WorkerReport> RunWorker(const WorkerOptions& options, const SampleGroups& sample) {
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerLink> link, WorkerLink::Create(options));
  return link->Work(sample);
}

}  // namespace hone::trainer
