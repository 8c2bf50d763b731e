#pragma once

// The quickstart's endless supply of tasks and demonstrations, and its fixed lists.
//
//   Generator generator(seed);
//   GeneratedTask drawn = generator.NextTask();          // for RL: drawn.task goes to the verifier, drawn.prompt to the policy
//   Example example = generator.NextExample();           // for SFT: example.prompt + example.demonstration.source
//   for (const GeneratedTask& t : NamedTasks(Split::kHeldOut)) ...   // for evaluation
//
// The tokenizer for it: TrainBpe(Corpus(4000, seed), vocabulary, {.pattern = kTokenPattern, .all_bytes = false}). An answer
// takes about 100 tokens of a vocabulary of 400 (one in twenty 190 or more), 80 of 512, 57 of 768.
//
// A prompt is the entry point and the program, one line each, and ends with a newline; the policy's answer is the whole CUDA
// source and nothing else (no fences), ended by the end-of-text token:
//
//   extern "C" void launch(const float* x, const float* y, float* out, int rows, int cols, cudaStream_t stream)
//   t = x * y
//   t = sigmoid(t)
//   return sum(t, 1)
//
// Everything is a pure function of the seed: the same on every machine and with every library.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/task.h"
#include "rollout/sampler/demonstration.h"
#include "rollout/sampler/program.h"
#include "rollout/sampler/random.h"

namespace hone::rollout {

struct GeneratedTask {
  Program program;
  Task task;           // id = Key(program); reference, hidden variants and scalar baseline filled in
  std::string prompt;  // what the policy reads
};

struct Example {
  std::string prompt;
  Demonstration demonstration;
};

/// The prompt and task of one program.
GeneratedTask MakeTask(const Program& program, Split split = Split::kTrain);
std::string Prompt(const Program& program);
/// The program that Prompt wrote; nothing for any other text.
std::optional<Program> ParsePrompt(absl::string_view prompt);

/// The named tasks: 24 to train on, 16 held out. Chosen by hand before the first training run and never changed; each kind
/// of tail is held out at least once. Held-out programs are never drawn, neither as tasks nor as examples.
std::vector<GeneratedTask> NamedTasks(Split split);
bool IsHeldOut(const Program& program);

struct GeneratorOptions {
  DemonstrationOptions demonstrations;
  double named_share = 0.15;  // of NextTask: a named train task in place of a drawn one
};

/// Not thread-safe. state() and Generator(state) continue the sequence exactly, for resuming a run.
class Generator {
 public:
  explicit Generator(uint64_t seed, GeneratorOptions options = {});

  /// Any program of the language that is not held out.
  Program NextProgram();
  GeneratedTask NextTask();
  Example NextExample();

  uint64_t state() const { return random_.state(); }

 private:
  SplitMix random_;
  GeneratorOptions options_;
  std::vector<Program> named_;
};

/// `count` examples as texts (prompt, then source) to train a tokenizer on.
std::vector<std::string> Corpus(int count, uint64_t seed);

/// How the tokenizer cuts text: a line of boilerplate stays whole, so that frequent lines become single tokens; a line of
/// arithmetic ("t = ...") is cut into words, so that every expression is composed of the same few tokens.
inline constexpr char kTokenPattern[] =
    R"((?:(?<=\n)|\A)(?! *(?:float )?t = )[^\n]*\n|(?:(?<=\n)|\A) *(?:float )?t =|[);]*\n)"
    R"(| ?[A-Za-z_][A-Za-z0-9_]*\(?| ?[0-9][0-9.]*f?| ?[^\sA-Za-z0-9_]|\s+)";

}  // namespace hone::rollout
