#pragma once

// NCCL between GPUs, as a module of its own (libhone_nccl.so) that is loaded when ranks with GPUs meet: the only code
// that links libtorch_cuda and sees NCCL. Errors cross the module's border as text, empty for success.

#include <memory>
#include <string>

#include "ATen/core/Tensor.h"

namespace c10d {
class Store;
}

namespace hone::trainer {

class NcclWork {
 public:
  virtual ~NcclWork() = default;
  virtual std::string Wait() = 0;
};

class NcclGroup {
 public:
  virtual ~NcclGroup() = default;
  virtual std::string AllGather(at::Tensor out, at::Tensor in, std::unique_ptr<NcclWork>& work) = 0;
  virtual std::string ReduceScatter(at::Tensor out, at::Tensor in, std::unique_ptr<NcclWork>& work) = 0;
  virtual std::string AllReduce(at::Tensor tensor, bool max) = 0;
  virtual std::string Broadcast(at::Tensor tensor, int root) = 0;
  virtual void Abort() = 0;
};

/// The module's one symbol. `store` is used under a prefix of its own and kept.
using CreateNcclGroupFunction = NcclGroup*(c10d::Store* store, int rank, int size, int64_t timeout_ms,
                                           std::string* error);
inline constexpr char kCreateNcclGroup[] = "HoneCreateNcclGroup";

}  // namespace hone::trainer
