#include "verifier/runner/gpu.h"

#include <cstring>
#include <dlfcn.h>

namespace hone::verifier {

int GpuRunner::Open(const GpuDialect& dialect, const std::string& driver_library, std::string* error) {
  constexpr int kLibraryMissing = 304;
  dialect_ = &dialect;
  if (!FindLaunches(error)) return kLibraryMissing;
  if (!driver_.Load(dialect, driver_library, error)) return kLibraryMissing;
  int device = 0;
  void* context = nullptr;
  int code = driver_.Init(0);
  if (code == 0) code = driver_.DeviceGet(&device, 0);
  if (code == 0) code = driver_.DevicePrimaryCtxRetain(&context, device);
  if (code == 0) code = driver_.CtxSetCurrent(context);
  if (code == 0) code = driver_.MemAlloc(&scratch_, 256);
  for (void*& event : events_) {
    if (code == 0) code = driver_.EventCreate(&event, 0);
  }
  if (code != 0) {
    *error = GpuErrorName(dialect, code);
    return code;
  }
  int (*free)(void*) = nullptr;  // what initialises a runtime that has not been used
  void* found = dlsym(RTLD_DEFAULT, (std::string(dialect.runtime_prefix) + "Free").c_str());
  std::memcpy(&free, &found, sizeof found);
  if (free != nullptr) code = free(nullptr);
  int64_t ns = 0;
  if (code == 0) code = Begin(0);
  if (code == 0) code = End(&ns);
  if (code != 0) *error = GpuErrorName(dialect, code);
  return code;
}

bool GpuRunner::FindLaunches(std::string* error) {
  const auto find = [](const char* name, auto& function) {
    void* found = dlsym(RTLD_DEFAULT, name);
    std::memcpy(&function, &found, sizeof function);
    return found != nullptr;
  };
  int (*start)() = nullptr;
  if (!find("hone_launches_start", start)) return true;
  *error = "candidates would not find the library that counts their launches";
  return start() != 0 && find("hone_launches_count", count_launches_) && find("hone_launches_switch", switch_launches_);
}

int GpuRunner::Map(const TableRegion& region, int fd) {
  GpuAllocation allocation = 0;
  void* shared = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
  if (const int code = driver_.MemImportFromShareableHandle(&allocation, shared, kGpuFileDescriptor); code != 0) {
    return code;
  }
  GpuAddress address = 0;
  const int access = region.writable != 0 ? kGpuReadWrite : kGpuRead;
  const int code = MapGpuMemory(driver_, 0, allocation, region.bytes, region.address, access, &address);
  driver_.MemRelease(allocation);  // the mapping keeps the memory
  if (code == 0 && address != region.address) moved_.push_back({region.address, region.bytes, address});
  return code;
}

uint64_t GpuRunner::Translate(uint64_t address) const {
  for (const Moved& moved : moved_) {
    if (address >= moved.wanted && address - moved.wanted < moved.bytes) return address - moved.wanted + moved.got;
  }
  return address;
}

int GpuRunner::Begin(uint32_t behind_mb) {
  const uint64_t bytes = uint64_t{behind_mb} << 20;
  int code = bytes > 0 && written_ == 0 ? driver_.MemAlloc(&written_, bytes) : 0;
  if (code == 0) code = driver_.MemsetD8Async(scratch_, 0, 1, nullptr);
  if (code == 0) code = driver_.CtxSynchronize();
  if (code == 0 && bytes > 0) code = driver_.MemsetD8Async(written_, 42, bytes, nullptr);
  if (code == 0) code = driver_.EventRecord(events_[0], nullptr);
  return code;
}

int GpuRunner::End(int64_t* ns) {
  int code = driver_.EventRecord(events_[1], nullptr);
  if (code == 0) code = driver_.CtxSynchronize();
  float ms = 0;
  if (code == 0) code = driver_.EventElapsedTime(&ms, events_[0], events_[1]);
  *ns = static_cast<int64_t>(static_cast<double>(ms) * 1e6);
  return code;
}

int GpuRunner::CopyIn(void* to, const void* from, uint64_t bytes) {
  return driver_.MemcpyHtoD(reinterpret_cast<GpuAddress>(to), from, bytes);
}

void* GpuRunner::Allocate(uint64_t bytes) {
  GpuAddress address = 0;
  return driver_.MemAlloc(&address, bytes) == 0 ? reinterpret_cast<void*>(address) : nullptr;
}

void GpuRunner::Free(void* data) { driver_.MemFree(reinterpret_cast<GpuAddress>(data)); }

}  // namespace hone::verifier
