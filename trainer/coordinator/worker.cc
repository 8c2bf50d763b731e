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
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100), kLongestBackoff = absl::Seconds(5);
constexpr absl::Duration kAnswer = absl::Seconds(30);  // of a call that does not wait for work

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

  /// Calls until somebody answers or `unreachable` has passed.
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
      give_up = std::min(give_up, SteadyTime::Now() + options_.unreachable);
      if (SteadyTime::Now() + pause > give_up || Stopped()) {
        return absl::UnavailableError(absl::StrCat("coordinator at ", options_.coordinator, " has not answered for ",
                                                   absl::FormatDuration(options_.unreachable), ": ", status.message()));
      }
      Pause(pause);
    }
  }

  bool Stopped() const { return options_.stop != nullptr && options_.stop->load(); }
  v1::Coordinator::Stub& stub() { return *stub_; }

 private:
  // A synchronous channel connects only while somebody waits on it.
  void Pause(absl::Duration duration) {
    const SteadyTime end = SteadyTime::Now() + duration;
    const bool ready = channel_->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
    if (!ready && channel_->WaitForConnected(In(duration))) return;
    absl::SleepFor(end - SteadyTime::Now());
  }

  const WorkerOptions& options_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Coordinator::Stub> stub_;
};

/// Renews leases from a thread of its own, three times as often as they run out.
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
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, absl::ToChronoMilliseconds(period_), [this] { return done_; })) {
      lock.unlock();
      grpc::ClientContext context;
      context.set_deadline(In(period_));
      v1::RenewResponse response;
      connection_.stub().Renew(&context, request_, &response);  // one that fails is tried again in a period
      lock.lock();
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

class Worker {
 public:
  Worker(const WorkerOptions& options, const SampleGroups& sample)
      : options_(options), sample_(sample), connection_(options) {}

  absl::StatusOr<WorkerReport> Run() {
    while (!connection_.Stopped()) {
      v1::LeaseResponse leased;
      const absl::Status status = Ask(&leased);
      if (leased.over() || (connection_.Stopped() && absl::IsUnavailable(status))) break;
      HONE_RETURN_IF_ERROR(status);
      if (leased.leases().empty()) continue;
      if (const absl::Status worked = Work(leased); absl::IsCancelled(worked))
        break;
      else if (!worked.ok())
        return worked;
    }
    return report_;
  }

 private:
  absl::Status Ask(v1::LeaseResponse* leased) {
    v1::LeaseRequest request;
    request.set_worker(options_.name);
    request.set_max_groups(static_cast<int32_t>(options_.groups));
    request.set_wait_ms(absl::ToInt64Milliseconds(options_.wait));
    return connection_.Call(&v1::Coordinator::Stub::Lease, request, leased, options_.wait + kAnswer);
  }

  absl::Status Work(const v1::LeaseResponse& leased) {
    std::vector<LeasedGroup> work(leased.leases_size());
    v1::RenewRequest renewal;
    renewal.set_worker(options_.name);
    for (int i = 0; i < leased.leases_size(); ++i) {
      HONE_RETURN_IF_ERROR(FromWire(leased.leases(i), &work[i]));
      renewal.add_leases(work[i].lease);
    }
    const Renewer renewer(connection_, std::move(renewal), absl::Milliseconds(leased.renew_ms()));
    absl::StatusOr<std::vector<Group>> groups = sample_(work);
    if (groups.ok() && groups->size() != work.size()) {
      groups = absl::InternalError(absl::StrCat(groups->size(), " groups for ", work.size(), " requests"));
    }
    if (!groups.ok()) {
      HONE_RETURN_IF_ERROR(GiveBack(work, std::string(groups.status().message())));
      return absl::IsCancelled(groups.status()) ? groups.status() : absl::OkStatus();
    }
    for (size_t i = 0; i < work.size(); ++i) HONE_RETURN_IF_ERROR(Deliver(work[i].lease, (*groups)[i]));
    return absl::OkStatus();
  }

  absl::Status Deliver(const std::string& lease, const Group& group) {
    v1::DeliverRequest request;
    request.set_worker(options_.name);
    request.set_lease(lease);
    proto::ToWire(group, request.mutable_group());
    v1::DeliverResponse response;
    const absl::Status status = connection_.Call(&v1::Coordinator::Stub::Deliver, request, &response, kAnswer);
    if (absl::IsInvalidArgument(status)) {
      ++report_.refused;
      return absl::OkStatus();
    }
    // A coordinator that was restarted does not know the lease.
    if (status.ok() || absl::IsNotFound(status))
      ++(status.ok() && response.counted() ? report_.counted : report_.unwanted);
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  }

  absl::Status GiveBack(const std::vector<LeasedGroup>& work, const std::string& reason) {
    for (const LeasedGroup& group : work) {
      v1::GiveBackRequest request;
      request.set_worker(options_.name);
      request.set_lease(group.lease);
      request.set_reason(reason);
      v1::GiveBackResponse response;
      HONE_RETURN_IF_ERROR(connection_.Call(&v1::Coordinator::Stub::GiveBack, request, &response, kAnswer));
      ++report_.given_back;
    }
    return absl::OkStatus();
  }

  const WorkerOptions& options_;
  const SampleGroups& sample_;
  Connection connection_;
  WorkerReport report_;
};

}  // namespace

absl::StatusOr<WorkerReport> RunWorker(const WorkerOptions& options, const SampleGroups& sample) {
  if (options.name.empty()) return absl::InvalidArgumentError("worker: name is empty");
  if (options.groups < 1 || options.groups > 1024)
    return absl::InvalidArgumentError(absl::StrCat("worker: groups = ", options.groups, ", allowed [1, 1024]"));
  return Worker(options, sample).Run();
}

}  // namespace hone::trainer
