// Judges the `.mu` suite and its CUDA originals, and counts where their verdicts differ. Exit code 3: somewhere.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/results.h"
#include "base/status_macros.h"
#include "musa/suite.h"

namespace hone::musa {
namespace {

struct Arguments {
  SuiteOptions options;
  std::string examples = "examples";
  std::string size = "all";
  std::string record;
  std::string commit;
};

absl::Status Record(const Arguments& arguments, int programs, int disagreements, const std::string& device) {
  const bool on_gpu = arguments.options.device != "cpu";
  BenchResult result;
  result.unit = absl::StrCat("of ", programs);
  result.command = "bench/device/musa.sh";
  result.machine = on_gpu ? device : MachineKind();
  result.date = Today();
  result.commit = arguments.commit.empty() ? CurrentCommit(".") : arguments.commit;
  result.id = on_gpu ? "musa.suite_disagreements_h200" : "musa.suite_disagreements_cpu";
  result.value = disagreements;
  return RecordResults(arguments.record, {result});
}

absl::StatusOr<int> Run(const Arguments& arguments) {
  HONE_ASSIGN_OR_RETURN(const std::vector<SuiteProgram> programs,
                        MusaSuite(arguments.size == "all" ? SuiteSize::kAll : SuiteSize::kOne, arguments.examples));
  const absl::Time begin = absl::Now();
  std::string device, toolchain;
  HONE_ASSIGN_OR_RETURN(const std::vector<SuitePair> pairs,
                        JudgeSuite(programs, arguments.options, [&](size_t index, bool musa, const Verdict& verdict) {
                          if (!verdict.device.empty()) device = verdict.device;
                          if (musa) toolchain = verdict.toolchain;
                          std::printf("%6.1f s  %-4s %-40s %s  %s\n", absl::ToDoubleSeconds(absl::Now() - begin),
                                      musa ? "mu" : "cu", programs[index].name.c_str(),
                                      std::string(Name(verdict.status)).c_str(), verdict.message.substr(0, 90).c_str());
                          std::fflush(stdout);
                        }));
  int disagreements = 0, right = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    right += pairs[i].musa.ok() ? 1 : 0;
    if (pairs[i].agree()) continue;
    ++disagreements;
    std::printf("DIFFER %s: %s (%s) and %s (%s)\n", programs[i].name.c_str(),
                std::string(Name(pairs[i].cuda.status)).c_str(), pairs[i].cuda.message.c_str(),
                std::string(Name(pairs[i].musa.status)).c_str(), pairs[i].musa.message.c_str());
  }
  std::printf("%zu programs on %s through %s: %d right, %zu wrong, %d verdicts differ\n", programs.size(),
              device.c_str(), toolchain.c_str(), right, programs.size() - static_cast<size_t>(right), disagreements);
  if (!arguments.record.empty()) {
    HONE_RETURN_IF_ERROR(Record(arguments, static_cast<int>(programs.size()), disagreements, device));
  }
  return disagreements == 0 ? 0 : 3;
}

int Main(int argc, char** argv) {
  CLI::App app{
      "Judges the .mu suite and its CUDA originals.\n"
      "Example: musa-suite --device cpu --toolchain compat/cpu --record bench/results.json"};
  Arguments arguments;
  app.add_option("--device", arguments.options.device, "of the originals")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--toolchain", arguments.options.toolchain, "of the musified ones")
      ->check(CLI::IsMember({"compat/cpu", "compat/cuda"}));
  app.add_option("--examples", arguments.examples, "folder of the examples");
  app.add_option("--size", arguments.size, "one kernel for each task, or all")->check(CLI::IsMember({"one", "all"}));
  app.add_option("--timed", arguments.options.timed, "so many of the programs are timed too");
  app.add_option("--python", arguments.options.python, "interpreter with torch");
  app.add_option("--log", arguments.options.log, "of the verifier");
  app.add_option("--record", arguments.record, "file of results to put the figure into");
  app.add_option("--commit", arguments.commit, "that the figure is recorded for");
  CLI11_PARSE(app, argc, argv);
  const absl::StatusOr<int> code = Run(arguments);
  if (code.ok()) return *code;
  std::fprintf(stderr, "musa-suite: %s\n", std::string(code.status().message()).c_str());
  return 1;
}

}  // namespace
}  // namespace hone::musa

int main(int argc, char** argv) { return hone::musa::Main(argc, argv); }
