#include "base/config.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace hone {
namespace {

enum class Speed { kSlow, kFast };

struct Term {
  std::string kind = "score";
  double weight = 1;
  int64_t window = 4;
  friend bool operator==(const Term&, const Term&) = default;
};

template <class Fields>
void Describe(Fields& f, Term& t) {
  f.Value("kind", t.kind, OneOf{{"score", "smooth"}}, "what is rewarded");
  f.Value("weight", t.weight, Range(-10, 10), "factor in the sum");
  if (t.kind == "smooth") f.Value("window", t.window, Range(1, 100), "steps averaged over");
}

struct Rl {
  int steps = 100;
  double learning_rate = 1e-4;
  bool shuffle = true;
  Speed speed = Speed::kFast;
  std::vector<Term> terms;
  friend bool operator==(const Rl&, const Rl&) = default;
};

template <class Fields>
void Describe(Fields& f, Rl& r) {
  f.Value("steps", r.steps, Range(1, 1'000'000), "optimiser steps");
  f.Value("learning_rate", r.learning_rate, Range(0.0, 1.0), "peak");
  f.Value("shuffle", r.shuffle, "order of the tasks");
  f.Value("speed", r.speed, Words<Speed>{{"slow", Speed::kSlow}, {"fast", Speed::kFast}}, "pace");
  f.List("terms", r.terms, "reward terms");
  if (r.steps == 13) f.Fail("steps", "13 is unlucky");
}

struct Config {
  std::string name = "run";
  int64_t seed = 1;
  double limit = std::numeric_limits<double>::infinity();
  std::vector<std::string> tasks;
  std::vector<std::string> marks;
  std::vector<int64_t> sizes;
  std::vector<double> rates;
  std::map<std::string, int64_t> constants;
  std::map<std::string, double> weights;
  std::vector<std::map<std::string, int64_t>> variants;
  Rl rl;
  friend bool operator==(const Config&, const Config&) = default;
};

template <class Fields>
void Describe(Fields& f, Config& c) {
  constexpr auto kAnyInt = Range(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  constexpr double kInf = std::numeric_limits<double>::infinity();
  f.Value("name", c.name, "of the run");
  f.Value("seed", c.seed, kAnyInt, "of all randomness");
  f.Value("limit", c.limit, Range(0.0, kInf), "no more than this");
  f.Value("tasks", c.tasks, "ids");
  f.Value("marks", c.marks, OneOf{{"red", "blue"}}, "colours");
  f.Value("sizes", c.sizes, kAnyInt, "shapes");
  f.Value("rates", c.rates, Range(-kInf, kInf), "numbers");
  f.Value("constants", c.constants, kAnyInt, "by name");
  f.Value("weights", c.weights, Range(-kInf, kInf), "by name");
  f.Value("variants", c.variants, kAnyInt, "hidden shapes");
  f.Section("rl", c.rl, "the second phase");
}

constexpr auto kYaml = "train.yaml";

std::string ErrorOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  absl::StatusOr<ConfigFile> file = ConfigFile::Parse(text, kYaml, overrides);
  absl::Status status = file.status();
  Config config;
  if (status.ok()) status = file->Read(config);
  if (status.ok()) return "";
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

Config Parsed(const std::string& text, const std::vector<std::string>& overrides = {}) {
  absl::StatusOr<ConfigFile> file = ConfigFile::Parse(text, kYaml, overrides);
  INFO(file.status());
  REQUIRE(file.ok());
  Config config;
  const absl::Status status = file->Read(config);
  INFO(status);
  REQUIRE(status.ok());
  return config;
}

TEST_CASE("Config reads every kind of field and keeps defaults for absent keys", "[base][config]") {
  const Config config = Parsed(R"(
name: "a b"
seed: -9223372036854775808
limit: 2.5e3
tasks: [softmax, 'two words']
marks:
  - blue
sizes: [1, +2, -3]
rates: [.5, 1e-3, -2, .inf, -.inf]
constants: {rows: 7, cols: 9}
weights: {correct: 0.5}
variants:
  - {rows: 1}
  - rows: 2
    cols: 3
rl:
  steps: 5   # a comment
  shuffle: false
  speed: slow
  terms:
    - kind: smooth
      window: 9
    - weight: -1.5
)");
  constexpr double kInf = std::numeric_limits<double>::infinity();
  CHECK(config.name == "a b");
  CHECK(config.seed == std::numeric_limits<int64_t>::min());
  CHECK(config.limit == 2500);
  CHECK(config.tasks == std::vector<std::string>{"softmax", "two words"});
  CHECK(config.marks == std::vector<std::string>{"blue"});
  CHECK(config.sizes == std::vector<int64_t>{1, 2, -3});
  CHECK(config.rates == std::vector<double>{0.5, 0.001, -2, kInf, -kInf});
  CHECK(config.constants == std::map<std::string, int64_t>{{"rows", 7}, {"cols", 9}});
  CHECK(config.weights == std::map<std::string, double>{{"correct", 0.5}});
  CHECK(config.variants == std::vector<std::map<std::string, int64_t>>{{{"rows", 1}}, {{"rows", 2}, {"cols", 3}}});
  CHECK(config.rl.steps == 5);
  CHECK(config.rl.learning_rate == 1e-4);
  CHECK_FALSE(config.rl.shuffle);
  CHECK(config.rl.speed == Speed::kSlow);
  REQUIRE(config.rl.terms.size() == 2);
  CHECK(config.rl.terms[0] == Term{"smooth", 1, 9});
  CHECK(config.rl.terms[1] == Term{"score", -1.5, 4});
}

TEST_CASE("An empty file, or a section without keys, means the defaults", "[base][config]") {
  CHECK(Parsed("") == Config{});
  CHECK(Parsed("# nothing\n") == Config{});
  CHECK(Parsed("rl:\n  # steps: 3\n") == Config{});
}

TEST_CASE("A number out of range is refused with file, line, key, value and range", "[base][config]") {
  CHECK(ErrorOf("name: x\n\nrl:\n  learning_rate: 3.0\n") ==
        "train.yaml:4: rl.learning_rate: value 3.0 is out of range [0, 1]");
  CHECK(ErrorOf("rl: {steps: 0}") == "train.yaml:1: rl.steps: value 0 is out of range [1, 1000000]");
  CHECK(ErrorOf("rl:\n  terms:\n  - weight: 1\n  - weight: 11") ==
        "train.yaml:4: rl.terms.1.weight: value 11 is out of range [-10, 10]");
}

TEST_CASE("NaN passes no range, not even an unbounded one", "[base][config]") {
  for (const char* nan : {".nan", "nan", "NaN", "-nan", "inf", "infinity"}) {
    CHECK(ErrorOf("rates: [1, " + std::string(nan) + "]") ==
          "train.yaml:1: rates.1: value " + std::string(nan) + " is not a number in [-.inf, .inf]");
  }
}

TEST_CASE("A wrong type is refused", "[base][config]") {
  CHECK(ErrorOf("rl:\n  steps: 3.0") == "train.yaml:2: rl.steps: value 3.0 is not a whole number in [1, 1000000]");
  CHECK(ErrorOf("rl:\n  steps: \"3\"") == "train.yaml:2: rl.steps: value \"3\" is not a whole number in [1, 1000000]");
  CHECK(ErrorOf("rl:\n  steps: 99999999999999999999").find("is not a whole number") != std::string::npos);
  CHECK(ErrorOf("rl:\n  steps: [3]") ==
        "train.yaml:2: rl.steps: expected one value, not a list; allowed: a whole number in [1, 1000000]");
  CHECK(ErrorOf("rl:\n  steps:") == "train.yaml:2: rl.steps: has no value; allowed: a whole number in [1, 1000000]");
  CHECK(ErrorOf("rl:\n  shuffle: yes") == "train.yaml:2: rl.shuffle: value yes is not true or false");
  CHECK(ErrorOf("rl:\n  speed: quick") == "train.yaml:2: rl.speed: value quick is not one of slow, fast");
  CHECK(ErrorOf("rl: 3") == "train.yaml:1: rl: expected a section with keys of its own");
  CHECK(ErrorOf("tasks: softmax") == "train.yaml:1: tasks: expected a list");
  CHECK(ErrorOf("marks: [red, green]") == "train.yaml:1: marks.1: value green is not one of red, blue");
  CHECK(ErrorOf("constants: {rows: many}").find("constants.rows: value many is not a whole number") !=
        std::string::npos);
  CHECK(ErrorOf("variants: [{rows: 1}, {rows: x}]").find("variants.1.rows: value x is not a whole number") !=
        std::string::npos);
  CHECK(ErrorOf("rl:\n  terms: {kind: score}") == "train.yaml:2: rl.terms: expected a list of sections");
  CHECK(ErrorOf("rl:\n  terms:\n    - 3") == "train.yaml:3: rl.terms.0: expected a section with keys of its own");
  CHECK(ErrorOf("- 1\n- 2") == "train.yaml:1: expected keys and values, such as 'steps: 10'");
}

TEST_CASE("An unknown key is refused with the nearest known one", "[base][config]") {
  CHECK(ErrorOf("rl:\n  shuffle: true\n  speed: slow\n  stpes: 4\n") ==
        "train.yaml:4: unknown key 'rl.stpes'; did you mean 'steps'?");
  CHECK(ErrorOf("rl:\n  lerning_rat: 0.1") ==
        "train.yaml:2: unknown key 'rl.lerning_rat'; did you mean 'learning_rate'?");
  CHECK(ErrorOf("rl:\n  xyzzy: 4") ==
        "train.yaml:2: unknown key 'rl.xyzzy'; known here: steps, learning_rate, shuffle, speed, terms");
}

TEST_CASE("A key that belongs to another choice is unknown", "[base][config]") {
  CHECK(ErrorOf("rl:\n  terms:\n    - kind: smooth\n      window: 3") == "");
  CHECK(ErrorOf("rl:\n  terms:\n    - kind: score\n      window: 3") ==
        "train.yaml:4: unknown key 'rl.terms.0.window'; known here: kind, weight");
}

TEST_CASE("A duplicate key is refused at any depth with both lines", "[base][config]") {
  CHECK(ErrorOf("name: a\nname: b") == "train.yaml:2: duplicate key 'name', first given at train.yaml:1");
  CHECK(ErrorOf("rl:\n  steps: 1\n  speed: slow\n  steps: 1") ==
        "train.yaml:4: duplicate key 'rl.steps', first given at train.yaml:2");
  CHECK(ErrorOf("rl:\n  terms:\n    - weight: 1\n    - {weight: 1, weight: 2}") ==
        "train.yaml:4: duplicate key 'rl.terms.1.weight', first given at train.yaml:4");
}

TEST_CASE("Aliases, tags, second documents and broken YAML are refused with a line", "[base][config]") {
  CHECK(ErrorOf("name: &a x\ntasks: [*a]") == "train.yaml:2: aliases (*name) are not allowed");
  CHECK(ErrorOf("name: !!str x").find("train.yaml:1: tags") == 0);
  CHECK(ErrorOf("name: x\n---\nname: y").find("a second YAML document") != std::string::npos);
  CHECK(ErrorOf("name: x\nrl: {steps: 1").find("train.yaml:") == 0);
  CHECK(ErrorOf("name: x\n\ttasks: 3").find("not YAML") != std::string::npos);
  CHECK(ErrorOf("{[a]: 1}") == "train.yaml:1: a key must be one word");
  CHECK(ErrorOf(std::string(100, '[') + std::string(100, ']')).find("nested deeper") != std::string::npos);
  CHECK(ErrorOf(std::string(100'000, '[')) != "");
}

TEST_CASE("Overrides win over the file, make missing sections, and name themselves in errors", "[base][config]") {
  const std::string text = "rl:\n  steps: 5\n  terms:\n    - weight: 1\n";
  CHECK(Parsed(text, {"rl.steps=7"}).rl.steps == 7);
  CHECK(Parsed("", {"rl.steps=7", "rl.speed=slow"}).rl.speed == Speed::kSlow);
  CHECK(Parsed(text, {"rl.terms.0.weight=2"}).rl.terms[0].weight == 2);
  CHECK(Parsed(text, {"tasks=[a, b]"}).tasks == std::vector<std::string>{"a", "b"});
  CHECK(Parsed(text, {"name=a=b"}).name == "a=b");
  CHECK(Parsed(text, {"name=\"\""}).name == "");
  CHECK(Parsed(text, {"rl.terms=[]"}).rl.terms.empty());
  CHECK(Parsed(text, {"rl={steps: 9}"}).rl.terms.empty());

  CHECK(ErrorOf(text, {"rl.steps=many"}) ==
        "--set rl.steps=many: rl.steps: value many is not a whole number in [1, 1000000]");
  CHECK(ErrorOf(text, {"rl.step=3"}) == "--set rl.step=3: unknown key 'rl.step'; did you mean 'steps'?");
  CHECK(ErrorOf(text, {"rl.steps"}) == "--set rl.steps: expected key=value, such as sft.steps=10");
  CHECK(ErrorOf(text, {"=3"}) == "--set =3: expected key=value, such as sft.steps=10");
  CHECK(ErrorOf(text, {"rl..steps=3"}) == "--set rl..steps=3: an empty key");
  CHECK(ErrorOf(text, {"rl.steps.x=3"}) == "--set rl.steps.x=3: 'x' is below a single value (train.yaml:2)");
  CHECK(ErrorOf(text, {"rl.terms.1.weight=3"}) ==
        "--set rl.terms.1.weight=3: '1' is not an index of a list with 1 items");
  CHECK(ErrorOf(text, {"name=[a"}).find("--set name=[a") == 0);
  CHECK(ErrorOf(text, {"name="}) == "--set name=: name: has no value");
}

TEST_CASE("A failure that Describe itself finds carries file, line and path", "[base][config]") {
  CHECK(ErrorOf("name: x\nrl:\n  steps: 13") == "train.yaml:3: rl.steps: 13 is unlucky");
}

TEST_CASE("Only the first error is kept", "[base][config]") {
  CHECK(ErrorOf("seed: x\nrl:\n  steps: y").find("seed") != std::string::npos);
}

TEST_CASE("The resolved configuration reads back to the same values", "[base][config]") {
  std::mt19937_64 random(7);
  const std::vector<std::string> texts = {"plain", "true",          "12",      "",       "a: b",
                                          "# no",  "two\nlines\t.", "\"q\"\\", "- dash", "caf\xc3\xa9",
                                          "~",     "null",          "@at",     " pad ",  "it's"};
  const auto text = [&] { return texts[random() % texts.size()]; };
  const auto number = [&] {
    const double mantissa = std::uniform_real_distribution<double>(-1, 1)(random);
    return std::ldexp(mantissa, static_cast<int>(random() % 600) - 300);
  };
  for (int round = 0; round < 200; ++round) {
    Config config;
    config.name = text();
    config.seed = static_cast<int64_t>(random());
    config.limit = std::abs(number());
    for (uint64_t n = random() % 4; n > 0; --n) {
      config.tasks.push_back(text());
      config.marks.push_back(n % 2 ? "red" : "blue");
      config.sizes.push_back(static_cast<int64_t>(random()));
      config.rates.push_back(number());
      config.constants["c" + text()] = static_cast<int64_t>(random());
      config.weights[text() + "w"] = number();
      config.variants.push_back(config.constants);
      config.rl.terms.push_back(n % 2 ? Term{"smooth", 0.1, 7} : Term{"score", -0.3, 4});
    }
    config.rl.steps = 20 + static_cast<int>(random() % 1000);
    config.rl.learning_rate = std::uniform_real_distribution<double>(0, 1)(random);
    config.rl.shuffle = random() % 2;
    const std::string yaml = ToYaml(config);
    INFO("seed 7, round " << round << "\n" << yaml);
    CHECK(Parsed(yaml) == config);
  }
}

TEST_CASE("The resolved configuration documents keys and ranges", "[base][config]") {
  CHECK(ToYaml(Rl{}) ==
        "steps: 100  # optimiser steps [1, 1000000]\n"
        "learning_rate: 1e-04  # peak [0, 1]\n"
        "shuffle: true  # order of the tasks\n"
        "speed: fast  # pace (slow | fast)\n"
        "terms: []  # reward terms\n");
}

TEST_CASE("Random bytes never crash the reader", "[base][config][fuzz]") {
  std::mt19937_64 random(11);
  const std::string seed_text = ToYaml(Config{}) + "rl: {terms: [{kind: smooth}]}\n";
  const std::string alphabet = "[]{}:,-#&*!|>'\"%@` \n\tab1.~?";
  for (int round = 0; round < 3000; ++round) {
    std::string text = seed_text;
    for (uint64_t edits = 1 + random() % 8; edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 3 == 0)
        text.erase(at, random() % 10);
      else if (random() % 2 == 0)
        text[at] = static_cast<char>(random());
      else
        text.insert(at, 1, alphabet[random() % alphabet.size()]);
      if (text.empty()) text = "a";
    }
    absl::StatusOr<ConfigFile> file = ConfigFile::Parse(text, kYaml);
    Config config;
    if (file.ok()) (void)file->Read(config);
  }
  SUCCEED();
}

TEST_CASE("A missing file is kNotFound", "[base][config]") {
  CHECK(ConfigFile::Load("/nonexistent/x.yaml").status().code() == absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hone
