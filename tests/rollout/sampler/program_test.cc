#include "rollout/sampler/program.h"

#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hone::rollout {
namespace {

Program Parsed(const std::string& text) {
  const std::optional<Program> program = ParseProgram(text);
  REQUIRE(program.has_value());
  return *program;
}

}  // namespace

TEST_CASE("A drawn program is the one its own text parses to", "[rollout][generator]") {
  SplitMix random(1);
  for (int i = 0; i < 20'000; ++i) {
    const Program program = DrawProgram(random);
    const std::optional<Program> back = ParseProgram(ProgramText(program));
    INFO(ProgramText(program));
    REQUIRE(back.has_value());
    REQUIRE(*back == program);
  }
}

TEST_CASE("Equal keys mean equal programs", "[rollout][generator]") {
  SplitMix random(2);
  std::map<std::string, std::string> text_of;
  for (int i = 0; i < 20'000; ++i) {
    const Program program = DrawProgram(random);
    const auto [known, is_new] = text_of.emplace(Key(program), ProgramText(program));
    REQUIRE(known->second == ProgramText(program));
  }
  CHECK(text_of.size() > 5'000);  // the language is wide
}

TEST_CASE("Every tail and every number of inputs is drawn", "[rollout][generator]") {
  SplitMix random(3);
  std::set<Tail> tails;
  std::set<int> inputs;
  for (int i = 0; i < 2'000; ++i) {
    const Program program = DrawProgram(random);
    tails.insert(program.tail);
    inputs.insert(program.inputs());
  }
  CHECK(tails.size() == kTailCount);
  CHECK(inputs == std::set<int>{1, 2, 3});
}

TEST_CASE("A seed gives the same programs everywhere", "[rollout][generator]") {
  SplitMix random(7);
  std::string keys;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&keys, Key(DrawProgram(random)), " ");
  CHECK(keys == "x-row_max clamp-square-transpose max_y-mul_y-mul_z-map triple-tanh-gelu-layernorm ");
}

TEST_CASE("Text outside the language does not parse", "[rollout][generator]") {
  for (const std::string text : {"", "return t\n", "t = x\n", "t = x\nreturn t", "t = cube(x)\nreturn t\n", "t = x * y\nreturn sum(t, 2)\n",
                                 "t = x\nt = x\nt = x\nt = x\nreturn t\n", "t = t * y\nreturn t\n", "t = relu(x)\n\nreturn t\n"}) {
    INFO(text);
    CHECK(!ParseProgram(text).has_value());
  }
}

TEST_CASE("The entry point lists inputs, then the output, then the sizes", "[rollout][generator]") {
  CHECK(ProgramSignature(Parsed("t = x * y\nt = t + z\nreturn sum(t, 1)\n")).Declaration() ==
        "extern \"C\" void launch(const float* x, const float* y, const float* z, float* out, int rows, int cols, "
        "cudaStream_t stream)");
  CHECK(ProgramSignature(Parsed("t = relu(x)\nreturn t @ w\n")).Declaration() ==
        "extern \"C\" void launch(const float* x, const float* w, float* out, int rows, int cols, int width, "
        "cudaStream_t stream)");
  const Signature transposed = ProgramSignature(Parsed("t = relu(x)\nreturn transpose(t)\n"));
  CHECK(transposed.tensors.back().dimensions == std::vector<std::string>{"cols", "rows"});
}

TEST_CASE("The reference says in PyTorch what the lines say", "[rollout][generator]") {
  CHECK(ReferenceText(Parsed("t = x * y\nt = gelu(t)\nreturn layernorm(t, 1)\n")) ==
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\nrows = 160\ncols = 260\n\n\n"
        "class Model(nn.Module):\n    def forward(self, x, y):\n        t = x * y\n"
        "        t = F.gelu(t, approximate=\"tanh\")\n        return F.layer_norm(t, (t.shape[1],), eps=1e-5)\n\n\n"
        "def get_inputs():\n    return [torch.randn(rows, cols), torch.randn(rows, cols)]\n\n\n"
        "def get_init_inputs():\n    return []\n");
}

TEST_CASE("The device function has one statement a line of the program, in the spelling asked for", "[rollout][generator]") {
  const Program program = Parsed("t = x * y\nt = sigmoid(t)\nreturn t\n");
  CHECK(DeviceFunction(program, {Spelling::kPlain, Spelling::kPlain}) ==
        "__device__ float f(float x, float y) {\n  float t = x * y;\n  t = 1.0f / (1.0f + expf(-t));\n  return t;\n}\n");
  CHECK(absl::StrContains(DeviceFunction(program, {Spelling::kPlain, Spelling::kFast}), "  t = 1.0f / (1.0f + __expf(-t));\n"));
}

TEST_CASE("No shape that is checked besides the timed one is a multiple of a warp or a vector", "[rollout][generator]") {
  for (const std::string tail : {"t", "t @ w"}) {
    for (const Sizes& sizes : ProgramVariants(Parsed(absl::StrCat("t = relu(x)\nreturn ", tail, "\n")))) {
      for (const auto& [name, value] : sizes) CHECK(value % 4 != 0);
    }
  }
}

}  // namespace hone::rollout
