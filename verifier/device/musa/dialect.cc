#include "verifier/device/musa/dialect.h"

namespace hone::verifier {
namespace {

/// The driver's own node, and the render node of the same card, which it opens besides.
std::vector<std::string> MusaNodes(const std::string& bus_address, int index) {
  return {"/dev/mtgpu." + std::to_string(index), "/dev/dri/by-path/pci-" + bus_address + "-render",
          "/dev/dri/renderD" + std::to_string(128 + index)};
}

/// kCudaDialect is a constant: it is there whatever the order of initialisation.
GpuDialect OnCuda() {
  GpuDialect dialect = kCudaDialect;
  dialect.name = "musa-compat/cuda";
  dialect.driver_library = "lib/musa-compat/libmusa.so.1";
  dialect.driver_prefix = "mu";
  dialect.runtime_prefix = "musa";
  return dialect;
}

}  // namespace

const GpuDialect kMusaDialect = {
    .name = "musa",
    .driver_library = "libmusa.so.1",
    .driver_prefix = "mu",
    .runtime_libraries = {"libmusart.so", "libmusart.so.5", "libmusart.so.4", nullptr},
    .runtime_prefix = "musa",
    .compiler_libraries = {"libmtrtc.so", "libmtrtc.so.5", "libmtrtc.so.4", nullptr},
    .compiler_prefix = "mtrtc",
    .binary_name = "FatBin",
    .architecture_prefix = "mp_",
    .clock_kernel = nullptr,
    .toolkit_variables = {"MUSA_HOME", "MUSA_PATH", nullptr},
    .toolkit_folder = "/usr/local/musa",
    .visible_devices = "MUSA_VISIBLE_DEVICES",
    .uuid_prefix = nullptr,
    .nodes = MusaNodes,
};

const GpuDialect kMusaOnCudaDialect = OnCuda();

}  // namespace hone::verifier
