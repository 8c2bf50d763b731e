#include "cli/samples/recorded_samples.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <regex>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "base/task_suite.h"

namespace hone::cli {
namespace {

constexpr std::array<const char*, 5> kVerdicts = {"ok", "wrong", "compile", "oob_write", "crash"};

absl::StatusOr<std::vector<RecordedArgument>> ParseDeclaration(const std::string& declaration) {
  const size_t open = declaration.find("launch("), close = declaration.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) {
    return absl::InvalidArgumentError(absl::StrCat("signature is \"", declaration, "\", not a declaration of launch"));
  }
  const size_t first = open + sizeof("launch(") - 1;
  std::vector<RecordedArgument> arguments;
  for (absl::string_view part : absl::StrSplit(declaration.substr(first, close - first), ',')) {
    const absl::string_view text = absl::StripAsciiWhitespace(part);
    const size_t name = std::min(text.find_last_of(" *"), text.size() - 1) + 1;
    std::string type(text.substr(0, name));
    type.erase(std::remove_if(type.begin(), type.end(), absl::ascii_isspace), type.end());
    if (type.empty() || name == text.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("signature has the argument \"", std::string(text), "\", not a type and a name"));
    }
    arguments.push_back({type, std::string(text.substr(name))});
  }
  if (arguments.back().type != "cudaStream_t") {
    return absl::InvalidArgumentError("signature does not end with a cudaStream_t");
  }
  arguments.pop_back();
  return arguments;
}

/// The integers that `launch` takes, in its order.
std::vector<std::string> SizeNames(const std::vector<RecordedArgument>& arguments) {
  std::vector<std::string> names;
  for (const RecordedArgument& argument : arguments) {
    if (argument.type == "int") names.push_back(argument.name);
  }
  return names;
}

absl::StatusOr<Sizes> ParseSizes(const char* key, const std::vector<int64_t>& list, const std::vector<std::string>& names) {
  if (list.size() != names.size()) {
    return absl::InvalidArgumentError(absl::StrCat(key, " has a list of ", list.size(), " numbers; launch takes ", names.size(),
                                                   " (", absl::StrJoin(names, ", "), ")"));
  }
  Sizes sizes;
  for (size_t i = 0; i < names.size(); ++i) {
    if (list[i] < 0 || list[i] >= int64_t{1} << 31) {
      return absl::InvalidArgumentError(absl::StrCat(key, " has ", names[i], "=", list[i], ", not in [0, 2^31)"));
    }
    sizes[names[i]] = list[i];
  }
  return sizes;
}

absl::StatusOr<std::vector<Sizes>> ParseCheckSizes(const std::vector<std::vector<int64_t>>& lists,
                                                   const std::vector<RecordedArgument>& arguments) {
  const std::vector<std::string> names = SizeNames(arguments);
  std::vector<Sizes> result;
  for (const std::vector<int64_t>& list : lists) {
    HONE_ASSIGN_OR_RETURN(Sizes sizes, ParseSizes("check_sizes", list, names));
    result.push_back(std::move(sizes));
  }
  if (result.empty()) return absl::InvalidArgumentError("check_sizes is empty");
  return result;
}

absl::StatusOr<RecordedSample> ParseSample(absl::string_view line) {
  HONE_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(line));
  RecordedSample sample;
  std::vector<std::vector<int64_t>> check_sizes;
  std::vector<int64_t> timing_size;
  HONE_RETURN_IF_ERROR(ReadField(json, "task", sample.task));
  HONE_RETURN_IF_ERROR(ReadField(json, "signature", sample.declaration));
  HONE_RETURN_IF_ERROR(ReadField(json, "check_sizes", check_sizes));
  HONE_RETURN_IF_ERROR(ReadField(json, "source", sample.source));
  HONE_RETURN_IF_ERROR(ReadField(json, "verdict_h200", sample.verdict));
  HONE_RETURN_IF_ERROR(ReadOptionalField(json, "timing_size", timing_size));
  HONE_RETURN_IF_ERROR(ReadOptionalField(json, "candidate_ms", sample.candidate_ms));
  HONE_RETURN_IF_ERROR(ReadOptionalField(json, "torch_eager_ms", sample.eager_ms));
  if (std::find(kVerdicts.begin(), kVerdicts.end(), sample.verdict) == kVerdicts.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("verdict_h200 is \"", sample.verdict, "\", not one of ", absl::StrJoin(kVerdicts, ", ")));
  }
  HONE_ASSIGN_OR_RETURN(sample.arguments, ParseDeclaration(sample.declaration));
  HONE_ASSIGN_OR_RETURN(sample.check_sizes, ParseCheckSizes(check_sizes, sample.arguments));
  if (json.contains("timing_size")) {
    HONE_ASSIGN_OR_RETURN(sample.timing_size, ParseSizes("timing_size", timing_size, SizeNames(sample.arguments)));
  }
  return sample;
}

std::string DerivedType(const TensorArgument& tensor) {
  return absl::StrCat(tensor.role == TensorArgument::Role::kOutput ? "" : "const", CudaType(tensor.spec.dtype), "*");
}

