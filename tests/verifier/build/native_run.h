#pragma once

// Runs a native artefact of the CPU backend in a forked process, as a runner would: buffers that end at guard pages,
// outputs poisoned, faults caught. For tests of the emulation; the real runner is verifier/runner.

#include <cstdint>
#include <string>
#include <vector>

#include "base/signature.h"
#include "verifier/build/builder.h"
#include "verifier/device/cpu/runtime.h"

namespace hone::test {

struct Call {
  std::vector<std::vector<unsigned char>> tensors;  // bytes of each; outputs: any bytes of the right number
  std::vector<int64_t> sizes;
  std::vector<double> scalars;
};

struct Outcome {
  int signal = 0;           // that ended the process; 0: it returned
  int code = 0;             // of hone_call, or the runtime's first error
  bool timed_out = false;
  std::string fault;        // what the runtime or the address says
  std::vector<std::vector<unsigned char>> tensors;  // after the call
  bool ok() const { return signal == 0 && code == 0 && !timed_out; }
};

/// `mode.checked`: the library is run as for a correctness check.
Outcome RunArtefact(const std::string& path, const Signature& signature, const Call& call, const HoneCpuMode& mode,
                    int timeout_s = 10);

/// "name: float32[rows, cols]" style helpers.
TensorArgument Input(const std::string& name, DType dtype = DType::kFloat32);
TensorArgument Output(const std::string& name, DType dtype = DType::kFloat32);
Signature MakeSignature(std::vector<TensorArgument> tensors, const std::vector<std::string>& sizes,
                        const std::vector<std::string>& scalars = {});

std::vector<unsigned char> Bytes(const std::vector<float>& values);
std::vector<float> Floats(const std::vector<unsigned char>& bytes);
template <class T>
std::vector<unsigned char> BytesOf(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const unsigned char*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}
template <class T>
std::vector<T> ValuesOf(const std::vector<unsigned char>& bytes) {
  const auto* begin = reinterpret_cast<const T*>(bytes.data());
  return {begin, begin + bytes.size() / sizeof(T)};
}

}  // namespace hone::test
