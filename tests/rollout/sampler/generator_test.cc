#include "rollout/sampler/generator.h"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace hone::rollout {
namespace {

KernelChoices ChoicesFor(const Program& program, const std::string& style, int block, bool fast) {
  KernelChoices choices;
  choices.style = style;
  choices.block = block;
  choices.fast = fast;
  choices.spellings.assign(program.lines.size(), fast ? Spelling::kFast : Spelling::kPlain);
  return choices;
}

}  // namespace

TEST_CASE("A held-out program is never drawn, as a task or as an example, in 100,000 draws", "[rollout][generator]") {
  std::set<std::string> held_out;
  for (const GeneratedTask& task : NamedTasks(Split::kHeldOut)) held_out.insert(task.task.id);
  Generator generator(11);
  std::set<std::string> seen;
  for (int i = 0; i < 100'000; ++i) seen.insert(Key(generator.NextProgram()));
  for (const std::string& key : held_out) CHECK(seen.count(key) == 0);
  // The claim has content: without the exclusion they do come.
  SplitMix random(11);
  std::set<std::string> unfiltered;
  for (int i = 0; i < 100'000; ++i) unfiltered.insert(Key(DrawProgram(random)));
  size_t met = 0;
  for (const std::string& key : held_out) met += unfiltered.count(key);
  CHECK(met > held_out.size() / 2);
}

TEST_CASE("The held-out list is the published one", "[rollout][generator]") {
  std::string keys;
  for (const GeneratedTask& task : NamedTasks(Split::kHeldOut)) absl::StrAppend(&keys, task.task.id, "\n");
  CHECK(keys ==
        "sub_y-silu-map\nabs-mul_y-sigmoid-map\nadd_y-relu-mul_z-map\nsoftplus-tanh-map\nexp-mul_y-row_sum\ngelu-row_mean\n"
        "mul_y-add_z-row_max\nsub_y-clamp-row_meansq\nhalf-add_y-softmax\ntanh-triple-logsumexp\nadd_y-leaky-layernorm\n"
        "sigmoid-mul_y-rmsnorm\nsquare-inc-transpose\nrelu-sub_y-col_sum\nlogabs-col_max\nmax_y-half-matmul\n");
}

TEST_CASE("Named tasks are 24 for training and 16 held out, and no task is both", "[rollout][generator]") {
  std::set<std::string> train, held_out;
  for (const GeneratedTask& task : NamedTasks(Split::kTrain)) {
    train.insert(task.task.id);
    CHECK(task.task.split == Split::kTrain);
  }
  for (const GeneratedTask& task : NamedTasks(Split::kHeldOut)) {
    held_out.insert(task.task.id);
    CHECK(task.task.split == Split::kHeldOut);
    CHECK(train.count(task.task.id) == 0);
  }
  CHECK(train.size() == 24);
  CHECK(held_out.size() == 16);
}

TEST_CASE("A prompt is the entry point and the program, and parses back", "[rollout][generator]") {
  Generator generator(12);
  for (int i = 0; i < 2'000; ++i) {
    const GeneratedTask task = generator.NextTask();
    const std::vector<std::string> lines = absl::StrSplit(task.prompt, '\n');
    REQUIRE(lines.front() == ProgramSignature(task.program).Declaration());
    REQUIRE(task.prompt.back() == '\n');
    const std::optional<Program> back = ParsePrompt(task.prompt);
    REQUIRE(back.has_value());
    REQUIRE(*back == task.program);
    REQUIRE(task.task.id == Key(task.program));
  }
  std::string wrong = Prompt(Program{});
  wrong.replace(wrong.find("int rows"), 8, "int cows");
  CHECK(!ParsePrompt(wrong).has_value());
}

TEST_CASE("Every demonstration and baseline declares the entry point of its prompt", "[rollout][generator]") {
  Generator generator(13);
  for (int i = 0; i < 2'000; ++i) {
    const Example example = generator.NextExample();
    const std::string declaration = example.prompt.substr(0, example.prompt.find('\n'));
    REQUIRE(absl::StrContains(example.demonstration.source, absl::StrCat("\n", declaration, " {\n")));
    REQUIRE(absl::StrContains(ScalarBaseline(*ParsePrompt(example.prompt)), absl::StrCat("\n", declaration, " {\n")));
  }
}

TEST_CASE("The same seed continues to the same sequence from a saved state", "[rollout][generator]") {
  Generator whole(14), first(14);
  for (int i = 0; i < 10; ++i) {
    whole.NextTask();
    first.NextTask();
  }
  Generator second(first.state());
  for (int i = 0; i < 10; ++i) {
    CHECK(second.NextTask().task == whole.NextTask().task);
    CHECK(second.NextExample().demonstration.source == whole.NextExample().demonstration.source);
  }
}

TEST_CASE("The flawed share of demonstrations is the one asked for, and each names its flaw", "[rollout][generator]") {
  GeneratorOptions options;
  options.demonstrations.flawed_share = 0.25;
  Generator generator(15, options);
  std::set<std::string> flaws;
  int flawed = 0;
  for (int i = 0; i < 8'000; ++i) {
    const Demonstration demonstration = generator.NextExample().demonstration;
    flawed += !demonstration.flaw.empty();
    flaws.insert(demonstration.flaw);
  }
  CHECK(flawed > 1'850);  // 2000 expected; 4 standard deviations are 155
  CHECK(flawed < 2'150);
  CHECK(flaws.size() == 11);  // ten and none
  options.demonstrations.flawed_share = 0;
  Generator sound(15, options);
  for (int i = 0; i < 1'000; ++i) CHECK(sound.NextExample().demonstration.flaw.empty());
}

TEST_CASE("No two styles of a tail are the same source", "[rollout][generator]") {
  for (const GeneratedTask& task : NamedTasks(Split::kHeldOut)) {
    std::set<std::string> sources;
    const std::vector<std::string> styles = StylesOf(task.program.tail);
    for (const std::string& style : styles) sources.insert(KernelSource(task.program, ChoicesFor(task.program, style, 64, false)));
    CHECK(sources.size() == styles.size());
  }
}

TEST_CASE("A corpus is its seed's prompts and sources", "[rollout][generator]") {
  const std::vector<std::string> corpus = Corpus(50, 16);
  CHECK(corpus.size() == 50);
  CHECK(corpus == Corpus(50, 16));
  CHECK(corpus != Corpus(50, 17));
  for (const std::string& text : corpus) CHECK(absl::StartsWith(text, "extern \"C\" void launch("));
}

}  // namespace hone::rollout
