// Tensors as handles: what most extensions use of torch's header of the same name, without torch's headers, which are nine
// tenths of such a compilation. Put before torch's own on the include path (torch_builder.h); what it lacks makes the
// compilation fail, and then the next larger headers are taken.
//
// at::Tensor has the name and the layout of torch's, one pointer to a counted object, so that objects compiled with this
// header and with torch's call each other. All it does is done by functions of opaque_torch.cc, which is compiled once, with
// torch's headers. Its members are always inlined: no object carries a symbol of at::Tensor's that torch defines otherwise.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#define HONE_INLINE __attribute__((always_inline)) inline

extern "C" {
// A tensor is given by the address of its handle; a result is assigned to one. What fails throws, as torch does.
void hone_tensor_undefined(void* result);  // of memory that holds none yet
void hone_tensor_retain(void* copied);     // one handle more of what it points to
void hone_tensor_release(void* tensor);
int64_t hone_tensor_dim(const void* tensor);
int64_t hone_tensor_size(const void* tensor, int64_t dimension);
int64_t hone_tensor_stride(const void* tensor, int64_t dimension);
const int64_t* hone_tensor_sizes(const void* tensor);
const int64_t* hone_tensor_strides(const void* tensor);
int64_t hone_tensor_numel(const void* tensor);
int64_t hone_tensor_element_size(const void* tensor);
int8_t hone_tensor_dtype(const void* tensor);
int8_t hone_tensor_device(const void* tensor, int8_t* index);
bool hone_tensor_contiguous(const void* tensor);
bool hone_tensor_defined(const void* tensor);
void* hone_tensor_data(const void* tensor, int8_t dtype);  // -1: of any
void hone_tensor_same(void* result, const void* tensor, int operation);
void hone_tensor_shaped(void* result, const void* tensor, const int64_t* values, size_t count, int operation);
void hone_tensor_to(void* result, const void* tensor, int8_t dtype);
void hone_tensor_fill(const void* tensor, double value);
void hone_tensor_copy(const void* tensor, const void* from);
void hone_tensor_like(void* result, const void* tensor, int8_t dtype, int8_t device, int8_t index, double value, bool fill);
void hone_tensor_new(void* result, const int64_t* sizes, size_t count, int8_t dtype, int8_t device, int8_t index, double value, bool fill);
[[noreturn]] void hone_tensor_fail(const char* message);
void* hone_current_stream(int8_t index);
}

namespace hone_opaque {
enum Same { kContiguous, kClone, kDetach, kTranspose2 };
enum Shaped { kView, kReshape, kPermute, kExpand, kTranspose, kUnsqueeze, kSqueeze, kFlatten };
}  // namespace hone_opaque

namespace c10 {

enum class ScalarType : int8_t { Byte, Char, Short, Int, Long, Half, Float, Double, Bool = 11, BFloat16 = 15, Undefined = -1 };
enum class DeviceType : int8_t { CPU, CUDA };
constexpr DeviceType kCPU = DeviceType::CPU;
constexpr DeviceType kCUDA = DeviceType::CUDA;
constexpr ScalarType kByte = ScalarType::Byte, kChar = ScalarType::Char, kShort = ScalarType::Short, kInt = ScalarType::Int,
                     kLong = ScalarType::Long, kHalf = ScalarType::Half, kFloat = ScalarType::Float, kDouble = ScalarType::Double,
                     kBool = ScalarType::Bool, kBFloat16 = ScalarType::BFloat16;

struct Device {
  HONE_INLINE Device(DeviceType type, int8_t index = -1) : type_(type), index_(index) {}  // NOLINT
  HONE_INLINE DeviceType type() const { return type_; }
  HONE_INLINE int8_t index() const { return index_; }
  HONE_INLINE bool is_cuda() const { return type_ == DeviceType::CUDA; }
  HONE_INLINE bool is_cpu() const { return type_ == DeviceType::CPU; }
  HONE_INLINE bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  HONE_INLINE bool operator!=(const Device& other) const { return !(*this == other); }

