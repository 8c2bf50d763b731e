#include "verifier/service/config.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "verifier/build/musa_builder.h"
#include "verifier/lane/affinity.h"
#include "verifier/queue/redis_connection.h"
#include "verifier/sandbox/bubblewrap.h"
#include "verifier/service/noop_lane.h"

namespace hone::verifier {
namespace {

constexpr int64_t kGibOfLane = 2;  // a Python with torch, and up to 256 MiB of input sets

int64_t MemoryGib() {
  return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE) >> 30;
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string CacheFolder() {
  const std::string xdg = Environment("XDG_CACHE_HOME");
  if (!xdg.empty()) return absl::StrCat(xdg, "/hone/verifier");
  const std::string home = Environment("HOME");
  return absl::StrCat(home.empty() ? "/tmp" : home + "/.cache", "/hone/verifier");
}

/// "cuda" (all of them), "cuda:1", "musa", "musa:1".
bool IsGpu(const std::string& device) {
  const size_t colon = device.find(':');
  const std::string kind = device.substr(0, colon);
  if (kind != "cuda" && kind != "musa") return false;
  int index = 0;
  return colon == std::string::npos || (absl::SimpleAtoi(device.substr(colon + 1), &index) && index >= 0);
}

}  // namespace

absl::Status Resolve(ServerConfig& config) {
  if (config.queue.empty() && config.role != "all") {
    return absl::InvalidArgumentError(absl::StrCat("role: ", config.role, " is a part of a farm, and a farm needs a queue: redis://host:port/db"));
  }
  if (!config.queue.empty()) HONE_RETURN_IF_ERROR(ParseRedisUrl(config.queue).status());
  if (config.role == "build" || config.role == "lane") config.listen.clear();
  if (config.tls_certificate.empty() != config.tls_key.empty()) {
    return absl::InvalidArgumentError("tls_certificate and tls_key: one needs the other");
  }
  if (!config.tls_client_ca.empty() && config.tls_certificate.empty()) {
    return absl::InvalidArgumentError("tls_client_ca: needs tls_certificate and tls_key");
  }
  const bool serves = config.role == "all" || config.role == "front";
  if (serves && config.listen.empty()) return absl::InvalidArgumentError("listen: needs at least one address");
  if (config.devices.empty()) return absl::InvalidArgumentError("devices: needs at least one");
  for (const std::string& device : config.devices) {
    if (device != "cpu" && device != kNoopDevice && !IsGpu(device)) {
      return absl::InvalidArgumentError(
          absl::StrCat("devices: unknown device '", device, "'; there are: cpu, cuda, cuda:N, musa, musa:N, noop"));
    }
    if (device == kNoopDevice && config.devices.size() > 1) {
      return absl::InvalidArgumentError("devices: noop stands alone, because it answers for every backend");
    }
  }
  HONE_ASSIGN_OR_RETURN(const MusaToolchain musa, ChooseMusaToolchain(config.musa_toolchain));
  config.musa_toolchain = std::string(Name(musa));
  if (config.musa_architecture.empty()) config.musa_architecture = Environment("TORCH_MUSA_ARCH_LIST");
  HONE_RETURN_IF_ERROR(ParseMusaArchitectures(config.musa_architecture).status());
  const int cores = static_cast<int>(AllowedCores().size());
  const bool gpus = std::any_of(config.devices.begin(), config.devices.end(), IsGpu);
  if (config.lanes == 0) {
    config.lanes = static_cast<int>(std::clamp<int64_t>(cores / 2, 1, std::max<int64_t>(1, MemoryGib() / kGibOfLane)));
  }
  // What is timed on a GPU needs cores that no compiler takes: for the judge, the candidate and the reference.
  if (config.build_slots == 0) config.build_slots = gpus ? std::max(1, cores - 3) : cores;
  if (config.screen_lanes == 0) config.screen_lanes = std::clamp(cores / 4, 1, 4);
  if (config.folder.empty()) config.folder = CacheFolder();
  if (config.python.empty()) config.python = Environment("HONE_PYTHON");
  if (config.python.empty()) config.python = HONE_BUILD_PYTHON;
  if (config.python.empty()) config.python = "python3";
  if (config.devices.front() == kNoopDevice || config.role == "front") return absl::OkStatus();  // runs no candidates
  HONE_ASSIGN_OR_RETURN(config.sandbox, ChooseSandbox(config.sandbox));
  return absl::OkStatus();
}

}  // namespace hone::verifier
