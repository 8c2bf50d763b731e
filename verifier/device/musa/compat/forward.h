#pragma once

// How the compatibility libraries hand a call on: by name, to a function of the same arguments. Looked up at the first
// call and kept; a name that nobody has answers "not supported" (801) instead of ending the process.

#include <dlfcn.h>

#define HONE_EXPORT extern "C" __attribute__((visibility("default")))

/// Defines PREFIXname as TARGETname, found by `find`.
#define HONE_FORWARD_AS(find, result, exported, target, parameters, arguments)                            \
  HONE_EXPORT result exported parameters {                                                                \
    using Function = result(*) parameters;                                                                \
    static const auto target_function = reinterpret_cast<Function>(find(target));                         \
    return target_function != nullptr ? target_function arguments : hone::musa_compat::Missing<result>(); \
  }

namespace hone::musa_compat {

template <class Result>
Result Missing();
template <>
inline int Missing<int>() {
  return 801;
}  // ErrorNotSupported, of runtime and driver alike
template <>
inline const char* Missing<const char*>() {
  return "the CUDA library behind this name lacks it";
}

}  // namespace hone::musa_compat