 private:
  DeviceType type_;
  int8_t index_;
};

template <class T>
class ArrayRef {
 public:
  HONE_INLINE ArrayRef() : data_(nullptr), length_(0) {}
  HONE_INLINE ArrayRef(const T* data, size_t length) : data_(data), length_(length) {}
  HONE_INLINE ArrayRef(const std::vector<T>& values) : data_(values.data()), length_(values.size()) {}  // NOLINT
  HONE_INLINE ArrayRef(const std::initializer_list<T>& values) : data_(values.begin()), length_(values.size()) {}  // NOLINT
  HONE_INLINE const T* begin() const { return data_; }
  HONE_INLINE const T* end() const { return data_ + length_; }
  HONE_INLINE const T* data() const { return data_; }
  HONE_INLINE size_t size() const { return length_; }
  HONE_INLINE bool empty() const { return length_ == 0; }
  HONE_INLINE const T& operator[](size_t i) const { return data_[i]; }
  HONE_INLINE const T& back() const { return data_[length_ - 1]; }
  HONE_INLINE const T& front() const { return data_[0]; }
  HONE_INLINE std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  HONE_INLINE bool equals(ArrayRef other) const { return length_ == other.length_ && std::equal(begin(), end(), other.begin()); }

 private:
  const T* data_;
  size_t length_;
};
template <class T>
HONE_INLINE bool operator==(ArrayRef<T> a, ArrayRef<T> b) {
  return a.equals(b);
}
template <class T>
HONE_INLINE bool operator!=(ArrayRef<T> a, ArrayRef<T> b) {
  return !a.equals(b);
}
using IntArrayRef = ArrayRef<int64_t>;

using std::nullopt;
using std::optional;

}  // namespace c10

namespace hone_opaque {

/// Of another layout than torch's, and so of another name.
struct TensorOptions {
  HONE_INLINE TensorOptions() = default;
  HONE_INLINE TensorOptions(c10::ScalarType type) : type_(static_cast<int8_t>(type)) {}  // NOLINT
  HONE_INLINE TensorOptions(c10::Device where) : device_(static_cast<int8_t>(where.type())), index_(where.index()) {}  // NOLINT
  HONE_INLINE TensorOptions(c10::DeviceType where) : device_(static_cast<int8_t>(where)) {}  // NOLINT
  HONE_INLINE TensorOptions dtype(c10::ScalarType type) const {
    TensorOptions changed = *this;
    changed.type_ = static_cast<int8_t>(type);
    return changed;
  }
  HONE_INLINE TensorOptions device(c10::Device where) const {
    TensorOptions changed = *this;
    changed.device_ = static_cast<int8_t>(where.type());
    changed.index_ = where.index();
    return changed;
  }
  HONE_INLINE TensorOptions device(c10::DeviceType type, int8_t index) const { return device(c10::Device(type, index)); }
  HONE_INLINE TensorOptions requires_grad(bool wanted) const {
    if (wanted) hone_tensor_fail("a tensor that requires a gradient");
    return *this;
  }

  int8_t type_ = -1, device_ = -1, index_ = -1;  // -1: torch's default
};

/// What Tensor::type() is good for.
struct Type {
  c10::ScalarType scalar;
  bool cuda;
  HONE_INLINE c10::ScalarType scalarType() const { return scalar; }
  HONE_INLINE bool is_cuda() const { return cuda; }
};

template <class T>
struct TypeOf;
#define HONE_TYPE_OF(type, name) \
  template <>                    \
  struct TypeOf<type> {          \
    static constexpr c10::ScalarType value = c10::ScalarType::name; \
  };
HONE_TYPE_OF(uint8_t, Byte)
HONE_TYPE_OF(int8_t, Char)
HONE_TYPE_OF(int16_t, Short)
HONE_TYPE_OF(int, Int)
HONE_TYPE_OF(int64_t, Long)
HONE_TYPE_OF(float, Float)
HONE_TYPE_OF(double, Double)
HONE_TYPE_OF(bool, Bool)
#undef HONE_TYPE_OF

}  // namespace hone_opaque

