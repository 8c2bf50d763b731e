// MUSA's runtime as the compatibility toolchain offers it: MUSA's names over CUDA's headers, NVIDIA's or the CPU emulation's.
// Types and constants are CUDA's; functions are libmusart's (verifier/device/musa/compat), except templates, which are
// CUDA's called by another name. Device code needs nothing: built-in variables, atomics, shuffles and mathematics are named alike.
#ifndef HONE_MUSA_RUNTIME_H_
#define HONE_MUSA_RUNTIME_H_

#include <cuda_runtime.h>

#define __MUSA__ 1
#define __MUSACC__ 1
#ifdef __CUDA_ARCH__
#define __MUSA_ARCH__ __CUDA_ARCH__
#endif
#define MUSART_VERSION CUDART_VERSION
#define HONE_MUSA_COMPAT 1

typedef cudaError_t musaError_t;
typedef cudaStream_t musaStream_t;
typedef cudaEvent_t musaEvent_t;
typedef cudaMemcpyKind musaMemcpyKind;
typedef cudaDeviceProp musaDeviceProp;
typedef cudaDeviceAttr musaDeviceAttr;
typedef cudaFuncAttribute musaFuncAttribute;
typedef cudaFuncCache musaFuncCache;

// ---- Constants. Macros, so that they are integral constants wherever CUDA's are. ----
#define musaSuccess cudaSuccess
#define musaErrorInvalidValue cudaErrorInvalidValue
#define musaErrorMemoryAllocation cudaErrorMemoryAllocation
#define musaErrorInitializationError cudaErrorInitializationError
#define musaErrorInvalidConfiguration cudaErrorInvalidConfiguration
#define musaErrorInvalidSymbol cudaErrorInvalidSymbol
#define musaErrorInvalidDevicePointer cudaErrorInvalidDevicePointer
#define musaErrorInvalidMemcpyDirection cudaErrorInvalidMemcpyDirection
#define musaErrorInvalidDeviceFunction cudaErrorInvalidDeviceFunction
#define musaErrorNoDevice cudaErrorNoDevice
#define musaErrorInvalidDevice cudaErrorInvalidDevice
#define musaErrorInvalidResourceHandle cudaErrorInvalidResourceHandle
#define musaErrorNotReady cudaErrorNotReady
#define musaErrorIllegalAddress cudaErrorIllegalAddress
#define musaErrorLaunchOutOfResources cudaErrorLaunchOutOfResources
#define musaErrorLaunchFailure cudaErrorLaunchFailure
#define musaErrorNotSupported cudaErrorNotSupported
#define musaErrorUnknown cudaErrorUnknown
#define musaMemcpyHostToHost cudaMemcpyHostToHost
#define musaMemcpyHostToDevice cudaMemcpyHostToDevice
#define musaMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define musaMemcpyDeviceToDevice cudaMemcpyDeviceToDevice
#define musaMemcpyDefault cudaMemcpyDefault
#define musaStreamDefault cudaStreamDefault
#define musaStreamNonBlocking cudaStreamNonBlocking
#define musaStreamLegacy cudaStreamLegacy
#define musaStreamPerThread cudaStreamPerThread
#define musaEventDefault cudaEventDefault
#define musaEventDisableTiming cudaEventDisableTiming
#define musaFuncAttributeMaxDynamicSharedMemorySize cudaFuncAttributeMaxDynamicSharedMemorySize
#define musaFuncAttributePreferredSharedMemoryCarveout cudaFuncAttributePreferredSharedMemoryCarveout
#define musaFuncCachePreferNone cudaFuncCachePreferNone
#define musaFuncCachePreferShared cudaFuncCachePreferShared
#define musaFuncCachePreferL1 cudaFuncCachePreferL1
#define musaFuncCachePreferEqual cudaFuncCachePreferEqual
#define musaDevAttrMaxThreadsPerBlock cudaDevAttrMaxThreadsPerBlock
#define musaDevAttrMaxSharedMemoryPerBlock cudaDevAttrMaxSharedMemoryPerBlock
#define musaDevAttrWarpSize cudaDevAttrWarpSize
#define musaDevAttrMultiProcessorCount cudaDevAttrMultiProcessorCount
#define musaDevAttrComputeCapabilityMajor cudaDevAttrComputeCapabilityMajor
#define musaDevAttrComputeCapabilityMinor cudaDevAttrComputeCapabilityMinor
#define musaDevAttrMaxSharedMemoryPerMultiprocessor cudaDevAttrMaxSharedMemoryPerMultiprocessor
#define musaDevAttrMaxSharedMemoryPerBlockOptin cudaDevAttrMaxSharedMemoryPerBlockOptin

