// Renders docs/benchmarks.md from bench/results.json.

#include <cstdio>
#include <string>

#include "base/file.h"
#include "base/results.h"
#include "base/status_macros.h"

namespace hone {
namespace {

absl::Status Render() {
  HONE_ASSIGN_OR_RETURN(const std::vector<BenchResult> results, ReadResults(HONE_SOURCE_DIR "/bench/results.json"));
  return WriteFileAtomically(HONE_SOURCE_DIR "/docs/benchmarks.md", RenderBenchmarks(results));
}

}  // namespace
}  // namespace hone

int main() {
  const absl::Status status = hone::Render();
  if (!status.ok()) std::fprintf(stderr, "render_benchmarks: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
