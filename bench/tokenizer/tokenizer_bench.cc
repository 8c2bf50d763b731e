// Megabytes of source code that a tokenizer encodes and decodes a second on one core.
//
//   tokenizer_bench [--record] [TOKENIZER ...]      tokenizer.json files or folders; default: the small ones of the tests
//
// The text is this repository's own sources. Small vocabularies merge more often than published ones, so that the figures
// of the default are on the low side.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/results.h"
#include "policy/tokenizer/tokenizer.h"

namespace hone {
namespace {

using Clock = std::chrono::steady_clock;
double Seconds(Clock::time_point since) { return std::chrono::duration<double>(Clock::now() - since).count(); }

std::vector<std::string> Sources() {
  std::vector<std::string> texts;
  for (const char* folder : {"base", "policy", "rollout", "trainer", "verifier", "rewards", "docs"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(HONE_SOURCE_DIR "/") + folder)) {
      const std::string kind = entry.path().extension().string();
      if (kind != ".cc" && kind != ".h" && kind != ".cu" && kind != ".md") continue;
      if (auto text = ReadFile(entry.path().string()); text.ok()) texts.push_back(std::move(*text));
    }
  }
  return texts;
}

int Run(std::vector<std::string> paths, bool record) {
  const std::vector<std::string> texts = Sources();
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  std::vector<BenchResult> results;
  for (const std::string& path : paths) {
    const auto tokenizer = policy::Tokenizer::Load(path);
    if (!tokenizer.ok()) {
      std::fprintf(stderr, "%s\n", std::string(tokenizer.status().message()).c_str());
      return 2;
    }
    double encode = 0, decode = 0;
    size_t tokens = 0;
    for (int round = 0; round < 5; ++round) {  // the best of five: the machine may have other work
      std::vector<std::vector<int32_t>> ids;
      Clock::time_point start = Clock::now();
      for (const std::string& text : texts) ids.push_back((*tokenizer)->Encode(text).value());
      encode = std::max(encode, static_cast<double>(bytes) / 1e6 / Seconds(start));
      start = Clock::now();
      tokens = 0;
      for (const std::vector<int32_t>& one : ids) tokens += one.size() + ((*tokenizer)->Decode(one).empty() ? 1 : 0);
      decode = std::max(decode, static_cast<double>(bytes) / 1e6 / Seconds(start));
    }
    const std::string name = std::filesystem::path(path).lexically_normal().stem().string();
    std::printf("{\"tokenizer\": \"%s\", \"mb\": %.2f, \"tokens\": %zu, \"encode_mb_s\": %.1f, \"decode_mb_s\": %.1f}\n", name.c_str(),
                static_cast<double>(bytes) / 1e6, tokens, encode, decode);
    for (const auto& [what, value] : {std::pair<const char*, double>{"encode", encode}, {"decode", decode}}) {
      results.push_back({absl::StrCat("tokenizer.", name, ".", what, "_mb_s"), value, "MB/s",
                         ThisCommand(HONE_SOURCE_DIR), MachineKind(), Today(), CurrentCommit(HONE_SOURCE_DIR)});
    }
  }
  if (!record) return 0;
  const absl::Status status = RecordResults(HONE_SOURCE_DIR "/bench/results.json", results);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  bool record = false;
  CLI::App app{"Speed of the tokenizer on one core"};
  app.add_option("tokenizers", paths, "tokenizer.json files or folders");
  app.add_flag("--record", record, "Put the figures into bench/results.json");
  CLI11_PARSE(app, argc, argv);
  const std::string data = HONE_SOURCE_DIR "/tests/policy/data/";
  if (paths.empty()) paths = {data + "qwen.json", data + "llama.json", data + "gemma.json", data + "gpt2.json"};
  return hone::Run(std::move(paths), record);
}