namespace at {

using c10::ArrayRef;
using c10::Device;
using c10::DeviceType;
using c10::IntArrayRef;
using c10::ScalarType;
using c10::kBFloat16;
using c10::kBool;
using c10::kByte;
using c10::kChar;
using c10::kCPU;
using c10::kCUDA;
using c10::kDouble;
using c10::kFloat;
using c10::kHalf;
using c10::kInt;
using c10::kLong;
using c10::kShort;
using hone_opaque::TensorOptions;

class Tensor {
 public:
  HONE_INLINE Tensor() { hone_tensor_undefined(this); }
  HONE_INLINE Tensor(const Tensor& other) : object_(other.object_) { hone_tensor_retain(this); }
  HONE_INLINE Tensor(Tensor&& other) noexcept : object_(other.object_) { hone_tensor_undefined(&other); }
  HONE_INLINE Tensor& operator=(const Tensor& other) {
    Tensor copy(other);
    std::swap(object_, copy.object_);
    return *this;
  }
  HONE_INLINE Tensor& operator=(Tensor&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  HONE_INLINE ~Tensor() { hone_tensor_release(this); }

  HONE_INLINE int64_t dim() const { return hone_tensor_dim(this); }
  HONE_INLINE int64_t ndimension() const { return dim(); }
  HONE_INLINE int64_t size(int64_t dimension) const { return hone_tensor_size(this, dimension); }
  HONE_INLINE int64_t stride(int64_t dimension) const { return hone_tensor_stride(this, dimension); }
  HONE_INLINE IntArrayRef sizes() const { return IntArrayRef(hone_tensor_sizes(this), static_cast<size_t>(dim())); }
  HONE_INLINE IntArrayRef strides() const { return IntArrayRef(hone_tensor_strides(this), static_cast<size_t>(dim())); }
  HONE_INLINE int64_t numel() const { return hone_tensor_numel(this); }
  HONE_INLINE int64_t element_size() const { return hone_tensor_element_size(this); }
  HONE_INLINE size_t nbytes() const { return static_cast<size_t>(numel() * element_size()); }
  HONE_INLINE ScalarType scalar_type() const { return static_cast<ScalarType>(hone_tensor_dtype(this)); }
  HONE_INLINE ScalarType dtype() const { return scalar_type(); }
  HONE_INLINE hone_opaque::Type type() const { return {scalar_type(), is_cuda()}; }
  HONE_INLINE Device device() const {
    int8_t index = -1;
    const int8_t type = hone_tensor_device(this, &index);
    return Device(static_cast<DeviceType>(type), index);
  }
  HONE_INLINE int64_t get_device() const { return device().index(); }
  HONE_INLINE bool is_cuda() const { return device().is_cuda(); }
  HONE_INLINE bool is_cpu() const { return device().is_cpu(); }
  HONE_INLINE TensorOptions options() const { return TensorOptions(scalar_type()).device(device()); }
  HONE_INLINE bool is_contiguous() const { return hone_tensor_contiguous(this); }
  HONE_INLINE bool defined() const { return hone_tensor_defined(this); }
  HONE_INLINE bool is_same(const Tensor& other) const { return object_ == other.object_; }
  HONE_INLINE void* data_ptr() const { return hone_tensor_data(this, -1); }
  template <class T>
  HONE_INLINE T* data_ptr() const {
    return static_cast<T*>(hone_tensor_data(this, static_cast<int8_t>(hone_opaque::TypeOf<T>::value)));
  }
  template <class T>
  HONE_INLINE T* data() const {
    return data_ptr<T>();
  }
  template <class T>
  HONE_INLINE T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  HONE_INLINE const T* const_data_ptr() const {
    return data_ptr<T>();
  }

  HONE_INLINE Tensor contiguous() const { return Same(hone_opaque::kContiguous); }
  HONE_INLINE Tensor clone() const { return Same(hone_opaque::kClone); }
  HONE_INLINE Tensor detach() const { return Same(hone_opaque::kDetach); }
  HONE_INLINE Tensor t() const { return Same(hone_opaque::kTranspose2); }
  HONE_INLINE Tensor view(IntArrayRef sizes) const { return Shaped(sizes, hone_opaque::kView); }
  HONE_INLINE Tensor reshape(IntArrayRef sizes) const { return Shaped(sizes, hone_opaque::kReshape); }
  HONE_INLINE Tensor permute(IntArrayRef order) const { return Shaped(order, hone_opaque::kPermute); }
  HONE_INLINE Tensor expand(IntArrayRef sizes) const { return Shaped(sizes, hone_opaque::kExpand); }
  HONE_INLINE Tensor transpose(int64_t a, int64_t b) const { return Shaped({a, b}, hone_opaque::kTranspose); }
  HONE_INLINE Tensor unsqueeze(int64_t dimension) const { return Shaped({dimension}, hone_opaque::kUnsqueeze); }
  HONE_INLINE Tensor squeeze(int64_t dimension) const { return Shaped({dimension}, hone_opaque::kSqueeze); }
  HONE_INLINE Tensor flatten(int64_t first = 0, int64_t last = -1) const { return Shaped({first, last}, hone_opaque::kFlatten); }
  HONE_INLINE Tensor to(ScalarType type) const {
    Tensor result;
    hone_tensor_to(&result, this, static_cast<int8_t>(type));
    return result;
  }
  HONE_INLINE Tensor& zero_() {
    hone_tensor_fill(this, 0);
    return *this;
  }
  HONE_INLINE Tensor& fill_(double value) {
    hone_tensor_fill(this, value);
    return *this;
  }
  HONE_INLINE Tensor& copy_(const Tensor& from) {
    hone_tensor_copy(this, &from);
    return *this;
  }

 private:
  HONE_INLINE Tensor Same(int operation) const {
    Tensor result;
    hone_tensor_same(&result, this, operation);
    return result;
  }
  HONE_INLINE Tensor Shaped(IntArrayRef values, int operation) const {
    Tensor result;
    hone_tensor_shaped(&result, this, values.data(), values.size(), operation);
    return result;
  }

  void* object_;
};

#define HONE_MAKER(name, value, fill)                                                                              \
  HONE_INLINE Tensor name(IntArrayRef sizes, TensorOptions options = {}) {                                         \
    Tensor result;                                                                                                 \
    hone_tensor_new(&result, sizes.data(), sizes.size(), options.type_, options.device_, options.index_, value, fill); \
    return result;                                                                                                 \
  }                                                                                                                \
  HONE_INLINE Tensor name##_like(const Tensor& tensor, TensorOptions options = {}) {                               \
    Tensor result;                                                                                                 \
    hone_tensor_like(&result, &tensor, options.type_, options.device_, options.index_, value, fill);               \
    return result;                                                                                                 \
  }
HONE_MAKER(empty, 0, false)
HONE_MAKER(zeros, 0, true)
HONE_MAKER(ones, 1, true)
#undef HONE_MAKER
/// With a dtype, because without one it is the value's.
HONE_INLINE Tensor full(IntArrayRef sizes, double value, TensorOptions options) {
  if (options.type_ < 0) hone_tensor_fail("full without a dtype");
  Tensor result;
  hone_tensor_new(&result, sizes.data(), sizes.size(), options.type_, options.device_, options.index_, value, true);
  return result;
}

HONE_INLINE std::optional<Device> device_of(const Tensor& tensor) { return tensor.device(); }

}  // namespace at

