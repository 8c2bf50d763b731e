// The build stage when its helpers die, its files are damaged and its disk is full.

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "builder_bench.h"
#include "tests/support/process_tree.h"
#include "tests/support/small_disk.h"

namespace hone::test {
namespace {

namespace fs = std::filesystem;
using verifier::ArtefactStore;
using verifier::BuildRequest;
using verifier::BuildResult;

BuildRequest Request(const std::string& source) {
  BuildRequest request;
  request.candidate.source = source;
  request.signature = MakeSignature({Input("x"), Output("y")}, {"n"});
  return request;
}

/// `kernels` many: more take longer to compile.
BuildRequest Scale(double factor, int kernels = 1) {
  std::string source;
  for (int k = 0; k < kernels; ++k) {
    absl::StrAppend(&source, "__global__ void scale", k, "(const float* x, float* y, int n) {\n",
                    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = ", "(float)", factor,
                    " * x[i];\n}\n");
  }
  absl::StrAppend(&source, "extern \"C\" void launch(const float* x, float* y, int n, cudaStream_t stream) {\n");
  for (int k = 0; k < kernels; ++k)
    absl::StrAppend(&source, "  scale", k, "<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);\n");
  return Request(source + "}\n");
}

std::unique_ptr<verifier::Builder> MakeBuilder(ArtefactStore* store) {
  auto builder = verifier::CreateCpuBuilder({}, store);
  REQUIRE(builder.ok());
  return *std::move(builder);
}

int KillCompileServers() {
  int killed = 0;
  for (const pid_t pid : DescendantsWith(getpid(), "hone-compile-server 3")) killed += kill(pid, SIGKILL) == 0;
  return killed;
}

void CheckBuilds(verifier::Builder& builder, const BuildRequest& request) {
  const auto built = builder.Build(request);
  REQUIRE(built.ok());
  CHECK(built->status == VerdictStatus::kOk);
}

TEST_CASE("SIGKILL of the compile server in the middle of a build: the build is done again",
          "[verifier][build][faults]") {
  const TempFolder folder = TempFolder::Create("faults").value();
  const auto store = ArtefactStore::Create({folder.path()}).value();
  const auto builder = MakeBuilder(store.get());
  std::atomic<bool> done = false;
  std::atomic<int> killed = 0;
  std::thread killer([&] {
    absl::SleepFor(absl::Milliseconds(150));
    if (!done) killed = KillCompileServers();
  });
  const auto built = builder->Build(Scale(2, 400));
  done = true;
  killer.join();
  CHECK(killed > 0);
  REQUIRE(built.ok());
  CHECK(built->status == VerdictStatus::kOk);
  CheckBuilds(*builder, Scale(3));
}

TEST_CASE("A compile server that is killed again and again is our failure, and the next candidate's build is sound",
          "[verifier][build][faults]") {
  const TempFolder folder = TempFolder::Create("faults").value();
  const auto store = ArtefactStore::Create({folder.path()}).value();
  const auto builder = MakeBuilder(store.get());
  std::atomic<bool> done = false;
  std::thread killer([&] {
    while (!done) {
      KillCompileServers();
      absl::SleepFor(absl::Milliseconds(20));
    }
  });
  const auto built = builder->Build(Scale(2, 400));
  done = true;
  killer.join();
  CHECK(absl::IsUnavailable(built.status()));  // never the candidate's COMPILE
  CheckBuilds(*builder, Scale(3));
  CheckBuilds(*builder, Scale(2, 400));
}

TEST_CASE("A damaged artefact is built again and never served", "[verifier][build][faults]") {
  const TempFolder folder = TempFolder::Create("faults").value();
  const auto store = ArtefactStore::Create({folder.path()}).value();
  const auto builder = MakeBuilder(store.get());
  const BuildResult first = builder->Build(Scale(2)).value();
  REQUIRE(first.status == VerdictStatus::kOk);
  const std::string whole = ReadFile(first.artefact).value();
  const std::string record = (fs::path(first.artefact).parent_path() / "record").string();
  const std::vector<std::pair<std::string, std::function<void()>>> damages = {
      {"cut", [&] { fs::resize_file(first.artefact, whole.size() / 2); }},
      {"emptied", [&] { fs::resize_file(first.artefact, 0); }},
      {"removed", [&] { fs::remove(first.artefact); }},
      {"one bit",
       [&] {
         std::fstream file(first.artefact, std::ios::in | std::ios::out | std::ios::binary);
         file.seekp(static_cast<std::streamoff>(whole.size() / 2));
         file.put(static_cast<char>(whole[whole.size() / 2] ^ 4));
       }},
      {"record cut", [&] { fs::resize_file(record, fs::file_size(record) - 1); }},
  };
  for (const auto& [name, damage] : damages) {
    INFO(name);
    damage();
    const BuildResult again = builder->Build(Scale(2)).value();
    CHECK(again.status == VerdictStatus::kOk);
    CHECK_FALSE(again.from_cache);
    CHECK(ReadFile(again.artefact).value() == whole);
    CHECK(builder->Build(Scale(2))->from_cache);
  }
}

TEST_CASE(
    "On a full disk a candidate that does not compile still gets its verdict, a sound one is our failure until there "
    "is room",
    "[verifier][build][faults]") {
  const std::unique_ptr<testing::SmallDisk> disk = testing::SmallDisk::Mount(256 << 10);
  if (disk == nullptr) SKIP("needs the right to mount a file system");
  const auto store = ArtefactStore::Create({disk->path()}).value();
  const auto builder = MakeBuilder(store.get());
  CheckBuilds(*builder, Scale(2));
  const std::string filler = disk->path() + "/filler";
  std::ofstream(filler) << std::string(256 << 10, 'x');
  CHECK(absl::IsResourceExhausted(builder->Build(Scale(3)).status()));
  const auto broken =
      builder->Build(Request("extern \"C\" void launch(const float* x, float* y, int n, cudaStream_t stream) { z; }"));
  REQUIRE(broken.ok());
  CHECK(broken->status == VerdictStatus::kCompile);
  CHECK(builder->Build(Scale(2))->from_cache);
  fs::remove(filler);
  CheckBuilds(*builder, Scale(3));
}

TEST_CASE("On a full disk old artefacts make room for new ones", "[verifier][build][faults]") {
  const std::unique_ptr<testing::SmallDisk> disk = testing::SmallDisk::Mount(128 << 10);
  if (disk == nullptr) SKIP("needs the right to mount a file system");
  verifier::ArtefactStoreOptions options{disk->path()};
  options.grace = absl::ZeroDuration();
  const auto store = ArtefactStore::Create(options).value();
  const auto builder = MakeBuilder(store.get());
  for (int i = 1; i <= 20; ++i) CheckBuilds(*builder, Scale(i));
  CHECK(store->entries() < 20);
}

}  // namespace
}  // namespace hone::test
