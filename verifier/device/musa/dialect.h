#pragma once

// What MUSA calls the things of verifier/device/cuda/driver.h: the vendor's own toolkit and driver, and the
// compatibility toolchain on an NVIDIA GPU. Plain C++ without Abseil, as there. docs/musa.md says what of it ran on
// what.

#include "verifier/device/cuda/driver.h"

namespace hone::verifier {

/// libmusa, libmusart, mcc. The run-time compiler is MTRTC; where there is none, the host compares.
extern const GpuDialect kMusaDialect;

/// MUSA's names for driver and runtime, through libraries of ours that hand everything to CUDA's
/// (verifier/device/musa/compat). What is no name of an interface is CUDA's: its run-time compiler, its architectures,
/// its nodes.
extern const GpuDialect kMusaOnCudaDialect;

/// Below the prefix that the program is installed in: the runtime that stands in for libmusart. It hands everything to
/// whatever CUDA runtime the process has loaded: NVIDIA's, or the CPU emulation's.
inline constexpr char kCompatRuntime[] = "lib/musa-compat/libmusart.so.1";

/// Environment variable that names the CUDA driver's library behind the compatibility driver; unset: libcuda.so.1.
inline constexpr char kCompatDriverVariable[] = "HONE_MUSA_COMPAT_DRIVER";

}  // namespace hone::verifier
