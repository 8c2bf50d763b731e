#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <fstream>

#include "absl/strings/match.h"
#include "tests/support/memory_folder.h"
#include "trainer/data/cuda_regions.h"
#include "trainer/data/dataset.h"
#include "trainer/data/implementation_clusters.h"

namespace hone::trainer {
namespace {

// The regions' texts.
std::vector<std::string> Regions(const std::string& text) {
  std::vector<std::string> out;
  for (const ByteRange& range : CudaRegions(text)) out.push_back(text.substr(range.begin, range.end - range.begin));
  return out;
}

TEST_CASE("Kernels, launches and grid definitions are found in an answer, its prose and host code are not",
          "[trainer][data]") {
  const std::string answer =
      "I'll use one thread a row; __shared__ isn't needed.\n"
      "```cuda\n"
      "#include <cuda_runtime.h>\n"
      "template <int kN>\n"
      "__global__ void scale(const float* x, float* y, int n) {\n"
      "  // a } in a comment, and \"in a string: }\"\n"
      "  if (threadIdx.x < n) { y[threadIdx.x] = x[threadIdx.x] * kN; }\n"
      "}\n"
      "void launch(const float* x, float* y, int n, cudaStream_t stream) {\n"
      "  dim3 grid((n + 255) / 256);\n"
      "  scale<2><<<grid, 256, 0, stream>>>(x, y, n);\n"
      "}\n"
      "```\n";
  CHECK(Regions(answer) ==
        std::vector<std::string>{"template <int kN>\n__global__ void scale(const float* x, float* y, int n) {\n"
                                 "  // a } in a comment, and \"in a string: }\"\n"
                                 "  if (threadIdx.x < n) { y[threadIdx.x] = x[threadIdx.x] * kN; }\n}",
                                 "dim3 grid((n + 255) / 256);", "scale<2><<<grid, 256, 0, stream>>>(x, y, n)"});
}

TEST_CASE("Declarations, cut answers and device functions are regions as far as they go", "[trainer][data]") {
  CHECK(Regions("__device__ float f(float x);\nint a;") == std::vector<std::string>{"__device__ float f(float x);"});
  CHECK(Regions("x __global__ void k() { if (a) {") == std::vector<std::string>{"__global__ void k() { if (a) {"});
  CHECK(Regions("k<<<1, 2") == std::vector<std::string>{"k<<<1, 2"});
  CHECK(Regions("__forceinline__ __device__ int g() { return '}'; } int h() {}") ==
        std::vector<std::string>{"__device__ int g() { return '}'; }"});
  CHECK(Regions("my__global__ = 1; /* __global__ void k() {} */ \"<<<\"").empty());
  CHECK(Regions("").empty());
}

TEST_CASE("A token is in a region when one of its bytes is; worked by hand", "[trainer][data]") {
  // bytes 0-3 | 3-5 | 5-5 (half a character) | 5-8 | 8-9 with regions [4, 6) and [8, 9)
  CHECK(TokensIn({{4, 6}, {8, 9}}, {3, 5, 5, 8, 9}) == std::vector<uint8_t>{0, 1, 1, 1, 1});
  CHECK(TokensIn({{4, 6}}, {3, 4, 6, 8}) == std::vector<uint8_t>{0, 0, 1, 0});
  CHECK(TokensIn({}, {3, 5}) == std::vector<uint8_t>{0, 0});
}

constexpr char kPlain[] =
    "__global__ void k(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) "
    "y[i] = x[i] * 2.0f; }\n"
    "void launch(const float* x, float* y, int n, cudaStream_t s) { k<<<(n + 255) / 256, 256, 0, s>>>(x, y, n); }";

TEST_CASE("Renaming, other numbers and comments leave an implementation where it is", "[trainer][data]") {
  const std::string renamed =
      "// doubles\n__global__ void twice(const float* in, float* out, int count) { int at = blockIdx.x * blockDim.x + "
      "threadIdx.x; if (at < count) out[at] = in[at] * 2.5f; }\n"
      "void launch(const float* in, float* out, int count, cudaStream_t q) { twice<<<(count + 127) / 128, 128, 0, "
      "q>>>(in, out, count); }";
  const std::string vectorised =
      "__global__ void k(const float4* x, float4* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < "
      "n) { float4 v = x[i]; v.x *= 2; v.y *= 2; y[i] = v; } }\n"
      "void launch(const float* x, float* y, int n, cudaStream_t s) { k<<<(n / 4 + 255) / 256, 256, 0, s>>>((const "
      "float4*)x, (float4*)y, n / 4); }";
  CHECK(Similarity(FeaturesOf(kPlain), FeaturesOf(renamed)) == 1);
  CHECK(ClusterImplementations({kPlain, vectorised, renamed, vectorised}) == std::vector<int>{0, 1, 0, 1});
  CHECK(Similarity(FeaturesOf(""), FeaturesOf("")) == 1);
}

TEST_CASE("A barrier makes another implementation however alike the rest is", "[trainer][data]") {
  std::string with_barrier = kPlain;
  with_barrier.insert(with_barrier.find("if (i"), "__syncthreads(); ");
  CHECK(ClusterImplementations({kPlain, with_barrier}, 0.1) == std::vector<int>{0, 1});
}

TEST_CASE("Draws go round the clusters before any is asked twice", "[trainer][data]") {
  const std::vector<int> clusters{0, 0, 0, 0, 1, 2};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<size_t> drawn = DrawFromClusters(clusters, 4, seed);
    REQUIRE(drawn.size() == 4);
    CHECK(clusters[drawn[0]] == 0);
    CHECK(drawn[1] == 4);
    CHECK(drawn[2] == 5);
    CHECK(clusters[drawn[3]] == 0);
    CHECK(drawn[3] != drawn[0]);
    CHECK(DrawFromClusters(clusters, 4, seed) == drawn);
  }
  CHECK(DrawFromClusters(clusters, 100, 1).size() == 6);
  CHECK(DrawFromClusters({}, 3, 1).empty());
}

TEST_CASE("A dataset is read line by line, and a bad line is named", "[trainer][data]") {
  const TempFolder folder = MemoryFolder("dataset");
  const std::string path = folder.path() + "/data.jsonl";
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return ReadDataset(path);
  };
  const auto records = read(
                           "{\"prompt\": \"a\", \"response\": \"b\"}\n\n{\"prompt_ids\": [1, 2], \"response_ids\": "
                           "[3], \"provenance\": {}}\n")
                           .value();
  REQUIRE(records.size() == 2);
  CHECK(records[0].messages[1].content == "b");
  CHECK(records[1].line == 3);
  CHECK(records[1].response_ids == std::vector<int32_t>{3});
  const auto refuses = [&](const std::string& text, const std::string& why) {
    const absl::Status status = read(text).status();
    INFO(status.ToString());
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), why));
  };
  refuses("{\"prompt\": \"a\", \"response\": \"b\"}\n{", "data.jsonl:2: not a JSON object");
  refuses("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": \"b\"}]}",
          "data.jsonl:1: the last message is of \"user\"");
  refuses("{\"prompt_ids\": [1], \"response_ids\": [-1]}", "no token id");
  refuses("{\"prompt_ids\": [1]}", "response_ids is missing");
  refuses("\n", "holds no example");
}

TEST_CASE("Ranks share out all sequences, evenly by tokens", "[trainer][data]") {
  const std::vector<int64_t> lengths{10, 1, 9, 2, 8, 3};
  CHECK(ShareOfRank(lengths, 2, 0) == std::vector<size_t>{0, 1, 3, 5});  // 10 + 3 + 2 + 1 against 9 + 8
  CHECK(ShareOfRank(lengths, 2, 1) == std::vector<size_t>{2, 4});
  CHECK(ShareOfRank(lengths, 1, 0).size() == 6);
}

}  // namespace
}  // namespace hone::trainer
