// `hone musify`: CUDA sources and tasks to MUSA, and back.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "verifier/musify/musify.h"

namespace hone::cli {
namespace {

using verifier::Direction;
using verifier::Language;
using verifier::Musified;

constexpr int64_t kMaxBytes = 32 << 20;

struct MusifyOptions {
  std::vector<std::string> files;
  std::string to = "musa";
  bool in_place = false;
  bool check = false;
  bool quiet = false;

  Direction direction() const { return to == "musa" ? Direction::kToMusa : Direction::kToCuda; }
};

bool IsPython(const std::string& path) { return absl::EndsWith(path, ".py"); }

bool IsSource(const std::string& path) {
  for (const char* ending : {".cu", ".cuh", ".mu", ".muh", ".py", ".h", ".hpp", ".cc", ".cpp"}) {
    if (absl::EndsWith(path, ending)) return true;
  }
  return false;
}

/// The files that are meant: those named, and the sources below the folders that are.
absl::StatusOr<std::vector<std::string>> Expand(const std::vector<std::string>& named) {
  std::vector<std::string> files;
  for (const std::string& path : named) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      if (!IsSource(path)) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": neither C++ (.cu, .cuh, .mu, .muh, .h, .hpp, .cc, .cpp) nor Python (.py)"));
      }
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path, error)) {
      if (entry.is_regular_file() && IsSource(entry.path().string())) files.push_back(entry.path().string());
    }
    if (error) return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Replaces the file, under its new name where it gets one.
absl::Status Replace(const std::string& path, const Musified& musified, Direction direction) {
  const std::string name = verifier::MusifiedName(path, direction);
  if (name != path && FileExists(name)) {
    return absl::AlreadyExistsError(absl::StrCat(name, " is there already: ", path, " was left as it is"));
  }
  if (musified.replaced > 0 || name != path) HONE_RETURN_IF_ERROR(WriteFileAtomically(name, musified.text));
  if (name != path) std::filesystem::remove(path);
  return absl::OkStatus();
}

absl::StatusOr<int> Run(const MusifyOptions& options) {
  HONE_ASSIGN_OR_RETURN(const std::vector<std::string> files, Expand(options.files));
  if (files.size() > 1 && !options.in_place && !options.check) {
    return absl::InvalidArgumentError(absl::StrCat(files.size(), " files: choose --in-place or --check"));
  }
  int replaced = 0, blocking = 0, notes = 0;
  for (const std::string& file : files) {
    HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(file, kMaxBytes));
    const Musified musified =
        verifier::Musify(text, IsPython(file) ? Language::kPython : Language::kCxx, options.direction());
    replaced += musified.replaced;
    for (const verifier::MusifyFinding& finding : musified.findings) {
      (finding.blocks ? blocking : notes) += 1;
      if (options.quiet && !finding.blocks) continue;
      absl::FPrintF(stderr, "%s:%d: %s: %s%s\n", file, finding.line, finding.what,
                    finding.blocks ? "" : "note: ", finding.why);
    }
    if (options.check) continue;
    if (options.in_place) {
      HONE_RETURN_IF_ERROR(Replace(file, musified, options.direction()));
    } else {
      std::fwrite(musified.text.data(), 1, musified.text.size(), stdout);
    }
  }
  absl::FPrintF(stderr, "%d files, %d names replaced, %d without a counterpart, %d to look at\n", files.size(),
                replaced, blocking, notes);
  return blocking > 0 ? kAskedForFailed : kDone;
}

}  // namespace

void AddMusify(CLI::App& app, Action& action) {
  auto options = std::make_shared<MusifyOptions>();
  CLI::App* musify = app.add_subcommand("musify", "Converts CUDA sources and tasks to MUSA, and back");
  musify->footer(
      "Names in code, headers and (with --in-place) file names change; comments and strings do not, except strings of\n"
      "Python that name a device or hold C++. What has no counterpart is told on standard error.\n"
      "Exit code: 0 all of it has a counterpart, 3 something has not, 2 unusable input, 1 our own failure.\n"
      "Examples:\n  hone musify softmax.cu > softmax.mu\n  hone musify --check kernels/\n"
      "  hone musify --in-place --to cuda kernels/");
  musify->add_option("files", options->files, "Sources, or folders of them; one file goes to standard output")
      ->required();
  musify->add_option("--to", options->to, "musa or cuda")->check(CLI::IsMember({"musa", "cuda"}));
  musify->add_flag("--in-place", options->in_place, "Replace the files; .cu becomes .mu, .cuh becomes .muh");
  musify->add_flag("--check", options->check, "Write nothing")->excludes("--in-place");
  musify->add_flag("--quiet", options->quiet, "Tell only what has no counterpart");
  musify->callback([options, &action] {
    action = [options]() -> int {
      const absl::StatusOr<int> code = Run(*options);
      return code.ok() ? *code : Report(code.status());
    };
  });
}

}  // namespace hone::cli
