#include "tests/cli/train/hf_folder.h"

#include <algorithm>

#include "cli/train/chat_language.h"
#include "cli/train/program_language.h"

namespace hone::cli {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

constexpr char kOpening[] = "<|im_start|>user\n", kAnswering[] = "<|im_end|>\n<|im_start|>assistant\n";

struct Model {
  TempFolder folder = *TempFolder::Create("chat");
  std::unique_ptr<ChatLanguage> language;

  explicit Model(bool example = false) {
    WriteChatModel(folder.path(), 4096);
    language = ChatLanguage::Load(folder.path(), {}, {.thinking = false, .example = example}).value();
  }
  std::string Text(const std::vector<int32_t>& ids) const { return language->tokenizer().Decode(ids); }
  int32_t End() const { return *language->tokenizer().IdOf("<|im_end|>"); }
};

Problem SomeProblem(const std::string& description) {
  Problem problem;
  problem.task.description = description;
  problem.task.reference = "class Model: pass\n";
  problem.text = "extern \"C\" void launch(const float* x) {\n}\n";
  return problem;
}

TEST_CASE("A prompt is the layout's text in the model's chat template", "[cli][train]") {
  const Model model;
  const Problem problem = SomeProblem("adds");
  const std::string text = model.Text(model.language->TaskPrompt(problem).value());
  CHECK(text == kOpening + rollout::TaskPrompt(problem.task, problem.text, {}) + kAnswering);
  Verdict verdict;
  verdict.status = VerdictStatus::kTimeout;
  CHECK_THAT(model.Text(model.language->RepairPrompt(problem, "__global__ void k();", verdict).value()),
             StartsWith(kOpening) && ContainsSubstring("did not finish in time") && EndsWith(kAnswering));
  CHECK_THAT(model.Text(model.language->ContrastPrompt(problem, {"first", 1.5}, {"second", 3}).value()),
             ContainsSubstring("1.50x") && ContainsSubstring("3.00x"));
  CHECK(model.language->stop_ids() == std::vector<int32_t>{model.End()});
}

TEST_CASE("A task comes after a worked example of its own launch shape, and feedback does not repeat it", "[cli][train]") {
  const Model model(/*example=*/true);
  const auto prompt_of = [&](const std::string& family) {
    Problem problem = SomeProblem("adds");
    problem.task.family = family;
    return model.Text(model.language->TaskPrompt(problem).value());
  };
  const std::string rows = prompt_of("softmax"), tiles = prompt_of("matmul");
  CHECK_THAT(rows, ContainsSubstring("row_products<<<rows, 256, 0, stream>>>") && ContainsSubstring("__shared__") &&
                       !ContainsSubstring("dim3") && EndsWith(rollout::TaskPrompt(SomeProblem("adds").task,
                                                                                  SomeProblem("adds").text, {}) + kAnswering));
  CHECK_THAT(tiles, ContainsSubstring("dim3 blocks((cols + 31) / 32") && !ContainsSubstring("__shared__"));
  Turn turn;
  turn.verdict.status = VerdictStatus::kRuntime;
  CHECK_THAT(model.Text(model.language->EncodeFeedback(turn).value()), !ContainsSubstring("launch("));
}

TEST_CASE("A special token spelled out in a task, a candidate or a compiler's message cannot end a turn", "[cli][train]") {
  const Model model;
  const auto ends = [&](const std::vector<int32_t>& ids) { return std::count(ids.begin(), ids.end(), model.End()); };
  CHECK(ends(model.language->TaskPrompt(SomeProblem("says <|im_end|>")).value()) == 1);
  Turn turn;
  turn.response_ids = {model.End()};
  turn.verdict.status = VerdictStatus::kCompile;
  turn.verdict.compiler_output = "error: <|im_end|>";
  const std::vector<int32_t> feedback = model.language->EncodeFeedback(turn).value();
  CHECK(ends(feedback) == 1);
  CHECK_THAT(model.Text(feedback), ContainsSubstring("error: <|im_end|>"));
}

TEST_CASE("Feedback ends the turn of an answer that was cut, and only then", "[cli][train]") {
  const Model model;
  Turn turn;
  turn.verdict.status = VerdictStatus::kRuntime;
  turn.response_ids = {5, 6};
  CHECK_THAT(model.Text(model.language->EncodeFeedback(turn).value()),
             StartsWith("<|im_end|>\n<|im_start|>user\n") && EndsWith(kAnswering));
  turn.response_ids.push_back(model.End());
  CHECK_THAT(model.Text(model.language->EncodeFeedback(turn).value()), StartsWith("\n<|im_start|>user\n"));
}

TEST_CASE("A candidate is the code block of the answer", "[cli][train]") {
  const Model model;
  CHECK(model.language->CandidateOf("Here:\n```cuda\nvoid launch() {}\n```\n") == "void launch() {}\n");
  CHECK(model.language->CandidateOf("I do not know.") == std::nullopt);
}

TEST_CASE("A tokenizer without a way to end an answer, or without the program language, is refused", "[cli][train]") {
  const Model model;
  const absl::Status program = ProgramLanguage::Load(model.folder.path()).status();
  CHECK(program.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(program.message()), ContainsSubstring("policy.prompts"));
  REQUIRE(WriteFileAtomically(model.folder.path() + "/tokenizer_config.json", "{}").ok());
  const absl::Status chat = ChatLanguage::Load(model.folder.path(), {}, {}).status();
  CHECK(chat.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(chat.message()), ContainsSubstring("generation_config.json"));
}

}  // namespace
}  // namespace hone::cli
