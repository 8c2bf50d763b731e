#pragma once

// Who may know whom: reads the #include lines of source files and finds what the design does not allow.
//
//   arrows     base <- proto, rewards, verifier, policy <- rollout <- trainer <- cli, as the table in arrows.cc has it
//   torch      headers only in policy/, rollout/engine/, trainer/; Catch2 beside them only through catch_torch.h
//   wire       .pb.h and gRPC only in proto/, verifier/service/ and the sources of verifier/client/ and
//              trainer/coordinator/, also not by way of another header; never in one unit with torch
//   NCCL       only in trainer/comm/;  yaml-cpp only behind base/config.h;  Python.h nowhere
//   processes  fork, popen, system only in base/subprocess.cc and in the programs that are made of forks, verifier/runner/
//              and verifier/build/compile_server_main.cc (gRPC must not be forked)
//   clock      the time of day only where it is told or recorded, and nobody waits by it: deadlines are SteadyTime's
//   macros     no bare CHECK or LOG outside of tests: they are torch's and Catch2's
//
// Headers for candidates (verifier/device/*/include/) are no part of our programs and are not read.

#include <map>
#include <string>
#include <vector>

namespace hone::testing {

/// Text of each file by its path from the root, such as "base/file.h".
using SourceTree = std::map<std::string, std::string>;

/// One line for each violation, sorted: "rewards/x.cc:3: includes policy/y.h: rewards may use base, rewards".
std::vector<std::string> ForbiddenArrows(const SourceTree& tree);

}  // namespace hone::testing
