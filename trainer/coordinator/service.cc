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

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

absl::Status Check(const v1::LeaseRequest& request) {
  if (request.worker().empty()) return absl::InvalidArgumentError("lease: worker is empty");
  if (request.max_groups() < 1 || request.max_groups() > kMostGroups) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease: max_groups = ", request.max_groups(), ", allowed [1, ", kMostGroups, "]"));
  }
  if (request.wait_ms() < 0 || request.wait_ms() > kLongestWaitMs) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease: wait_ms = ", request.wait_ms(), ", allowed [0, ", kLongestWaitMs, "]"));
  }
  return absl::OkStatus();
}

void ToWire(const LeasedGroup& from, v1::GroupLease* to) {
  to->set_lease(from.lease);
  to->set_group_id(from.request.id);
  proto::ToWire(from.request.task, to->mutable_task());
  to->mutable_prompt_ids()->Add(from.request.prompt_ids.begin(), from.request.prompt_ids.end());
  to->set_retry(from.request.retry);
  to->set_seed(from.seed);
  to->set_oldest_version(from.oldest_version);
}

class Service final : public v1::Coordinator::Service {
 public:
  explicit Service(LeaseTable& table) : table_(table) {}

  /// Calls that wait end soon.
  void Stop() { stopping_ = true; }

  // Waits in short pieces: a worker that has gone away, or a server that stops, is noticed between them. What is leased
  // to a worker that is gone by then comes back when its lease runs out.
  grpc::Status Lease(grpc::ServerContext* context, const v1::LeaseRequest* request,
                     v1::LeaseResponse* response) override {
    if (absl::Status good = Check(*request); !good.ok()) return ToGrpc(good);
    response->set_renew_ms(absl::ToInt64Milliseconds(table_.lease_duration()));
    const SteadyTime deadline = SteadyTime::Now() + absl::Milliseconds(request->wait_ms());
    while (true) {
      if (context->IsCancelled()) return grpc::Status::CANCELLED;
      if (stopping_) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping");
      const absl::StatusOr<std::vector<LeasedGroup>> leased = table_.Lease(
          request->worker(), request->max_groups(), std::min(deadline, SteadyTime::Now() + absl::Milliseconds(200)));
      response->set_over(absl::IsCancelled(leased.status()));
      if (response->over()) return grpc::Status::OK;
      if (!leased.ok()) return ToGrpc(leased.status());
      for (const LeasedGroup& group : *leased) ToWire(group, response->add_leases());
      if (!leased->empty() || SteadyTime::Now() >= deadline) return grpc::Status::OK;
    }
  }

  grpc::Status Renew(grpc::ServerContext*, const v1::RenewRequest* request, v1::RenewResponse* response) override {
    const std::vector<std::string> leases(request->leases().begin(), request->leases().end());
    for (std::string& lost : table_.Renew(request->worker(), leases)) response->add_lost(std::move(lost));
    return grpc::Status::OK;
  }

  grpc::Status Deliver(grpc::ServerContext*, const v1::DeliverRequest* request,
                       v1::DeliverResponse* response) override {
    Group group;
    if (absl::Status read = proto::FromWire(request->group(), &group); !read.ok()) {
      table_.GiveBack(request->lease(), std::string(read.message())).IgnoreError();
      return ToGrpc(read);
    }
    const absl::StatusOr<bool> counted = table_.Deliver(request->lease(), std::move(group));
    if (!counted.ok()) return ToGrpc(counted.status());
    response->set_counted(*counted);
    return grpc::Status::OK;
  }

  grpc::Status GiveBack(grpc::ServerContext*, const v1::GiveBackRequest* request, v1::GiveBackResponse*) override {
    return ToGrpc(table_.GiveBack(request->lease(), request->reason()));
  }

 private:
  LeaseTable& table_;
  std::atomic<bool> stopping_{false};
};

}  // namespace

struct CoordinatorServer::State {
  explicit State(LeaseTable& table) : service(table) {}
  Service service;
  std::unique_ptr<grpc::Server> server;
  std::string address;
};

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(const std::string& address,
                                                                            LeaseTable& table) {
  auto state = std::make_unique<State>(table);
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
