// Any bytes as a safetensors file: refused, or every tensor's bytes can be read.

#include "policy/weights/safetensors.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const hone::fuzz::InputFile file(data, size);
  const auto weights = hone::policy::Safetensors::Open(file.path());
  if (!weights.ok()) return 0;
  volatile unsigned sum = 0;
  for (const auto& tensor : (*weights)->tensors()) {
    for (const std::byte byte : tensor.bytes) sum = sum + static_cast<unsigned>(byte);
  }
  return 0;
}
