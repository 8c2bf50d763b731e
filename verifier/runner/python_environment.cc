#include "verifier/runner/python_environment.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "base/subprocess.h"

namespace hone::verifier {
namespace {

constexpr char kProbe[] = R"(
import importlib.util, json, os, sys, sysconfig
paths = sysconfig.get_paths()
torch = importlib.util.find_spec("torch")
folder = os.path.dirname(torch.origin) if torch and torch.origin else ""
version = {}
if folder:
    exec(open(os.path.join(folder, "version.py")).read(), version)
folders = [sys.executable, sys.prefix, sys.base_prefix, paths["stdlib"], paths["platstdlib"]]
hop = sys.executable  # of a virtual environment: links to the interpreter that it stands for
while os.path.islink(hop):
    hop = os.path.normpath(os.path.join(os.path.dirname(hop), os.readlink(hop)))
    folders.append(hop)
folders += [path for path in sys.path if os.path.isdir(path)] + ([os.path.dirname(folder)] if folder else [])
includes = {paths["include"], paths["platinclude"], sysconfig.get_config_var("INCLUDEPY")}
print(json.dumps({
    "executable": sys.executable, "version": ".".join(map(str, sys.version_info[:3])),
    "folders": sorted({os.path.realpath(f) for f in folders} | {os.path.abspath(f) for f in folders}),
    "includes": sorted(i for i in includes if i and os.path.exists(os.path.join(i, "Python.h"))),
    "suffix": sysconfig.get_config_var("EXT_SUFFIX"), "torch": folder, "torch_version": version.get("__version__") or "",
    "cuda": version.get("cuda") or "", "triton": importlib.util.find_spec("triton") is not None}))
)";

/// Folders that lie in no other of them; "/usr" and what is above it never.
std::vector<std::string> Outermost(const std::vector<std::string>& folders) {
  std::vector<std::string> kept;
  for (const std::string& folder : folders) {  // sorted: an outer one comes first
    if (folder.empty() || folder == "/" || folder == "/usr") continue;
    bool inside = false;
    for (const std::string& outer : kept) inside = inside || folder.rfind(outer + "/", 0) == 0 || folder == outer;
    if (!inside) kept.push_back(folder);
  }
  return kept;
}

}  // namespace

absl::StatusOr<PythonEnvironment> PythonEnvironment::Probe(const std::string& python) {
  SpawnOptions spawn;
  spawn.argv = {python, "-I", "-c", kProbe};
  HONE_ASSIGN_OR_RETURN(const RunResult run, Run(spawn, absl::Seconds(30)));
  const auto json = nlohmann::json::parse(run.output, nullptr, /*allow_exceptions=*/false);
  if (run.exit_code != 0 || !json.is_object()) {
    return absl::NotFoundError(absl::StrCat(python, " does not work as an interpreter: ", run.output.substr(0, 200)));
  }
  PythonEnvironment found;
  found.executable = json.value("executable", "");
  found.version = json.value("version", "");
  found.folders = Outermost(json.value("folders", std::vector<std::string>()));
  found.includes = json.value("includes", std::vector<std::string>());
  found.extension_suffix = json.value("suffix", "");
  found.torch_folder = json.value("torch", "");
  found.torch_version = json.value("torch_version", "");
  found.torch_cuda = json.value("cuda", "");
  found.has_triton = json.value("triton", false);
  if (found.torch_folder.empty()) return absl::NotFoundError(absl::StrCat(python, " has no torch"));
  return found;
}

}  // namespace hone::verifier