namespace torch {

using namespace at;  // NOLINT
using at::Tensor;
using c10::nullopt;
using c10::optional;
using Dtype = at::ScalarType;
constexpr auto kFloat32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble;
constexpr auto kFloat16 = at::kHalf;
constexpr auto kInt16 = at::kShort;
constexpr auto kInt32 = at::kInt;
constexpr auto kInt64 = at::kLong;
constexpr auto kUInt8 = at::kByte;
constexpr auto kInt8 = at::kChar;
HONE_INLINE at::TensorOptions dtype(at::ScalarType type) { return at::TensorOptions(type); }
HONE_INLINE at::TensorOptions device(c10::Device where) { return at::TensorOptions(where); }

}  // namespace torch

// ---- Complaints. ----

namespace hone_opaque {

HONE_INLINE void Add(std::string& text, const char* part) { text += part; }
HONE_INLINE void Add(std::string& text, const std::string& part) { text += part; }
HONE_INLINE void Add(std::string& text, bool value) { text += value ? "1" : "0"; }
HONE_INLINE void Add(std::string& text, int value) { text += std::to_string(value); }
HONE_INLINE void Add(std::string& text, long value) { text += std::to_string(value); }
HONE_INLINE void Add(std::string& text, unsigned long value) { text += std::to_string(value); }
HONE_INLINE void Add(std::string& text, double value) { text += std::to_string(value); }
template <class... Parts>
[[noreturn]] inline void Fail(const Parts&... parts) {
  std::string text;
  (Add(text, parts), ...);
  hone_tensor_fail(text.c_str());
}
[[noreturn]] inline void Fail() { hone_tensor_fail("a check failed"); }

HONE_INLINE c10::ScalarType ScalarTypeOf(c10::ScalarType type) { return type; }
HONE_INLINE c10::ScalarType ScalarTypeOf(const Type& type) { return type.scalar; }

}  // namespace hone_opaque

