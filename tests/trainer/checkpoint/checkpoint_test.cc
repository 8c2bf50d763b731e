#include "tests/support/catch_torch.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "tests/support/tiny_model.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/learner_state.h"
#include "trainer/loop/sft_trainer.h"

namespace hone::trainer {
namespace {

namespace fs = std::filesystem;

RunResult RunChild(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), HONE_KILLED_RUN);
  return Run({.argv = std::move(arguments)}, absl::Seconds(60)).value();
}

TEST_CASE("A run killed at any place and resumed has the weights of one that was not, to the bit", "[trainer][checkpoint]") {
  const TempFolder temp = TempFolder::Create("hone_kill").value();
  const RunResult whole = RunChild({absl::StrCat(temp.path(), "/whole")});
  REQUIRE(whole.exit_code == 0);
  REQUIRE(whole.output.size() == 65);
  // Step 2 is being made, or (files) the checkpoint of step 3 is being written.
  const std::pair<const char*, const char*> places[] = {{"generate", "2"}, {"score", "2"}, {"forward", "2"}, {"backward", "2"}, {"optimizer", "2"},
                                                        {"tensors.safetensors", "3"}, {"blobs/0", "3"}, {"state.json", "3"}, {"COMMIT", "3"}, {"rename", "3"}};
  for (const auto& [place, step] : places) {
    INFO(place);
    const std::string folder = absl::StrCat(temp.path(), "/", step, "_", std::string(place) == "blobs/0" ? "blob" : place);
    CHECK(RunChild({folder, place, step}).exit_code == 128 + SIGKILL);
    const RunResult resumed = RunChild({folder});
    CHECK(resumed.exit_code == 0);
    CHECK(resumed.output == whole.output);
  }
}

CheckpointData Data(int64_t step) {
  CheckpointData data;
  data.step = step;
  data.tensors = {{"a", at::full({3, 2}, static_cast<double>(step))}, {"b", at::arange(5, at::kLong)}};
  data.counters = {{"x", step * 7}};
  data.blobs = {{"sampler", std::string("\0\n\xff", 3)}, {"empty", ""}};
  return data;
}

void Damage(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char last = static_cast<char>(file.get());
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(last ^ 1));
}

TEST_CASE("A checkpoint gives back tensors, counters and blobs as they were", "[trainer][checkpoint]") {
  const TempFolder temp = TempFolder::Create("hone_checkpoint").value();
  const auto checkpointer = Checkpointer::Create({temp.path()}).value();
  CHECK(checkpointer->LoadLatest().status().code() == absl::StatusCode::kNotFound);
  REQUIRE(checkpointer->Save(Data(4)).ok());
  const CheckpointData back = checkpointer->LoadLatest().value();
  CHECK(back.step == 4);
  CHECK((back.counters == Data(4).counters));
  CHECK((back.blobs == Data(4).blobs));
  REQUIRE(back.tensors.size() == 2);
  CHECK(at::equal(back.tensors[0].second, at::full({3, 2}, 4.0)));
  CHECK(at::equal(back.tensors[1].second, at::arange(5, at::kLong)));
}

