// `hone convert`: a GGUF file or an HF folder becomes an HF folder.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "base/tensor.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "policy/convert/convert.h"

namespace hone::cli {
namespace {

struct ConvertArguments {
  std::string in;
  std::string out;
  std::string dtype = "bf16";
  double shard_gb = 5.0;
};

DType DTypeOf(const std::string& word) {
  return word == "f32" ? DType::kFloat32 : word == "f16" ? DType::kFloat16 : DType::kBFloat16;
}

absl::Status Convert(const ConvertArguments& arguments) {
  HONE_ASSIGN_OR_RETURN(const policy::ModelSource source, policy::OpenModel(arguments.in));
  if (!source.note.empty()) absl::FPrintF(stderr, "%s\n", source.note);
  const policy::ConvertOptions options{DTypeOf(arguments.dtype), static_cast<int64_t>(arguments.shard_gb * 1e9)};
  int64_t total_bytes = 0;
  {
    Progress progress("convert", policy::WeightBytes(source, options.dtype));
    HONE_RETURN_IF_ERROR(policy::WriteModel(source, arguments.out, options,
                                            [&](int64_t done_bytes, int64_t all_bytes, absl::string_view tensor) {
                                              total_bytes = all_bytes;
                                              progress.Update(done_bytes, tensor);
                                            }));
    progress.Finish(absl::StrFormat("%d tensors, %.2f GB", source.tensors.size(), static_cast<double>(total_bytes) / 1e9));
  }
  absl::PrintF("%s\n", arguments.out);
  return absl::OkStatus();
}

}  // namespace

void AddConvert(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ConvertArguments>();
  CLI::App* convert = app.add_subcommand("convert", "Turns a GGUF file or an HF folder into an HF folder");
  convert->footer("Example:\n  hone convert qwen2.5-coder-1.5b-instruct-q4_k_m.gguf models/qwen2.5-coder-1.5b");
  convert->add_option("in", arguments->in, "A .gguf file, or a folder with config.json and safetensors")->required();
  convert->add_option("out", arguments->out, "The folder to make; must not exist")->required();
  convert->add_option("--dtype", arguments->dtype, "Of the weights; default bf16")->check(CLI::IsMember({"bf16", "f16", "f32"}));
  convert->add_option("--shard-gb", arguments->shard_gb, "Largest weight file; default 5")->check(CLI::Range(0.001, 1e6));
  convert->callback([arguments, &action] { action = [arguments] { return Report(Convert(*arguments)); }; });
}

}  // namespace hone::cli