#define TORCH_CHECK(condition, ...)                       \
  do {                                                    \
    if (!(condition)) ::hone_opaque::Fail(__VA_ARGS__);   \
  } while (false)
#define AT_ASSERTM TORCH_CHECK
#define AT_ASSERT TORCH_CHECK
#define TORCH_INTERNAL_ASSERT TORCH_CHECK

#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...)                                                \
  [&] {                                                                                            \
    switch (::hone_opaque::ScalarTypeOf(TYPE)) {                                                   \
      case at::ScalarType::Double: {                                                               \
        using scalar_t [[maybe_unused]] = double;                                                  \
        return __VA_ARGS__();                                                                      \
      }                                                                                            \
      case at::ScalarType::Float: {                                                                \
        using scalar_t [[maybe_unused]] = float;                                                   \
        return __VA_ARGS__();                                                                      \
      }                                                                                            \
      default:                                                                                     \
        ::hone_opaque::Fail("\"", NAME, "\" not implemented for this type of number");             \
    }                                                                                              \
  }()

// ---- Beside CUDA code. ----

#ifdef __CUDACC__
namespace c10::cuda {

class CUDAStream {
 public:
  HONE_INLINE explicit CUDAStream(void* stream) : stream_(static_cast<cudaStream_t>(stream)) {}
  HONE_INLINE cudaStream_t stream() const { return stream_; }
  HONE_INLINE operator cudaStream_t() const { return stream_; }  // NOLINT

 private:
  cudaStream_t stream_;
};
HONE_INLINE CUDAStream getCurrentCUDAStream(int8_t index = -1) { return CUDAStream(hone_current_stream(index)); }

/// A runner sees one device, which is the current one.
struct CUDAGuard {
  HONE_INLINE explicit CUDAGuard(Device) {}
  HONE_INLINE explicit CUDAGuard(int) {}
};
struct OptionalCUDAGuard {
  HONE_INLINE OptionalCUDAGuard() {}
  HONE_INLINE explicit OptionalCUDAGuard(std::optional<Device>) {}
};

}  // namespace c10::cuda
namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::OptionalCUDAGuard;
}  // namespace at::cuda

#define C10_CUDA_CHECK(call)                                                            \
  do {                                                                                  \
    const cudaError_t hone_error = (call);                                              \
    if (hone_error != cudaSuccess) ::hone_opaque::Fail("CUDA error: ", cudaGetErrorString(hone_error)); \
  } while (false)
#define AT_CUDA_CHECK C10_CUDA_CHECK
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#endif

#ifdef HONE_WITH_BINDING
#include "opaque_binding.h"
#endif
