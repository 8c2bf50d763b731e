#include "verifier/device/cpu/memory.h"

#include <sys/mman.h>
#include <unistd.h>

namespace hone::cpu {
namespace {

constexpr size_t kAlignment = 16;

size_t PageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t RoundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Region* Memory::Claim() {
  for (int i = 0; i < used_; ++i) {
    if (regions_[i].pages == nullptr) return &regions_[i];
  }
  return used_ < kMaxRegions ? &regions_[used_++] : nullptr;
}

void* Memory::Allocate(size_t bytes, bool host_visible) {
  if (bytes > size_t{1} << 46) return nullptr;
  Region* region = Claim();
  if (region == nullptr) return nullptr;
  const size_t page = PageBytes();
  const size_t inner = RoundUp(bytes == 0 ? 1 : bytes, page);
  void* mapping = mmap(nullptr, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  unsigned char* pages = static_cast<unsigned char*>(mapping) + page;
  if (mprotect(pages, inner, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapping, inner + 2 * page);
    return nullptr;
  }
  *region = Region{pages, inner, pages + (inner - RoundUp(bytes, kAlignment)), bytes, true, true,
                   host_visible, static_cast<unsigned char*>(mapping), inner + 2 * page};
  return region->begin;
}

bool Memory::Free(void* pointer) {
  for (int i = 0; i < used_; ++i) {
    Region& region = regions_[i];
    if (region.owned && region.begin == pointer) {
      munmap(region.mapping, region.mapping_bytes);
      region = Region{};
      return true;
    }
  }
  return false;
}

void Memory::FreeAll() {
  for (int i = 0; i < used_; ++i) {
    if (regions_[i].owned) Free(regions_[i].begin);
  }
}

bool Memory::Register(void* begin, size_t bytes, bool writable) {
  Region* region = Claim();
  if (region == nullptr) return false;
  const size_t page = PageBytes();
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = address / page * page;
  const uintptr_t last = RoundUp(address + bytes, page);
  *region = Region{reinterpret_cast<unsigned char*>(first), last - first, static_cast<unsigned char*>(begin), bytes,
                   writable, false, false, nullptr, 0};
  return true;
}

void Memory::UnregisterAll() {
  Open();
  for (int i = 0; i < used_; ++i) {
    if (!regions_[i].owned) regions_[i] = Region{};
  }
}

void Memory::Open() const {
  for (int i = 0; i < used_; ++i) {
    const Region& region = regions_[i];
    if (region.pages == nullptr) continue;
    mprotect(region.pages, region.page_bytes, region.writable ? PROT_READ | PROT_WRITE : PROT_READ);
  }
}

void Memory::Close() const {
  for (int i = 0; i < used_; ++i) {
    if (regions_[i].pages != nullptr && !regions_[i].host_visible) {
      mprotect(regions_[i].pages, regions_[i].page_bytes, PROT_NONE);
    }
  }
}

const Region* Memory::Find(const void* address, size_t slack_bytes) const {
  const auto* byte = static_cast<const unsigned char*>(address);
  const Region* nearest = nullptr;
  size_t distance = slack_bytes + 1;
  for (int i = 0; i < used_; ++i) {
    const Region& region = regions_[i];
    if (region.pages == nullptr) continue;
    const size_t away = byte < region.begin                  ? static_cast<size_t>(region.begin - byte)
                        : byte >= region.begin + region.bytes ? static_cast<size_t>(byte - region.begin - region.bytes)
                                                              : 0;
    if (away < distance) {
      distance = away;
      nearest = &region;
    }
  }
  return nearest;
}

}  // namespace hone::cpu
