#include "trainer/comm/nccl_group.h"

#include "cmake/torch_pch.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace hone::trainer {
namespace {

template <class Body>
std::string Catch(const Body& body) {
  try {
    body();
    return "";
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

class Work : public NcclWork {
 public:
  explicit Work(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}
  std::string Wait() override {
    return Catch([&] { work_->wait(); });
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
};

class Group : public NcclGroup {
 public:
  Group(c10d::Store* store, int rank, int size, int64_t timeout_ms) {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = std::chrono::milliseconds(timeout_ms);
    const auto kept = c10::intrusive_ptr<c10d::Store>::reclaim_copy(store);
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>("hone/nccl", kept),
                                                         rank, size, options);
  }

  std::string AllGather(at::Tensor out, at::Tensor in, std::unique_ptr<NcclWork>& work) override {
    return Catch([&] { work = std::make_unique<Work>(group_->_allgather_base(out, in)); });
  }
  std::string ReduceScatter(at::Tensor out, at::Tensor in, std::unique_ptr<NcclWork>& work) override {
    return Catch([&] { work = std::make_unique<Work>(group_->_reduce_scatter_base(out, in)); });
  }
  std::string AllReduce(at::Tensor tensor, bool max) override {
    return Catch([&] {
      c10d::AllreduceOptions options;
      if (max) options.reduceOp = c10d::ReduceOp::MAX;
      std::vector<at::Tensor> tensors{tensor};
      group_->allreduce(tensors, options)->wait();
    });
  }
  std::string Broadcast(at::Tensor tensor, int root) override {
    return Catch([&] {
      c10d::BroadcastOptions options;
      options.rootRank = root;
      std::vector<at::Tensor> tensors{tensor};
      group_->broadcast(tensors, options)->wait();
    });
  }
  void Abort() override {
    Catch([&] { group_->abort(); });
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace
}  // namespace hone::trainer

extern "C" __attribute__((visibility("default"))) hone::trainer::NcclGroup* HoneCreateNcclGroup(c10d::Store* store,
                                                                                                int rank, int size,
                                                                                                int64_t timeout_ms,
                                                                                                std::string* error) {
  hone::trainer::NcclGroup* group = nullptr;
  *error = hone::trainer::Catch([&] { group = new hone::trainer::Group(store, rank, size, timeout_ms); });
  return group;
}
