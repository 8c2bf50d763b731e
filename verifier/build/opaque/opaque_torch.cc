// What the handles of torch/extension.h beside this stand for, with torch's own headers. Compiled once and linked with each
// extension.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstdlib>
#include <new>

#ifdef HONE_OPAQUE_CUDA
#include <c10/cuda/CUDAStream.h>
#endif

namespace {

static_assert(sizeof(at::Tensor) == sizeof(void*), "a handle is one pointer");
static_assert(static_cast<int>(at::kLong) == 4 && static_cast<int>(at::kDouble) == 7 && static_cast<int>(at::kBool) == 11 &&
              static_cast<int>(at::kBFloat16) == 15 && static_cast<int>(at::kCUDA) == 1);

const at::Tensor& Of(const void* tensor) { return *static_cast<const at::Tensor*>(tensor); }
at::Tensor& To(void* result) { return *static_cast<at::Tensor*>(result); }


at::TensorOptions Options(int8_t dtype, int8_t device, int8_t index) {
  at::TensorOptions options;
  if (dtype >= 0) options = options.dtype(static_cast<at::ScalarType>(dtype));
  if (device >= 0) options = options.device(c10::Device(static_cast<c10::DeviceType>(device), index));
  return options;
}

}  // namespace

extern "C" {

void hone_tensor_undefined(void* result) { new (result) at::Tensor(); }
void hone_tensor_retain(void* copied) {
  alignas(at::Tensor) unsigned char kept[sizeof(at::Tensor)];
  new (kept) at::Tensor(To(copied));  // never destroyed: its count is the copied handle's
}
void hone_tensor_release(void* tensor) { To(tensor).~Tensor(); }
int64_t hone_tensor_dim(const void* tensor) { return Of(tensor).dim(); }
int64_t hone_tensor_size(const void* tensor, int64_t dimension) { return Of(tensor).size(dimension); }
int64_t hone_tensor_stride(const void* tensor, int64_t dimension) { return Of(tensor).stride(dimension); }
const int64_t* hone_tensor_sizes(const void* tensor) { return Of(tensor).sizes().data(); }
const int64_t* hone_tensor_strides(const void* tensor) { return Of(tensor).strides().data(); }
int64_t hone_tensor_numel(const void* tensor) { return Of(tensor).numel(); }
int64_t hone_tensor_element_size(const void* tensor) { return static_cast<int64_t>(Of(tensor).element_size()); }
int8_t hone_tensor_dtype(const void* tensor) { return static_cast<int8_t>(Of(tensor).scalar_type()); }
int8_t hone_tensor_device(const void* tensor, int8_t* index) {
  const c10::Device device = Of(tensor).device();
  *index = device.index();
  return static_cast<int8_t>(device.type());
}
bool hone_tensor_contiguous(const void* tensor) { return Of(tensor).is_contiguous(); }
bool hone_tensor_defined(const void* tensor) { return Of(tensor).defined(); }

void* hone_tensor_data(const void* tensor, int8_t dtype) {
  const at::Tensor& of = Of(tensor);
  if (dtype >= 0 && of.scalar_type() != static_cast<at::ScalarType>(dtype)) {
    TORCH_CHECK(false, "expected scalar type ", static_cast<at::ScalarType>(dtype), " but found ", of.scalar_type());
  }
  return of.data_ptr();
}

void hone_tensor_same(void* result, const void* tensor, int operation) {
  const at::Tensor& of = Of(tensor);
  switch (operation) {
    case 0: To(result) = of.contiguous(); return;
    case 1: To(result) = of.clone(); return;
    case 2: To(result) = of.detach(); return;
    case 3: To(result) = of.t(); return;
    default: TORCH_CHECK(false, "no such operation");
  }
}

void hone_tensor_shaped(void* result, const void* tensor, const int64_t* values, size_t count, int operation) {
  const at::Tensor& of = Of(tensor);
  const c10::IntArrayRef shape(values, count);
  switch (operation) {
    case 0: To(result) = of.view(shape); return;
    case 1: To(result) = of.reshape(shape); return;
    case 2: To(result) = of.permute(shape); return;
    case 3: To(result) = of.expand(shape); return;
    case 4: To(result) = of.transpose(values[0], values[1]); return;
    case 5: To(result) = of.unsqueeze(values[0]); return;
    case 6: To(result) = of.squeeze(values[0]); return;
    case 7: To(result) = of.flatten(values[0], values[1]); return;
    default: TORCH_CHECK(false, "no such operation");
  }
}

void hone_tensor_to(void* result, const void* tensor, int8_t dtype) {
  To(result) = Of(tensor).to(static_cast<at::ScalarType>(dtype));
}
void hone_tensor_fill(const void* tensor, double value) { Of(tensor).fill_(value); }
void hone_tensor_copy(const void* tensor, const void* from) { Of(tensor).copy_(Of(from)); }

void hone_tensor_like(void* result, const void* tensor, int8_t dtype, int8_t device, int8_t index, double value, bool fill) {
  const at::TensorOptions options = Options(dtype, device, index);
  if (!fill) {
    To(result) = at::empty_like(Of(tensor), options);
  } else {
    To(result) = value == 0 ? at::zeros_like(Of(tensor), options) : at::full_like(Of(tensor), value, options);
  }
}

void hone_tensor_new(void* result, const int64_t* sizes, size_t count, int8_t dtype, int8_t device, int8_t index, double value,
                     bool fill) {
  const c10::IntArrayRef shape(sizes, count);
  at::TensorOptions options = Options(dtype, device, index);
  if (!fill) {
    To(result) = at::empty(shape, options);
  } else if (value == 0) {
    To(result) = at::zeros(shape, options);
  } else {
    if (dtype < 0) options = options.dtype(c10::get_default_dtype());
    To(result) = at::full(shape, value, options);
  }
}

void hone_tensor_fail(const char* message) {
  TORCH_CHECK(false, message);
  std::abort();
}

#ifdef HONE_OPAQUE_CUDA
void* hone_current_stream(int8_t index) { return c10::cuda::getCurrentCUDAStream(index).stream(); }
#endif

bool hone_tensor_load(PyObject* object, void* result) {
  if (!THPVariable_Check(object)) return false;
  To(result) = THPVariable_Unpack(object);
  return true;
}
PyObject* hone_tensor_wrap(const void* tensor) { return THPVariable_Wrap(Of(tensor)); }
void hone_raise() { torch::translate_exception_to_python(std::current_exception()); }

}  // extern "C"
