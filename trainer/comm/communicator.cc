#include "trainer/comm/communicator.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "policy/model/torch_status.h"
#include "trainer/comm/nccl_group.h"
#include "trainer/comm/rank_monitor.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace hone::trainer {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

// What is done already when it is asked for.
class Done : public Transfer {
 public:
  absl::Status Wait() override { return absl::OkStatus(); }
};

// Shared by both kinds: who the ranks are, whether they live, why it ended.
class Ranks : public Communicator {
 public:
  Ranks(const RankEnvironment& environment, const CommunicatorOptions& options, StorePtr store)
      : environment_(environment), options_(options), store_(std::move(store)) {}
  ~Ranks() override { Leave(); }

  int rank() const override { return environment_.rank; }
  int size() const override { return environment_.world_size; }

  void Watch() {
    const StorePtr own = store_->clone();
    monitor_ =
        std::make_unique<RankMonitor>(std::shared_ptr<c10d::Store>(own.get(), [own](c10d::Store*) {}), rank(), size(),
                                      options_.heartbeat, options_.dead_after, [this](const std::string& message) {
                                        Abort(message);
                                        if (options_.on_dead_rank) options_.on_dead_rank(message);
                                      });
  }

  void Abort(const std::string& why) override {
    {
      std::lock_guard lock(mutex_);
      if (!why_.empty()) return;
      why_ = why;
    }
    aborted_ = true;
    if (monitor_ != nullptr) monitor_->Announce(absl::StrCat("rank ", rank(), " ended the operations: ", why));
    AbortTransport();
  }
  absl::Status Health() const override {
    if (!aborted_) return absl::OkStatus();
    std::lock_guard lock(mutex_);
    return absl::UnavailableError(why_);
  }

 protected:
  virtual void AbortTransport() {}

  // An operation's own words, or the reason why everything ended.
  absl::Status Explained(absl::Status status) const { return status.ok() || !aborted_ ? status : Health(); }

  // Says goodbye. The host of the store stays until the others have, so that they are not told that it died.
  void Leave() {
    if (monitor_ == nullptr) return;
    monitor_.reset();
    const bool hosts = rank() == 0 && !environment_.store_is_served;
    if (aborted_) {
      // The others are to learn from the store why it ended, not from the store's end.
      if (hosts) absl::SleepFor(std::min(options_.heartbeat * 3, absl::Seconds(6)));
      return;
    }
    try {
      store_->add("hone/left", 1);
      const SteadyTime deadline = SteadyTime::Now() + absl::Seconds(20);
      while (hosts && store_->add("hone/left", 0) < size() && SteadyTime::Now() < deadline)
        absl::SleepFor(absl::Milliseconds(5));
    } catch (const std::exception&) {  // the store is gone: nobody is left to wait for
    }
  }

  const RankEnvironment environment_;
  const CommunicatorOptions options_;
  StorePtr store_;

 private:
  std::unique_ptr<RankMonitor> monitor_;
  mutable std::mutex mutex_;
  std::string why_;
  std::atomic<bool> aborted_{false};
};

// --- over the store

// Every rank writes its contribution under the operation's number and reads the others'. All ranks read all
// contributions, so that nobody is more than one operation ahead and those of two operations ago can go.
class StoreRanks : public Ranks {
 public:
  using Ranks::Ranks;

