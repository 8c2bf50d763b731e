#pragma once

// The commands of `hone`. Each lives in its own file, adds one subcommand and runs when it was chosen.

#include <functional>

namespace CLI {
class App;
}

namespace hone::cli {

/// What every command returns to the shell.
enum ExitCode {
  kDone = 0,
  kOurFault = 1,      // hone or the machine failed
  kUsersInput = 2,    // an argument, a config, a task or a file is unusable
  kAskedForFailed = 3 // finished, but the thing asked about failed (a wrong kernel under `hone verify`)
};

/// What the chosen subcommand will do once the command line is parsed.
using Action = std::function<int()>;

// Each adds its subcommand to `app` and sets `action` in its callback.
void AddConvert(CLI::App& app, Action& action);
void AddDemonstrations(CLI::App& app, Action& action);
void AddDoctor(CLI::App& app, Action& action);
void AddGenerate(CLI::App& app, Action& action);    // in builds with torch
void AddServe(CLI::App& app, Action& action);       // in builds with torch
void AddEval(CLI::App& app, Action& action);
void AddKernelBench(CLI::App& eval, Action& action);  // below `eval`
void AddEvalPolicy(CLI::App& eval, Action& action);   // below `eval`, in builds with torch
void AddDecontaminate(CLI::App& tasks, Action& action);  // below `tasks`
void AddLab(CLI::App& app, Action& action);
void AddMusify(CLI::App& app, Action& action);
void AddQuickstart(CLI::App& app, Action& action);  // in builds with torch
void AddReport(CLI::App& app, Action& action);   // in builds with torch
void AddRollout(CLI::App& app, Action& action);  // in builds with torch
void AddRft(CLI::App& app, Action& action);  // in builds with torch
void AddSft(CLI::App& app, Action& action);  // in builds with torch
void AddTasks(CLI::App& app, Action& action);
void AddTrain(CLI::App& app, Action& action);  // in builds with torch
void AddVerifier(CLI::App& app, Action& action);
void AddVerify(CLI::App& app, Action& action);
void AddWorker(CLI::App& app, Action& action);  // in builds with torch

}  // namespace hone::cli
