#include "trainer/coordinator/service.h"

#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "hone/v1/rollout.grpc.pb.h"
#include "proto/convert.h"

namespace hone::trainer {
namespace {

// Groups with long answers and compiler output are large.
constexpr int kMaxMessageBytes = 256 << 20;
constexpr int kMostGroups = 1024;
constexpr int64_t kLongestWaitMs = 60'000;
constexpr absl::Duration kSlice = absl::Milliseconds(200);  // of a wait: then it is seen whether the caller still waits

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

absl::Status CheckWait(const char* call, int64_t wait_ms) {
  if (wait_ms >= 0 && wait_ms <= kLongestWaitMs) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(call, ": wait_ms = ", wait_ms, ", allowed [0, ", kLongestWaitMs, "]"));
}

absl::Status Check(const v1::LeaseRequest& request) {
  if (request.worker().empty()) return absl::InvalidArgumentError("lease: worker is empty");
  if (request.max_groups() < 1 || request.max_groups() > kMostGroups) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease: max_groups = ", request.max_groups(), ", allowed [1, ", kMostGroups, "]"));
  }
  return CheckWait("lease", request.wait_ms());
}

void ToWire(const LeasedGroup& from, v1::GroupLease* to) {
  to->set_lease(from.lease);
  to->set_group_id(from.request.id);
  proto::ToWire(from.request.task, to->mutable_task());
  to->mutable_prompt_ids()->Add(from.request.prompt_ids.begin(), from.request.prompt_ids.end());
  to->set_retry(from.request.retry);
  to->set_seed(from.seed);
  to->set_oldest_version(from.oldest_version);
  if (from.request.best) to->set_best_speedup(*from.request.best);
}

class Service final : public v1::Coordinator::Service {
 public:
  Service(LeaseTable& table, RunDesk* desk, int64_t workers) : table_(table), desk_(desk), workers_(workers) {}

  /// Calls that wait end soon.
  void Stop() { stopping_ = true; }

