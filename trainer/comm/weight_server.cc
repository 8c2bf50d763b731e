#include "trainer/comm/weight_server.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/model/torch_status.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace hone::trainer {

std::vector<policy::Leaf> SyncedLeaves(const policy::Decoder& decoder, bool everything) {
  std::vector<policy::Leaf> leaves;
  if (everything || decoder.lora() == nullptr) leaves = decoder.parameters().leaves();
  if (decoder.lora() != nullptr) {
    leaves.insert(leaves.end(), decoder.lora()->leaves().begin(), decoder.lora()->leaves().end());
  }
  return leaves;
}

absl::StatusOr<std::unique_ptr<WeightLink>> WeightLink::Meet(bool learner, const std::string& address, int port,
                                                             const std::string& meeting, const at::Device& device,
                                                             const WeightServerOptions& options) {
  // A peer that dies is our monitor's business; torch's own watchdog would end the process.
  if (options.nccl) setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*replace=*/0);
  RankEnvironment environment;
  environment.rank = learner ? 0 : 1;
  environment.world_size = 2;
  environment.master_addr = address;
  environment.master_port = port;
  environment.store_is_served = true;
  environment.meeting = meeting;
  CommunicatorOptions connect;
  connect.dead_after = std::min(options.dead_after, absl::Seconds(45));
  connect.heartbeat = std::min(absl::Seconds(2), connect.dead_after / 5);
  connect.rendezvous = connect.dead_after;
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> members,
                        Connect(environment, options.nccl ? device : at::Device(at::kCPU), connect));
  return std::unique_ptr<WeightLink>(new WeightLink(std::move(members), device));
}

struct WeightServer::Store {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

absl::StatusOr<std::unique_ptr<WeightServer>> WeightServer::Create(int port, const at::Device& device,
                                                                   const WeightServerOptions& options) {
  auto store = std::make_unique<Store>();
  const absl::StatusOr<bool> served = policy::CatchTorch("weights' store", [&] {
    c10d::TCPStoreOptions serve;
    serve.port = static_cast<uint16_t>(port);
    serve.isServer = true;
    serve.waitWorkers = false;
    store->store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", serve);
    return true;
  });
  if (!served.ok()) return absl::UnavailableError(absl::StrCat("weights' store at port ", port, ": ", served.status().message()));
  return std::unique_ptr<WeightServer>(new WeightServer(std::move(store), device, options));
}

WeightServer::WeightServer(std::unique_ptr<Store> store, const at::Device& device, const WeightServerOptions& options)
    : store_(std::move(store)), device_(device), options_(options) {}
WeightServer::~WeightServer() = default;

int WeightServer::port() const { return store_->store->getPort(); }

bool WeightServer::connected(const std::string& worker) const {
  const auto found = links_.find(worker);
  return found != links_.end() && found->second->whole();
}

absl::StatusOr<WeightUpdate> WeightServer::Send(const std::string& worker, bool fresh, const std::string& meeting,
                                                int64_t version, const std::vector<policy::Leaf>& leaves,
                                                const VisitLeaves& visit) {
  if (fresh) {
    Drop(worker);
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<WeightLink> link,
                          WeightLink::Meet(/*learner=*/true, "127.0.0.1", port(), meeting, device_, options_));
    links_[worker] = std::move(link);
  }
  const auto found = links_.find(worker);
  if (found == links_.end()) return absl::NotFoundError(absl::StrCat("no channel to worker ", worker));
  absl::StatusOr<WeightUpdate> sent = found->second->channel().Send(version, leaves, visit);
  if (!sent.ok()) Drop(worker);
  return sent;
}

void WeightServer::Drop(const std::string& worker) {
  const auto found = links_.find(worker);
  if (found == links_.end()) return;
  found->second->channel().Abort("the learner has dropped the channel");
  links_.erase(found);
}

std::vector<std::string> WeightServer::workers() const {
  std::vector<std::string> names;
  for (const auto& [name, link] : links_) names.push_back(name);
  return names;
}

}  // namespace hone::trainer