// Of math_constants.h.
#define MUSART_INF_F CUDART_INF_F
#define MUSART_NAN_F CUDART_NAN_F
#define MUSART_PI_F CUDART_PI_F
#define MUSART_INF CUDART_INF
#define MUSART_NAN CUDART_NAN
#define MUSART_PI CUDART_PI
#define MUSART_SQRT_TWO_F CUDART_SQRT_TWO_F

// ---- Functions. ----
extern "C" {
musaError_t musaMalloc(void** pointer, size_t bytes);
musaError_t musaMallocAsync(void** pointer, size_t bytes, musaStream_t stream);
musaError_t musaMallocManaged(void** pointer, size_t bytes, unsigned flags = 1);
musaError_t musaMallocHost(void** pointer, size_t bytes);
musaError_t musaHostAlloc(void** pointer, size_t bytes, unsigned flags);
musaError_t musaFree(void* pointer);
musaError_t musaFreeAsync(void* pointer, musaStream_t stream);
musaError_t musaFreeHost(void* pointer);
musaError_t musaMemcpy(void* to, const void* from, size_t bytes, musaMemcpyKind kind);
musaError_t musaMemcpyAsync(void* to, const void* from, size_t bytes, musaMemcpyKind kind, musaStream_t stream = nullptr);
musaError_t musaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         musaMemcpyKind kind);
musaError_t musaMemset(void* to, int value, size_t bytes);
musaError_t musaMemsetAsync(void* to, int value, size_t bytes, musaStream_t stream = nullptr);
musaError_t musaMemGetInfo(size_t* free_bytes, size_t* total_bytes);
musaError_t musaStreamCreate(musaStream_t* stream);
musaError_t musaStreamCreateWithFlags(musaStream_t* stream, unsigned flags);
musaError_t musaStreamDestroy(musaStream_t stream);
musaError_t musaStreamSynchronize(musaStream_t stream);
musaError_t musaStreamQuery(musaStream_t stream);
musaError_t musaStreamWaitEvent(musaStream_t stream, musaEvent_t event, unsigned flags = 0);
musaError_t musaEventCreate(musaEvent_t* event);
musaError_t musaEventCreateWithFlags(musaEvent_t* event, unsigned flags);
musaError_t musaEventDestroy(musaEvent_t event);
musaError_t musaEventRecord(musaEvent_t event, musaStream_t stream = nullptr);
musaError_t musaEventSynchronize(musaEvent_t event);
musaError_t musaEventQuery(musaEvent_t event);
musaError_t musaEventElapsedTime(float* ms, musaEvent_t start, musaEvent_t stop);
musaError_t musaDeviceSynchronize(void);
musaError_t musaGetDevice(int* device);
musaError_t musaSetDevice(int device);
musaError_t musaGetDeviceCount(int* count);
musaError_t musaGetDeviceProperties(musaDeviceProp* properties, int device);
musaError_t musaDeviceGetAttribute(int* value, musaDeviceAttr attribute, int device);
musaError_t musaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             musaStream_t stream);
musaError_t musaGetLastError(void);
musaError_t musaPeekAtLastError(void);
const char* musaGetErrorString(musaError_t error);
const char* musaGetErrorName(musaError_t error);
}

template <class T>
static inline musaError_t musaMalloc(T** pointer, size_t bytes) {
  return musaMalloc((void**)pointer, bytes);
}
template <class T>
static inline musaError_t musaMallocAsync(T** pointer, size_t bytes, musaStream_t stream) {
  return musaMallocAsync((void**)pointer, bytes, stream);
}
template <class T>
static inline musaError_t musaMallocManaged(T** pointer, size_t bytes, unsigned flags = 1) {
  return musaMallocManaged((void**)pointer, bytes, flags);
}
template <class T>
static inline musaError_t musaMallocHost(T** pointer, size_t bytes) {
  return musaMallocHost((void**)pointer, bytes);
}
template <class Symbol>
static inline musaError_t musaMemcpyToSymbol(Symbol& symbol, const void* from, size_t bytes, size_t offset = 0,
                                             musaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
}
template <class Symbol>
static inline musaError_t musaMemcpyToSymbolAsync(Symbol& symbol, const void* from, size_t bytes, size_t offset,
                                                  musaMemcpyKind kind, musaStream_t stream = nullptr) {
  return cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, stream);
}
template <class Symbol>
static inline musaError_t musaMemcpyFromSymbol(void* to, const Symbol& symbol, size_t bytes, size_t offset = 0,
                                               musaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
}
template <class Symbol>
static inline musaError_t musaGetSymbolAddress(void** pointer, const Symbol& symbol) {
  return cudaGetSymbolAddress(pointer, symbol);
}
template <class Function>
static inline musaError_t musaFuncSetAttribute(Function function, musaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(function, attribute, value);
}
template <class Function>
static inline musaError_t musaFuncSetCacheConfig(Function function, musaFuncCache preference) {
  return cudaFuncSetCacheConfig(function, preference);
}

#endif  // HONE_MUSA_RUNTIME_H_
