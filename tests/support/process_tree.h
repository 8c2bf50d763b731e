#pragma once

#include <sys/types.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/subprocess.h"

namespace hone {

/// Every process below `root` whose command line has `words`.
inline std::vector<pid_t> DescendantsWith(pid_t root, const std::string& words) {
  SpawnOptions ps;
  ps.argv = {"ps", "-A", "-o", "pid=,ppid=,args="};
  const absl::StatusOr<RunResult> listed = Run(ps, absl::Seconds(10));
  std::vector<pid_t> family = {root}, found;
  for (size_t before = 0; listed.ok() && before != family.size();) {
    before = family.size();
    std::istringstream lines(listed->output);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      pid_t pid = 0, parent = 0;
      fields >> pid >> parent;
      const auto in_family = [&](pid_t p) { return std::find(family.begin(), family.end(), p) != family.end(); };
      if (!in_family(parent) || in_family(pid)) continue;
      family.push_back(pid);
      if (absl::StrContains(line, words)) found.push_back(pid);
    }
  }
  return found;
}

}  // namespace hone