TEST_CASE("With a limit no file of tensors is larger, however large a tensor is, and all of it comes back", "[trainer][checkpoint]") {
  const TempFolder temp = TempFolder::Create("hone_checkpoint").value();
  constexpr int64_t kLimit = 4096, kHeader = 1024;
  const auto checkpointer = Checkpointer::Create({.folder = temp.path(), .max_file_bytes = kLimit}).value();
  CheckpointData data = Data(1);
  data.tensors.emplace_back("large", at::arange(5000, at::kFloat).view({50, 100}));
  data.tensors.emplace_back("half", at::arange(3000, at::kFloat).to(at::kBFloat16));
  data.tensors.emplace_back("name#0", at::ones({2}));  // looks like a part and is none
  REQUIRE(checkpointer->Save(data).ok());
  int files = 0;
  for (const auto& entry : fs::directory_iterator(checkpointer->PathOf(1))) {
    if (!absl::StartsWith(entry.path().filename().string(), "tensors")) continue;
    ++files;
    CHECK(static_cast<int64_t>(fs::file_size(entry.path())) <= kLimit + kHeader);
  }
  CHECK(files >= 7);  // 26,000 bytes
  const CheckpointData back = checkpointer->LoadLatest().value();
  REQUIRE(back.tensors.size() == data.tensors.size());
  for (const auto& [name, tensor] : data.tensors) {
    INFO(name);
    const auto found = std::find_if(back.tensors.begin(), back.tensors.end(), [&](const auto& entry) { return entry.first == name; });
    REQUIRE(found != back.tensors.end());
    CHECK(found->second.sizes() == tensor.sizes());
    CHECK(at::equal(found->second, tensor));
  }
  Damage(checkpointer->PathOf(1) + "/tensors-00003.safetensors");
  CHECK(checkpointer->LoadLatest().status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("A damaged, cut or uncommitted checkpoint is passed over for the one before it", "[trainer][checkpoint]") {
  for (const char* victim : {"tensors.safetensors", "state.json", "blobs/1", "COMMIT"}) {
    const TempFolder temp = TempFolder::Create("hone_checkpoint").value();
    const auto checkpointer = Checkpointer::Create({temp.path()}).value();
    for (int64_t step : {1, 2, 3}) REQUIRE(checkpointer->Save(Data(step)).ok());
    Damage(absl::StrCat(checkpointer->PathOf(3), "/", victim));
    fs::remove(absl::StrCat(checkpointer->PathOf(2), "/", victim));
    std::vector<std::string> skipped;
    INFO(victim);
    CHECK(checkpointer->LoadLatest(&skipped).value().step == 1);
    REQUIRE_FALSE(skipped.empty());
    CHECK(absl::StrContains(skipped[0], victim));
  }
}

TEST_CASE("A full disk leaves the previous checkpoint whole and nothing half-written", "[trainer][checkpoint]") {
  const TempFolder temp = TempFolder::Create("hone_checkpoint").value();
  const auto checkpointer = Checkpointer::Create({temp.path()}).value();
  REQUIRE(checkpointer->Save(Data(1)).ok());
  CheckpointData big = Data(2);
  big.tensors.emplace_back("big", at::zeros({1 << 16}));
  rlimit kept;
  getrlimit(RLIMIT_FSIZE, &kept);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100000, kept.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status status = checkpointer->Save(big);
  setrlimit(RLIMIT_FSIZE, &kept);
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(checkpointer->LoadLatest().value().step == 1);
  CHECK(std::distance(fs::directory_iterator(temp.path()), fs::directory_iterator()) == 1);
  CHECK(checkpointer->Save(big).ok());
  CHECK(checkpointer->LoadLatest().value().step == 2);
}

TEST_CASE("Old checkpoints go, milestones stay", "[trainer][checkpoint]") {
  const TempFolder temp = TempFolder::Create("hone_checkpoint").value();
  const auto checkpointer = Checkpointer::Create({.folder = temp.path(), .keep = 2, .keep_every = 4}).value();
  for (int64_t step = 1; step <= 7; ++step) REQUIRE(checkpointer->Save(Data(step)).ok());
  CHECK(checkpointer->Steps() == std::vector<int64_t>{4, 6, 7});
}

TEST_CASE("A step saved twice holds the second", "[trainer][checkpoint]") {
  const TempFolder temp = TempFolder::Create("hone_checkpoint").value();
  const auto checkpointer = Checkpointer::Create({temp.path()}).value();
  CheckpointData data = Data(3);
  REQUIRE(checkpointer->Save(data).ok());
  data.counters["x"] = 5;
  REQUIRE(checkpointer->Save(data).ok());
  CHECK(checkpointer->LoadLatest().value().counters.at("x") == 5);
}

TEST_CASE("A checkpoint of another model is refused by the tensor's name", "[trainer][checkpoint]") {
  const auto small = testing::MakeDecoder(testing::TinyConfig());
  policy::ModelConfig config = testing::TinyConfig();
  config.intermediate_size = 80;
  const auto large = testing::MakeDecoder(config);
  const auto from = SftTrainer::Create({}, *small).value(), to = SftTrainer::Create({}, *large).value();
  CheckpointData data;
  AddLearnerState(from->learner(), data);
  const absl::Status status = RestoreLearnerState(data, to->learner());
  CHECK(status.message() == "weight model.layers.0.mlp.gate_proj.weight has shape [72, 48], the model needs [80, 48]");
}

}  // namespace
}  // namespace hone::trainer
