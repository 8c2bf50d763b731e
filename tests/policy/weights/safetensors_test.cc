#include "policy/weights/safetensors.h"

#include <catch2/catch_test_macros.hpp>
#include <cstring>

namespace hone::policy {
namespace {

TempFolder Folder() {
  auto folder = TempFolder::Create("hone_safetensors");
  REQUIRE(folder.ok());
  return *std::move(folder);
}

template <class T>
absl::Span<const std::byte> Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
}

/// A file with the given header text and this many zero bytes of data.
std::string Raw(const TempFolder& folder, const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  bytes += header + std::string(data_bytes, '\0');
  const std::string path = folder.path() + "/model.safetensors";
  REQUIRE(WriteFileAtomically(path, bytes).ok());
  return path;
}

std::string ErrorOf(const std::string& path) {
  const auto opened = Safetensors::Open(path);
  REQUIRE_FALSE(opened.ok());
  const std::string message(opened.status().message());
  CHECK(message.find('\n') == std::string::npos);
  CHECK(message.find(path) == 0);
  return message.substr(path.size());
}

TEST_CASE("What was written is read back: names, dtypes, shapes, bytes, metadata", "[policy][weights]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/model.safetensors";
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<uint16_t> b = {0x3F80};
  const std::vector<float> empty;
  REQUIRE(WriteSafetensors(path,
                           {{"b", DType::kBFloat16, {}, Bytes(b)},
                            {"a", DType::kFloat32, {2, 3}, Bytes(a)},
                            {"none", DType::kFloat32, {0, 7}, Bytes(empty)}},
                           {{"format", "pt"}})
              .ok());
  const auto weights = Safetensors::Open(folder.path());
  REQUIRE(weights.ok());
  REQUIRE((*weights)->tensors().size() == 3);
  CHECK((*weights)->metadata().at("format") == "pt");
  const TensorView* view = (*weights)->Find("a");
  REQUIRE(view != nullptr);
  CHECK(view->dtype == DType::kFloat32);
  CHECK(view->shape == std::vector<int64_t>{2, 3});
  CHECK(std::memcmp(view->bytes.data(), a.data(), view->bytes.size()) == 0);
  CHECK((*weights)->Find("b")->shape.empty());
  CHECK((*weights)->Find("c") == nullptr);
  CHECK((*weights)->RequireNames({"a", "b", "none"}).ok());
  CHECK(std::string((*weights)->RequireNames({"a", "b", "c", "d"}).message()).find("missing 'c' and 1 more; unexpected 'none'") !=
        std::string::npos);
}

TEST_CASE("A writer that is given up leaves the old file alone and nothing beside it", "[policy][weights]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/model.safetensors";
  REQUIRE(WriteFileAtomically(path, "old").ok());
  {
    auto writer = SafetensorsWriter::Create(path, {{"a", DType::kFloat32, {4}}, {"b", DType::kInt8, {1}}});
    REQUIRE(writer.ok());
    const std::vector<float> three(3), four(4);
    CHECK_FALSE((*writer)->Append(Bytes(three)).ok());
    CHECK((*writer)->Append(Bytes(four)).ok());
    CHECK((*writer)->Finish().code() == absl::StatusCode::kFailedPrecondition);
  }
  CHECK(*ReadFile(path) == "old");
  CHECK_FALSE(FileExists(path + "." + std::to_string(getpid()) + ".partial"));
}

TEST_CASE("A lying header is refused with the file and the tensor's name", "[policy][weights]") {
  const TempFolder folder = Folder();
  const auto error = [&](const std::string& header, size_t bytes) { return ErrorOf(Raw(folder, header, bytes)); };
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  CHECK(error(good + "}", 4).find("'a' ends at byte 8 but the file holds 4") != std::string::npos);
  CHECK(error(good + "}", 9).find("1 bytes after the last tensor") != std::string::npos);
  CHECK(error(good, 8).find("not valid JSON") != std::string::npos);
  CHECK(error("[]", 0).find("not a JSON object") != std::string::npos);
  CHECK(error(good + R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8).find("'a' appears twice") !=
        std::string::npos);
  CHECK(error(good + R"(,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12).find("overlaps") !=
        std::string::npos);
  CHECK(error(good + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16).find("hole of 4 bytes") !=
        std::string::npos);
  CHECK(error(R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,8]}})", 8).find("dtype 'F4'") != std::string::npos);
  CHECK(error(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8).find("needs 12 bytes") != std::string::npos);
  CHECK(error(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8).find("not a list of sizes") !=
        std::string::npos);
  CHECK(error(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0).find("overflows") !=
        std::string::npos);
  CHECK(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8).find("unusable data_offsets") !=
        std::string::npos);
  CHECK(error(R"({"a":7})", 0).find("'a' lacks dtype") != std::string::npos);
}

TEST_CASE("Every truncation of a file is refused", "[policy][weights]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/model.safetensors";
  const std::vector<float> a = {1, 2, 3};
  REQUIRE(WriteSafetensors(path, {{"a", DType::kFloat32, {3}, Bytes(a)}}).ok());
  const std::string whole = *ReadFile(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    REQUIRE(WriteFileAtomically(path, whole.substr(0, size)).ok());
    ErrorOf(path);
  }
}

TEST_CASE("A sharded model needs every shard, with exactly the tensors that its index says", "[policy][weights]") {
  const TempFolder folder = Folder();
  const std::vector<float> one = {1};
  const auto write = [&](const std::string& file, const std::string& tensor) {
    REQUIRE(WriteSafetensors(folder.path() + "/" + file, {{tensor, DType::kFloat32, {1}, Bytes(one)}}).ok());
  };
  const auto index = [&](const std::string& map) {
    REQUIRE(WriteFileAtomically(folder.path() + "/model.safetensors.index.json", R"({"weight_map":)" + map + "}").ok());
    return Safetensors::Open(folder.path());
  };
  write("m-1.safetensors", "a");
  const auto missing = index(R"({"a":"m-1.safetensors","b":"m-2.safetensors"})");
  CHECK(missing.status().code() == absl::StatusCode::kNotFound);
  CHECK(std::string(missing.status().message()).find("shard m-2.safetensors is missing") != std::string::npos);
  write("m-2.safetensors", "b");
  const auto whole = index(R"({"a":"m-1.safetensors","b":"m-2.safetensors"})");
  REQUIRE(whole.ok());
  CHECK((*whole)->tensors().size() == 2);
  CHECK_FALSE(index(R"({"a":"m-1.safetensors","c":"m-2.safetensors"})").ok());
  CHECK_FALSE(index(R"({"a":"../m-1.safetensors"})").ok());
  write("m-2.safetensors", "a");
  CHECK_FALSE(index(R"({"a":"m-1.safetensors","b":"m-2.safetensors"})").ok());
}

}  // namespace
}  // namespace hone::policy