  absl::StatusOr<std::unique_ptr<Transfer>> AllGather(const at::Tensor& out, const at::Tensor& in) override {
    HONE_ASSIGN_OR_RETURN(const std::vector<at::Tensor> all, Exchange("all-gather", in));
    HONE_RETURN_IF_ERROR(policy::CatchTorch("all-gather", [&] {
                           for (int r = 0; r < size(); ++r) out.narrow(0, r * in.numel(), in.numel()).copy_(all[r]);
                           return true;
                         }).status());
    return std::make_unique<Done>();
  }
  absl::StatusOr<std::unique_ptr<Transfer>> ReduceScatter(const at::Tensor& out, const at::Tensor& in) override {
    HONE_ASSIGN_OR_RETURN(const std::vector<at::Tensor> all, Exchange("reduce-scatter", in));
    HONE_RETURN_IF_ERROR(policy::CatchTorch("reduce-scatter", [&] {
                           const int64_t n = out.numel();
                           at::Tensor sum = all[0].narrow(0, rank() * n, n).clone();
                           for (int r = 1; r < size(); ++r) sum += all[r].narrow(0, rank() * n, n);
                           out.copy_(sum);
                           return true;
                         }).status());
    return std::make_unique<Done>();
  }
  absl::Status AllReduce(const at::Tensor& tensor) override { return Reduce(tensor, false); }
  absl::Status Broadcast(const at::Tensor& tensor, int root) override {
    HONE_ASSIGN_OR_RETURN(
        const std::vector<at::Tensor> all,
        Exchange("broadcast", rank() == root ? tensor : at::empty({0}, tensor.options()), tensor.numel(), root));
    tensor.copy_(all[root].view(tensor.sizes()));
    return absl::OkStatus();
  }
  absl::Status Sum(std::vector<double>& values) override { return Numbers(values, false); }
  absl::Status Max(std::vector<double>& values) override { return Numbers(values, true); }

 private:
  absl::Status Numbers(std::vector<double>& values, bool max) {
    const at::Tensor tensor = at::tensor(values, at::kDouble);
    HONE_RETURN_IF_ERROR(Reduce(tensor, max));
    std::copy_n(tensor.const_data_ptr<double>(), values.size(), values.begin());
    return absl::OkStatus();
  }

  absl::Status Reduce(const at::Tensor& tensor, bool max) {
    HONE_ASSIGN_OR_RETURN(const std::vector<at::Tensor> all, Exchange("all-reduce", tensor));
    return policy::CatchTorch("all-reduce",
                              [&] {
                                at::Tensor sum = all[0].clone();
                                for (int r = 1; r < size(); ++r) sum = max ? at::maximum(sum, all[r]) : sum + all[r];
                                tensor.copy_(sum.view(tensor.sizes()));
                                return true;
                              })
        .status();
  }

  // All ranks' tensors, flat, on the CPU. `numel` of rank `only`'s when the others give nothing.
  absl::StatusOr<std::vector<at::Tensor>> Exchange(const char* what, const at::Tensor& mine, int64_t numel = -1,
                                                   int only = -1) {
    const int64_t number = next_++;
    const auto key = [](int64_t n, int r) { return absl::StrCat("hone/op/", n, "/", r); };
    absl::StatusOr<absl::StatusOr<std::vector<at::Tensor>>> result =
        policy::CatchTorch(what, [&]() -> absl::StatusOr<std::vector<at::Tensor>> {
          const at::Tensor flat = mine.detach().to(at::kCPU).contiguous().view({-1});
          const auto* bytes = static_cast<const uint8_t*>(flat.const_data_ptr());
          std::vector<uint8_t> value(bytes, bytes + flat.nbytes());
          value.push_back(0);  // a store's value is never empty
          store_->set(key(number, rank()), value);
          std::vector<at::Tensor> all;
          const SteadyTime deadline = SteadyTime::Now() + options_.timeout;
          for (int r = 0; r < size(); ++r) {
            HONE_RETURN_IF_ERROR(Await(what, key(number, r), r, deadline));
            const std::vector<uint8_t> given = store_->get(key(number, r));
            const int64_t expected = only < 0 ? flat.numel() : r == only ? numel : 0;
            if (given.size() != static_cast<size_t>(expected) * flat.element_size() + 1) {
              return absl::InternalError(absl::StrCat(what, " ", number, ": rank ", r, " gave ", given.size() - 1,
                                                      " bytes, ", expected * static_cast<int64_t>(flat.element_size()),
                                                      " were due"));
            }
            at::Tensor tensor = at::empty({expected}, flat.options());
            std::memcpy(tensor.mutable_data_ptr(), given.data(), given.size() - 1);
            all.push_back(tensor);
          }
          if (number >= 2) store_->deleteKey(key(number - 2, rank()));
          return all;
        });
    if (!result.ok()) return Explained(absl::UnavailableError(StoreIsGone(std::string(result.status().message()))));
    HONE_RETURN_IF_ERROR(Explained(result->status()));
    return **result;
  }

