#pragma once

// Small candidates, each with one thing wrong that people and models get wrong, and what its verdict has to say: the claim
// behind "one line where a pattern is plain". verdict_table.cc judges them on a device; those that the emulation can tell
// apart, verdict_table_test.cc on the CPU.

#include <string>
#include <vector>

#include "base/task.h"
#include "base/verdict.h"
#include "base/verify_request.h"

namespace hone::device_tests {

struct Case {
  std::string name;
  std::string what;              // is wrong, for a person
  Format format = Format::kNative;
  Task task;
  std::string source;
  VerdictStatus expect = VerdictStatus::kOk;
  std::string says;              // in its message or its diagnosis; empty: anything
  std::string says_on_device;    // where a device says it in other words than the emulation
  bool on_cpu = true;            // the emulation runs it, and finds the same
  bool sanitize = false, profile = false;
};

std::vector<Case> AllCases();

/// What is asked of the verifier: hone-v1, with a short time for those that never end.
VerifyRequest RequestOf(const Case& one, Backend backend);

/// Whether the verdict is the one that the case promises.
bool Holds(const Case& one, const Verdict& verdict, Backend backend);

/// The message, and the mismatch's diagnosis where the message does not have it.
std::string SaidBy(const Verdict& verdict);

}  // namespace hone::device_tests
