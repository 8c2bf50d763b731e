// The emulated dialect is CUDA's: every CUDA source that the project ships also compiles with nvcc.

#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "tests/support/nvcc.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

/// The corpus of attacks holds what must not compile, or reads /dev/urandom for ever.
bool IsAttack(const fs::path& path) { return path.string().find("/tests/attacks/") != std::string::npos; }

TEST_CASE("Every CUDA source of the project compiles with nvcc", "[verifier][build][nvcc]") {
  if (!HasNvcc()) SKIP("nvcc is not on PATH");
  int files = 0;
  for (const char* folder : {"examples", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(HONE_SOURCE_FOLDER) / folder)) {
      if (entry.path().extension() != ".cu" || IsAttack(entry.path())) continue;
      ++files;
      INFO(entry.path());
      CHECK(NvccErrors(entry.path().string()) == "");
    }
  }
  CHECK(files >= 4);
}

TEST_CASE("The tests of bfloat16 compile with nvcc", "[verifier][build][nvcc]") {
  if (!HasNvcc()) SKIP("nvcc is not on PATH");
  CHECK(NvccErrors(HONE_SOURCE_FOLDER "/tests/verifier/build/kernels/small_float.cu", {"-DUSE_BFLOAT16"}) == "");
}

}  // namespace
}  // namespace hone
