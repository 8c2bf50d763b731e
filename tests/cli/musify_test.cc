#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "tests/support/test_programs.h"

namespace hone {
namespace {

constexpr char kCuda[] =
    "#include <cuda_runtime.h>\nvoid f(cudaStream_t s) { cudaStreamSynchronize(s); }  // cudaFree\n";
constexpr char kMusa[] =
    "#include <musa_runtime.h>\nvoid f(musaStream_t s) { musaStreamSynchronize(s); }  // cudaFree\n";

struct Fixture {
  const TempFolder folder = TempFolder::Create("musify").value();

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder.path() + "/" + name;
    REQUIRE(WriteFileAtomically(path, text).ok());
    return path;
  }
  RunResult Musify(std::vector<std::string> arguments) {
    const std::string hone = TestProgram("hone");
    if (hone.empty()) SKIP("HONE_TEST_BIN names no folder with hone");
    SpawnOptions spawn;
    spawn.argv = {hone, "musify"};
    spawn.argv.insert(spawn.argv.end(), arguments.begin(), arguments.end());
    return Run(spawn, absl::Seconds(30)).value();
  }
};

TEST_CASE("musify writes one file to standard output and says what it did beside it", "[cli][musify]") {
  Fixture f;
  const RunResult result = f.Musify({f.Write("a.cu", kCuda)});
  CHECK(result.exit_code == 0);
  CHECK(absl::StrContains(result.output, kMusa));
  CHECK(absl::StrContains(result.output, "1 files, 3 names replaced, 0 without a counterpart"));
}

TEST_CASE("musify in place renames files there and back, and leaves them as they were", "[cli][musify]") {
  Fixture f;
  const std::string source = f.Write("a.cu", kCuda);
  CHECK(f.Musify({"--in-place", f.folder.path()}).exit_code == 0);
  CHECK_FALSE(FileExists(source));
  CHECK(ReadFile(f.folder.path() + "/a.mu").value() == kMusa);
  CHECK(f.Musify({"--in-place", f.folder.path()}).exit_code == 0);
  CHECK(ReadFile(f.folder.path() + "/a.mu").value() == kMusa);
  CHECK(f.Musify({"--in-place", "--to", "cuda", f.folder.path()}).exit_code == 0);
  CHECK(ReadFile(source).value() == kCuda);
}

TEST_CASE("musify tells what has no counterpart, with file and line, and exits with 3", "[cli][musify]") {
  Fixture f;
  const std::string file = f.Write("a.cu", "int x;\n__device__ void g() { asm(\"exit;\"); }\n");
  const RunResult checked = f.Musify({"--check", file});
  CHECK(checked.exit_code == 3);
  CHECK(absl::StrContains(checked.output, file + ":2: asm: inline assembly is PTX"));
  CHECK(f.Musify({"--check", f.Write("b.cu", kCuda)}).exit_code == 0);
  CHECK(ReadFile(f.folder.path() + "/b.cu").value() == kCuda);
}

TEST_CASE("musify refuses what it cannot read or would overwrite, with exit code 2 and nothing written",
          "[cli][musify]") {
  Fixture f;
  CHECK(f.Musify({f.folder.path() + "/none.cu"}).exit_code == 2);
  CHECK(f.Musify({f.Write("a.txt", "x")}).exit_code == 2);
  const std::string source = f.Write("a.cu", kCuda);
  f.Write("b.cu", kCuda);
  CHECK(absl::StrContains(f.Musify({f.folder.path()}).output, "choose --in-place or --check"));
  f.Write("a.mu", "mine");
  const RunResult there = f.Musify({"--in-place", source});
  CHECK(there.exit_code == 2);
  CHECK(absl::StrContains(there.output, "is there already"));
  CHECK(ReadFile(f.folder.path() + "/a.mu").value() == "mine");
  CHECK(ReadFile(source).value() == kCuda);
}

}  // namespace
}  // namespace hone
