// What a candidate sees of the CUDA runtime API besides runtime_api.h: the typed templates, cached loads, and the few C
// library names that kernels and their launchers use.
#ifndef HONE_API_H_
#define HONE_API_H_

#include "hone/runtime_api.h"

// Output of kernels and launchers goes to the runner's log, cut after 64 KiB.
HONE_INLINE int printf(const char* format, ...) { return hone_rt_printf(format, __builtin_va_arg_pack()); }
HONE_INLINE int fprintf(void*, const char* format, ...) { return hone_rt_printf(format, __builtin_va_arg_pack()); }
#define stdout ((void*)1)
#define stderr ((void*)2)
[[noreturn]] HONE_INLINE void exit(int) { hone_rt_fail("the candidate called exit()"); }
[[noreturn]] HONE_INLINE void abort() { hone_rt_fail("the candidate called abort()"); }
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1

template <class T> HONE_INLINE cudaError_t cudaMalloc(T** pointer, size_t bytes) { return cudaMalloc((void**)pointer, bytes); }
template <class T> HONE_INLINE cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync((void**)pointer, bytes, stream);
}
template <class T> HONE_INLINE cudaError_t cudaMallocManaged(T** pointer, size_t bytes, unsigned flags = 1) {
  return cudaMallocManaged((void**)pointer, bytes, flags);
}
template <class T> HONE_INLINE cudaError_t cudaMallocHost(T** pointer, size_t bytes) {
  return cudaMallocHost((void**)pointer, bytes);
}
template <class T>
HONE_INLINE cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t bytes, size_t offset = 0,
                                           cudaMemcpyKind = cudaMemcpyHostToDevice) {
  return hone_rt_copy_symbol((void*)&symbol, sizeof symbol, offset, (void*)from, bytes, 1);
}
template <class T>
HONE_INLINE cudaError_t cudaMemcpyToSymbolAsync(T& symbol, const void* from, size_t bytes, size_t offset,
                                                cudaMemcpyKind, cudaStream_t = nullptr) {
  return hone_rt_copy_symbol((void*)&symbol, sizeof symbol, offset, (void*)from, bytes, 1);
}
template <class T>
HONE_INLINE cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                             cudaMemcpyKind = cudaMemcpyDeviceToHost) {
  return hone_rt_copy_symbol((void*)&symbol, sizeof symbol, offset, to, bytes, 0);
}
template <class T> HONE_INLINE cudaError_t cudaGetSymbolAddress(void** pointer, const T& symbol) {
  *pointer = (void*)&symbol;
  return cudaSuccess;
}
template <class R, class... P>
HONE_INLINE cudaError_t cudaFuncSetAttribute(R (*function)(P...), cudaFuncAttribute attribute, int value) {
  return hone_rt_function_attribute((const void*)function, attribute, value);
}
HONE_INLINE cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return hone_rt_function_attribute(function, attribute, value);
}
template <class R, class... P> HONE_INLINE cudaError_t cudaFuncSetCacheConfig(R (*)(P...), cudaFuncCache) { return cudaSuccess; }

#define assert(condition) ((condition) ? (void)0 : hone_rt_fail("assertion failed: " #condition))
HONE_INLINE void __trap() { hone_rt_fail("__trap()"); }
#if defined(__x86_64__)
HONE_INLINE long long clock64() { return (long long)__builtin_ia32_rdtsc(); }
#else
HONE_INLINE long long clock64() { long long t; asm volatile("mrs %0, cntvct_el0" : "=r"(t)); return t; }
#endif
HONE_INLINE int clock() { return (int)clock64(); }
template <class T> HONE_INLINE T __ldg(const T* p) { return *p; }
template <class T> HONE_INLINE T __ldca(const T* p) { return *p; }
template <class T> HONE_INLINE T __ldcg(const T* p) { return *p; }
template <class T> HONE_INLINE T __ldcs(const T* p) { return *p; }
template <class T> HONE_INLINE T __ldlu(const T* p) { return *p; }
template <class T> HONE_INLINE T __ldcv(const T* p) { return *(const volatile T*)p; }
template <class T> HONE_INLINE void __stwb(T* p, T v) { *p = v; }
template <class T> HONE_INLINE void __stcg(T* p, T v) { *p = v; }
template <class T> HONE_INLINE void __stcs(T* p, T v) { *p = v; }
template <class T> HONE_INLINE void __stwt(T* p, T v) { *p = v; }
#endif  // HONE_API_H_
