#pragma once

// Families of tasks with kernels that solve them, from text files: what a policy is first taught where tasks are PyTorch
// modules of any shape (the quickstart's language, program.h, has two dimensions only).
//
// A family's file has one task and at least one kernel, each after a line that says so:
//
//   === task
//   # ---
//   # family: pooling
//   # variants: [batch=1 channels=3 length=17]
//   # ---
//   import torch
//   ...
//           t = F.avg_pool1d({{name:x~signal~data}}, self.window)
//   {{lines}}
//           return t
//   === kernel flat 1
//   {{function}}
//   __global__ void k(const float* {{name:x~signal~data}}, ...) { ... out[i] = {{f:sum / window}}; }
//
// The number after a kernel's style is its weight; several kernels are drawn by weight. In braces stand
//
//   {{key:a~b~c}}   one of the alternatives; every place with the key takes the same one, in the task and in the kernels
//   {{lines}}       none to two element-wise lines on `t`, in Python; a line of its own, with the indentation of `forward`
//   {{function}}    the same lines as a device function `f`; a line of its own; nothing where no line was drawn
//   {{f:expr}}      f(expr), or expr where no line was drawn
//
// A kernel may call __device__ functions of its own, but not name one f. Braces may be nested: {{f:a {{op:+~-}} b}}.
//
// Before the first kernel there may be other names of sizes: one of those on a line, the first included, is drawn and stands in
// task and kernels wherever the first one does. Entry points are named after sizes; a policy that knows one spelling
// writes that one everywhere.
//
//   === names
//   batch: batch_size n
//
// Everything drawn is a function of the generator's state.

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/task.h"
#include "rollout/sampler/random.h"

namespace hone::rollout {

struct FamilyExample {
  Task task;           // id: the family's name and a number that its text decides
  std::string source;  // CUDA C++; nobody has verified it
  std::string family, style;
};

class Family {
 public:
  /// `name`: of the file, stands in errors. kInvalidArgument, one line: a section missing or unknown, braces that do not
  /// match, places with one key and different numbers of alternatives, another name that occurs already.
  static absl::StatusOr<Family> Parse(absl::string_view text, const std::string& name);

  /// kInvalidArgument: the task that was drawn does not parse.
  absl::StatusOr<FamilyExample> Draw(SplitMix& random) const;

  const std::string& name() const { return name_; }

 private:
  struct Kernel {
    std::string style;
    double weight = 1;
    std::string source;
  };

  std::string name_;
  std::string task_;
  std::vector<Kernel> kernels_;
  std::map<std::string, int> alternatives_;  // how many, by key
  std::vector<std::vector<std::string>> names_;  // of one size each; the first stands in the file
  bool has_lines_ = false;
};

/// Every *.txt of a folder, by name. kNotFound: none. Errors of Parse.
absl::StatusOr<std::vector<Family>> LoadFamilies(const std::string& folder);

}  // namespace hone::rollout
