// The one C function that every candidate artefact exports, and what it is given. Plain C without includes: the glue
// generated beside a candidate, the runner and the Python runner all read this file.
#ifndef HONE_VERIFIER_RUNNER_ABI_H_
#define HONE_VERIFIER_RUNNER_ABI_H_

#ifdef __cplusplus
extern "C" {
#endif

#define HONE_ABI_VERSION 1

// One tensor, a subset of DLPack's DLTensor with the same meaning: `data` is a device pointer.
struct HoneTensor {
  void* data;
  const long long* shape;    // [ndim]
  const long long* strides;  // [ndim], in elements
  int ndim;
  int dtype;                 // hone::DType as an integer
};

struct HoneCall {
  const struct HoneTensor* tensors;  // inputs, parameters, outputs: the order of the signature
  int tensor_count;
  const long long* sizes;            // values of Signature::sizes
  int size_count;
  const double* scalars;             // values of Signature::scalars
  int scalar_count;
  void* stream;                      // cudaStream_t of the backend
};

// The artefact's entry point. Returns 0, or the backend's error code of the launch.
#define HONE_ENTRY_SYMBOL "hone_call"
typedef int (*HoneEntry)(const struct HoneCall* call);

// Scratch memory of the runner, valid until the call returns to it; 256-byte aligned, contents unspecified. Declared for
// candidates by the prelude of their backend.
void* hone_workspace(unsigned long long bytes);

#ifdef __cplusplus
}
#endif
#endif  // HONE_VERIFIER_RUNNER_ABI_H_
