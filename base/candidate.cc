#include "base/candidate.h"

#include "base/names.h"

namespace hone {
namespace {

constexpr NameTable<Format, 3> kFormats = {
    {{Format::kNative, "native"}, {Format::kTorch, "torch"}, {Format::kTriton, "triton"}}};
constexpr NameTable<Backend, 3> kBackends = {
    {{Backend::kCpu, "cpu"}, {Backend::kCuda, "cuda"}, {Backend::kMusa, "musa"}}};

}  // namespace

absl::string_view Name(Format format) { return NameIn(kFormats, format); }
absl::string_view Name(Backend backend) { return NameIn(kBackends, backend); }
std::optional<Format> ParseFormat(absl::string_view name) { return ParseIn(kFormats, name); }
std::optional<Backend> ParseBackend(absl::string_view name) { return ParseIn(kBackends, name); }

}  // namespace hone