  absl::Status Await(const char* what, const std::string& key, int of, SteadyTime deadline) {
    for (absl::Duration pause = absl::Microseconds(50); !store_->check({key});
         pause = std::min(pause * 2, absl::Milliseconds(10))) {
      HONE_RETURN_IF_ERROR(Health());
      if (SteadyTime::Now() > deadline) {
        return absl::DeadlineExceededError(
            absl::StrCat(what, ": rank ", of, " did not come within ", absl::FormatDuration(options_.timeout)));
      }
      absl::SleepFor(pause);
    }
    return absl::OkStatus();
  }

  int64_t next_ = 0;
};

// --- NCCL

class NcclTransfer : public Transfer {
 public:
  NcclTransfer(std::unique_ptr<NcclWork> work, std::function<absl::Status(const std::string&)> explain)
      : work_(std::move(work)), explain_(std::move(explain)) {}
  absl::Status Wait() override { return explain_(work_->Wait()); }

 private:
  std::unique_ptr<NcclWork> work_;
  std::function<absl::Status(const std::string&)> explain_;
};

class NcclRanks : public Ranks {
 public:
  NcclRanks(const RankEnvironment& environment, const CommunicatorOptions& options, StorePtr store,
            std::unique_ptr<NcclGroup> group, const at::Device& device)
      : Ranks(environment, options, std::move(store)), group_(std::move(group)), device_(device) {}
  ~NcclRanks() override { Leave(); }

  absl::StatusOr<std::unique_ptr<Transfer>> AllGather(const at::Tensor& out, const at::Tensor& in) override {
    HONE_RETURN_IF_ERROR(Health());
    std::unique_ptr<NcclWork> work;
    HONE_RETURN_IF_ERROR(Explain(group_->AllGather(out, in, work)));
    return Started(std::move(work));
  }
  absl::StatusOr<std::unique_ptr<Transfer>> ReduceScatter(const at::Tensor& out, const at::Tensor& in) override {
    HONE_RETURN_IF_ERROR(Health());
    std::unique_ptr<NcclWork> work;
    HONE_RETURN_IF_ERROR(Explain(group_->ReduceScatter(out, in, work)));
    return Started(std::move(work));
  }
  absl::Status AllReduce(const at::Tensor& tensor) override {
    HONE_RETURN_IF_ERROR(Health());
    return Explain(group_->AllReduce(tensor, false));
  }
  absl::Status Broadcast(const at::Tensor& tensor, int root) override {
    HONE_RETURN_IF_ERROR(Health());
    return Explain(group_->Broadcast(tensor, root));
  }
  absl::Status Sum(std::vector<double>& values) override { return Numbers(values, false); }
  absl::Status Max(std::vector<double>& values) override { return Numbers(values, true); }

 private:
  void AbortTransport() override { group_->Abort(); }
  absl::Status Explain(const std::string& error) const {
    return Explained(error.empty() ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("nccl: ", error)));
  }
  std::unique_ptr<Transfer> Started(std::unique_ptr<NcclWork> work) {
    return std::make_unique<NcclTransfer>(std::move(work), [this](const std::string& error) { return Explain(error); });
  }
  absl::Status Numbers(std::vector<double>& values, bool max) {
    HONE_RETURN_IF_ERROR(Health());
    const absl::StatusOr<absl::Status> done = policy::CatchTorch("all-reduce", [&]() -> absl::Status {
      const at::Tensor tensor = at::tensor(values, at::kDouble).to(device_);
      HONE_RETURN_IF_ERROR(Explain(group_->AllReduce(tensor, max)));
      const at::Tensor host = tensor.cpu();
      std::copy_n(host.const_data_ptr<double>(), values.size(), values.begin());
      return absl::OkStatus();
    });
    HONE_RETURN_IF_ERROR(Explained(done.status()));
    HONE_RETURN_IF_ERROR(*done);
    return Health();  // an aborted operation ends like a good one on the device
  }

  std::unique_ptr<NcclGroup> group_;
  const at::Device device_;
};