  grpc::Status Join(grpc::ServerContext*, const v1::JoinRequest* request, v1::JoinResponse* response) override {
    if (desk_ == nullptr) return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "the run deals out prompts alone");
    if (request->worker().empty()) return ToGrpc(absl::InvalidArgumentError("join: worker is empty"));
    Heard(request->worker());
    const RunDescription& run = desk_->run();
    response->set_session(run.session);
    response->set_settings(run.settings);
    for (const auto& [name, bytes] : run.files) (*response->mutable_files())[name] = bytes;
    response->set_store_port(run.store_port);
    return grpc::Status::OK;
  }

  grpc::Status AwaitWeights(grpc::ServerContext* context, const v1::AwaitWeightsRequest* request,
                            v1::AwaitWeightsResponse* response) override {
    if (desk_ == nullptr) return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "the run deals out prompts alone");
    if (absl::Status good = CheckWait("await weights", request->wait_ms()); !good.ok()) return ToGrpc(good);
    if (absl::Status good = CheckSession(request->session()); !good.ok()) return ToGrpc(good);
    const SteadyTime deadline = SteadyTime::Now() + absl::Milliseconds(request->wait_ms());
    do {
      if (context->IsCancelled()) return grpc::Status::CANCELLED;
      if (stopping_) return Stopping();
      Heard(request->worker());
      const std::optional<WeightGrant> grant =
          desk_->Await({request->worker(), request->held(), request->connected()},
                       std::min(deadline, SteadyTime::Now() + kSlice));
      if (!grant) continue;
      response->set_granted(true);
      response->set_channel(grant->channel);
      response->set_fresh(grant->fresh);
      response->set_nccl(grant->nccl);
      break;
    } while (SteadyTime::Now() < deadline);
    return grpc::Status::OK;
  }

  grpc::Status Leave(grpc::ServerContext*, const v1::LeaveRequest* request, v1::LeaveResponse*) override {
    if (desk_ != nullptr) desk_->Left(request->worker());
    return grpc::Status::OK;
  }

  // Waits in short pieces: a worker that has gone away, or a server that stops, is noticed between them. What is leased
  // to a worker that is gone by then comes back when its lease runs out.
  grpc::Status Lease(grpc::ServerContext* context, const v1::LeaseRequest* request,
                     v1::LeaseResponse* response) override {
    if (absl::Status good = Check(*request); !good.ok()) return ToGrpc(good);
    if (absl::Status good = CheckSession(request->session()); !good.ok()) return ToGrpc(good);
    response->set_ready_version(-1);
    response->set_renew_ms(absl::ToInt64Milliseconds(table_.lease_duration()));
    const SteadyTime deadline = SteadyTime::Now() + absl::Milliseconds(request->wait_ms());
    while (true) {
      if (context->IsCancelled()) return grpc::Status::CANCELLED;
      if (stopping_) return Stopping();
      Heard(request->worker());
      const absl::StatusOr<std::vector<LeasedGroup>> leased =
          table_.Lease(request->worker(), request->max_groups(), std::min(deadline, SteadyTime::Now() + kSlice), Sharers());
      response->set_over(absl::IsCancelled(leased.status()));
      if (response->over()) {
        if (desk_ != nullptr) desk_->Left(request->worker());
        return grpc::Status::OK;
      }
      if (!leased.ok()) return ToGrpc(leased.status());
      for (const LeasedGroup& group : *leased) ToWire(group, response->add_leases());
      if (desk_ != nullptr) response->set_ready_version(desk_->ready_version());
      if (!leased->empty() || SteadyTime::Now() >= deadline) return grpc::Status::OK;
    }
  }

  grpc::Status Renew(grpc::ServerContext*, const v1::RenewRequest* request, v1::RenewResponse* response) override {
    Heard(request->worker());
    const std::vector<std::string> leases(request->leases().begin(), request->leases().end());
    for (std::string& lost : table_.Renew(request->worker(), leases)) response->add_lost(std::move(lost));
    return grpc::Status::OK;
  }

  grpc::Status Deliver(grpc::ServerContext*, const v1::DeliverRequest* request,
                       v1::DeliverResponse* response) override {
    Heard(request->worker());
    Group group;
    if (absl::Status read = proto::FromWire(request->group(), &group); !read.ok()) {
      table_.GiveBack(request->lease(), std::string(read.message())).IgnoreError();
      return ToGrpc(read);
    }
    const absl::StatusOr<bool> counted = table_.Deliver(request->lease(), std::move(group));
    if (!counted.ok()) return ToGrpc(counted.status());
    response->set_counted(*counted);
    if (*counted && desk_ != nullptr) desk_->AddSeconds({request->generate_s(), request->verify_s()});
    return grpc::Status::OK;
  }

  grpc::Status GiveBack(grpc::ServerContext*, const v1::GiveBackRequest* request, v1::GiveBackResponse*) override {
    return ToGrpc(table_.GiveBack(request->lease(), request->reason(), request->leaving()));
  }

 private:
  static grpc::Status Stopping() { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping"); }

  void Heard(const std::string& worker) {
    if (desk_ != nullptr) desk_->Seen(worker);
  }
  absl::Status CheckSession(const std::string& session) const {
    if (desk_ == nullptr || session == desk_->run().session) return absl::OkStatus();
    return absl::AbortedError("the run was started anew: join it again");
  }
  int64_t Sharers() const {
    return desk_ == nullptr ? workers_ : std::max(workers_, static_cast<int64_t>(desk_->Alive().size()));
  }

  LeaseTable& table_;
  RunDesk* const desk_;
  const int64_t workers_;
  std::atomic<bool> stopping_{false};
};

}  // namespace

struct CoordinatorServer::State {
  State(LeaseTable& table, RunDesk* desk, int64_t workers) : service(table, desk, workers) {}
  Service service;
  std::unique_ptr<grpc::Server> server;
  std::string address;
};

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(const std::string& address,
                                                                            LeaseTable& table, RunDesk* desk,
                                                                            int64_t workers) {
  auto state = std::make_unique<State>(table, desk, workers);
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&state->service);
  state->server = builder.BuildAndStart();
  const bool is_unix = absl::StartsWith(address, "unix:");
  if (state->server == nullptr || (!is_unix && port == 0)) {
    return absl::FailedPreconditionError(absl::StrCat("coordinator: ", address, " cannot be served"));
  }
  state->address = is_unix ? address : absl::StrCat(address.substr(0, address.rfind(':') + 1), port);
  return std::unique_ptr<CoordinatorServer>(new CoordinatorServer(std::move(state)));
}

CoordinatorServer::CoordinatorServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

CoordinatorServer::~CoordinatorServer() {
  state_->service.Stop();
  state_->server->Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(2, GPR_TIMESPAN)));
}

const std::string& CoordinatorServer::address() const { return state_->address; }

}  // namespace hone::trainer