/// The arguments of the derived `launch`, as a recorded one has them.
std::vector<RecordedArgument> DerivedArguments(const Signature& signature) {
  std::vector<RecordedArgument> arguments;
  for (const TensorArgument& tensor : signature.tensors) arguments.push_back({DerivedType(tensor), tensor.spec.name});
  for (const SizeArgument& size : signature.sizes) arguments.push_back({size.wide ? "int64_t" : "int", size.name});
  for (const ScalarArgument& scalar : signature.scalars) {
    arguments.push_back({scalar.integral ? "int64_t" : "float", scalar.name});
  }
  return arguments;
}

bool IsTensor(const RecordedArgument& argument) { return absl::EndsWith(argument.type, "*"); }

/// Tensors are told by their place, numbers by their name.
bool Same(const std::vector<RecordedArgument>& recorded, const std::vector<RecordedArgument>& derived) {
  return std::equal(recorded.begin(), recorded.end(), derived.begin(), derived.end(),
                    [](const RecordedArgument& a, const RecordedArgument& b) {
                      return a.type == b.type && (IsTensor(a) || a.name == b.name);
                    });
}

/// What the derived `launch` passes on for each recorded argument.
absl::StatusOr<std::vector<std::string>> PassedOn(const RecordedSample& sample,
                                                  const std::vector<RecordedArgument>& derived, size_t tensors) {
  std::vector<std::string> passed;
  size_t next_tensor = 0;
  for (const RecordedArgument& argument : sample.arguments) {
    if (IsTensor(argument)) {
      if (next_tensor == tensors || derived[next_tensor].type != argument.type) break;
      passed.push_back(derived[next_tensor++].name);
      continue;
    }
    const auto found = std::find_if(derived.begin() + tensors, derived.end(),
                                    [&](const RecordedArgument& other) { return other.name == argument.name; });
    if (found == derived.end() || (found->type == "float") != (argument.type == "float")) break;
    passed.push_back(absl::StrCat("static_cast<", argument.type, ">(", argument.name, ")"));
  }
  if (passed.size() < sample.arguments.size()) {
    const RecordedArgument& argument = sample.arguments[passed.size()];
    return absl::InvalidArgumentError(
        absl::StrCat("the reference of ", sample.task, " has no ", argument.type, " ", argument.name));
  }
  return passed;
}

/// The entry point of a recorded answer under another name. Not by a macro: candidates may not define words of the language.
std::string WithRenamedLaunch(const std::string& source) {
  return std::regex_replace(source, std::regex("\\blaunch\\b"), "recorded_launch");
}

}  // namespace

absl::StatusOr<std::vector<RecordedSample>> ParseRecordedSamples(absl::string_view text, const std::string& name) {
  std::vector<RecordedSample> samples;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    absl::StatusOr<RecordedSample> sample = ParseSample(line);
    if (!sample.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ":", number, ": ", sample.status().message()));
    }
    sample->line = number;
    samples.push_back(*std::move(sample));
  }
  if (samples.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": no sample in it"));
  return samples;
}

absl::StatusOr<Task> TaskOfSample(const RecordedSample& sample, const std::string& folder) {
  const bool plain =
      std::all_of(sample.task.begin(), sample.task.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
  const std::string path = absl::StrCat(folder, "/", sample.task, ".py");
  if (!plain || sample.task.empty() || !FileExists(path)) {
    return absl::NotFoundError(absl::StrCat("no reference for the task \"", sample.task, "\""));
  }
  HONE_ASSIGN_OR_RETURN(Task task, LoadTask(path));
  task.variants.assign(sample.check_sizes.begin(), sample.check_sizes.end() - 1);
  task.timing = sample.check_sizes.back();
  task.timing_gpu = sample.timing_size;
  return task;
}

absl::StatusOr<std::string> AdaptSource(const RecordedSample& sample, const Signature& signature) {
  const std::vector<RecordedArgument> derived = DerivedArguments(signature);
  if (Same(sample.arguments, derived)) return sample.source;
  HONE_ASSIGN_OR_RETURN(std::vector<std::string> passed, PassedOn(sample, derived, signature.tensors.size()));
  passed.push_back("stream");
  return absl::StrCat(WithRenamedLaunch(sample.declaration), ";\n", WithRenamedLaunch(sample.source), "\n",
                      signature.Declaration(), " { recorded_launch(", absl::StrJoin(passed, ", "), "); }\n");
}

Agreement Compare(absl::Span<const RecordedSample> samples, absl::Span<const Verdict> verdicts) {
  Agreement agreement;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Verdict& verdict = verdicts[i];
    ++agreement.n;
    ++agreement.classes[{samples[i].verdict, std::string(Name(verdict.status))}];
    const bool recorded_ok = samples[i].verdict == "ok";
    if (verdict.status == VerdictStatus::kInfra) {
      ++agreement.unjudged;
    } else if (verdict.ok()) {
      ++(recorded_ok ? agreement.both_ok : agreement.wrongly_accepted);
    } else {
      ++(recorded_ok ? agreement.wrongly_rejected : agreement.both_rejected);
    }
  }
  return agreement;
}

}  // namespace hone::cli