absl::StatusOr<std::unique_ptr<NcclGroup>> LoadNccl(const StorePtr& store, const RankEnvironment& environment,
                                                    absl::Duration timeout) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::string tried;
  void* module = nullptr;
  for (const std::filesystem::path& folder : {program / "../lib", program}) {
    const std::string path = (folder / "libhone_nccl.so").lexically_normal().string();
    if (module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); module != nullptr) break;
    absl::StrAppend(&tried, tried.empty() ? "" : "; ", dlerror());
  }
  if (module == nullptr) return absl::FailedPreconditionError(absl::StrCat("NCCL cannot be loaded: ", tried));
  auto* create = reinterpret_cast<CreateNcclGroupFunction*>(dlsym(module, kCreateNcclGroup));
  if (create == nullptr) return absl::InternalError(absl::StrCat("libhone_nccl.so lacks ", kCreateNcclGroup));
  std::string error;
  std::unique_ptr<NcclGroup> group(
      create(store.get(), environment.rank, environment.world_size, absl::ToInt64Milliseconds(timeout), &error));
  if (group == nullptr) return absl::UnavailableError(absl::StrCat("nccl: ", error));
  return group;
}

// Who had not come when the rendezvous ended.
std::string Missing(c10d::Store& store, int size) {
  std::string missing;
  for (int r = 0; r < size; ++r) {
    if (store.add(absl::StrCat("hone/here/", r), 0) == 0) absl::StrAppend(&missing, missing.empty() ? "" : ", ", r);
  }
  return missing;
}

absl::StatusOr<StorePtr> Meet(const RankEnvironment& environment, absl::Duration patience) {
  const SteadyTime deadline = SteadyTime::Now() + patience;
  const absl::StatusOr<absl::StatusOr<StorePtr>> met =
      policy::CatchTorch("rendezvous", [&]() -> absl::StatusOr<StorePtr> {
        c10d::TCPStoreOptions options;
        options.port = static_cast<uint16_t>(environment.master_port);
        options.isServer = environment.rank == 0 && !environment.store_is_served;
        options.waitWorkers = false;
        options.timeout = absl::ToChronoMilliseconds(patience);
        StorePtr store = c10::make_intrusive<c10d::TCPStore>(environment.master_addr, options);
        if (!environment.meeting.empty()) store = c10::make_intrusive<c10d::PrefixStore>(environment.meeting, store);
        store->add(absl::StrCat("hone/here/", environment.rank), 1);
        for (std::string missing; !(missing = Missing(*store, environment.world_size)).empty();
             absl::SleepFor(absl::Milliseconds(20))) {
          if (SteadyTime::Now() > deadline) {
            return absl::DeadlineExceededError(absl::StrCat(
                "rendezvous at ", environment.master_addr, ":", environment.master_port, ": after ",
                absl::FormatDuration(patience), " ranks ", missing, " of ", environment.world_size, " are missing"));
          }
        }
        return store;
      });
  HONE_RETURN_IF_ERROR(met.status());
  return *met;
}

}  // namespace

absl::Status Communicator::Barrier() {
  std::vector<double> nothing{0};
  return Sum(nothing);
}

absl::StatusOr<std::unique_ptr<Communicator>> Connect(const RankEnvironment& environment, const at::Device& device,
                                                      const CommunicatorOptions& options) {
  if (environment.alone()) return std::unique_ptr<Communicator>();
  HONE_ASSIGN_OR_RETURN(const StorePtr store, Meet(environment, options.rendezvous));
  std::unique_ptr<Ranks> ranks;
  if (device.is_cpu()) {
    ranks = std::make_unique<StoreRanks>(environment, options, store);
  } else {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<NcclGroup> group, LoadNccl(store, environment, options.timeout));
    ranks = std::make_unique<NcclRanks>(environment, options, store, std::move(group), device);
  }
  const absl::StatusOr<bool> watched = policy::CatchTorch("rendezvous", [&] {
    ranks->Watch();
    return true;
  });
  HONE_RETURN_IF_ERROR(watched.status());
  HONE_RETURN_IF_ERROR(ranks->Barrier());
  return std::unique_ptr<Communicator>(std::move(ranks));
}

std::function<void(const std::string&)> ExitOnDeadRank(absl::Duration grace) {
  return [grace](const std::string& message) {
    std::fprintf(stderr, "hone: %s; ending\n", message.c_str());
    std::fflush(stderr);
    std::thread([grace] {
      absl::SleepFor(grace);
      _exit(1);
    }).detach();
  };
}

}  // namespace hone::trainer
