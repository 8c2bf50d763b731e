#include "verifier/service/kernelgym.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/protocol.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace hone::verifier {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxCodeBytes = 1 << 20;  // KernelGYM stops at 100 KB

absl::Status Wrong(absl::string_view field, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", why));
}

absl::StatusOr<std::string> Text(const Json& request, const char* field, const std::string& fallback) {
  const auto found = request.find(field);
  if (found == request.end() || found->is_null()) return fallback;
  if (!found->is_string()) return Wrong(field, absl::StrCat("a ", found->type_name(), ", not a string"));
  return found->get<std::string>();
}

absl::StatusOr<int64_t> Whole(const Json& request, const char* field, int64_t fallback, int64_t least, int64_t most) {
  const auto found = request.find(field);
  if (found == request.end() || found->is_null()) return fallback;
  if (!found->is_number_integer()) return Wrong(field, absl::StrCat("a ", found->type_name(), ", not a whole number"));
  const int64_t value = found->get<int64_t>();
  if (value < least || value > most) return Wrong(field, absl::StrCat(value, "; allowed are ", least, " to ", most));
  return value;
}

absl::StatusOr<bool> Flag(const Json& request, const char* field, bool fallback) {
  const auto found = request.find(field);
  if (found == request.end() || found->is_null()) return fallback;
  if (!found->is_boolean()) return Wrong(field, absl::StrCat("a ", found->type_name(), ", not true or false"));
  return found->get<bool>();
}

absl::StatusOr<std::string> Code(const Json& request, const char* field) {
  HONE_ASSIGN_OR_RETURN(const std::string code, Text(request, field, ""));
  if (code.size() < 10) return Wrong(field, absl::StrCat(code.size(), " characters; at least 10 are needed"));
  if (code.size() > kMaxCodeBytes) return Wrong(field, absl::StrCat(code.size(), " bytes; at most ", kMaxCodeBytes, " are allowed"));
  return code;
}

bool IsIdentifier(const std::string& name) {
  const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !name.empty() && name.size() <= 100 && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), part);
}

absl::Status ReadBackend(const Json& request, Candidate* candidate) {
  HONE_ASSIGN_OR_RETURN(const std::string backend, Text(request, "backend", "triton"));
  std::string format = backend == "triton" ? "triton" : backend == "cpu" ? "native" : "torch";
  HONE_ASSIGN_OR_RETURN(format, Text(request, "format", format));
  const std::optional<Format> known_format = ParseFormat(format);
  if (!known_format) return Wrong("format", absl::StrCat("'", format, "'; there are native, torch, triton"));
  const std::optional<Backend> known_backend = backend == "triton" ? Backend::kCuda : ParseBackend(backend);
  if (!known_backend) return Wrong("backend", absl::StrCat("'", backend, "'; there are triton, cuda, musa, cpu"));
  candidate->format = *known_format;
  candidate->backend = *known_backend;
  return absl::OkStatus();
}

absl::Status ReadProtocol(const Json& request, Protocol* protocol) {
  HONE_ASSIGN_OR_RETURN(*protocol, ProtocolById("kernelbench-v0.1"));
  protocol->id = "kernelgym";
  HONE_ASSIGN_OR_RETURN(const int64_t checks, Whole(request, "num_correct_trials", 5, 1, 20));
  HONE_ASSIGN_OR_RETURN(const int64_t rounds, Whole(request, "num_perf_trials", 100, 1, 1000));
  HONE_RETURN_IF_ERROR(Whole(request, "num_warmup", 3, 0, 100).status());  // warming up is the lane's business
  HONE_ASSIGN_OR_RETURN(const int64_t timeout_s, Whole(request, "timeout", 300, 10, 3600));
  HONE_ASSIGN_OR_RETURN(bool timed, Flag(request, "measure_performance", true));
  HONE_ASSIGN_OR_RETURN(timed, Flag(request, "run_performance", timed));
  HONE_ASSIGN_OR_RETURN(const std::string baseline, Text(request, "reference_backend", "pytorch"));
  protocol->check_sets_per_shape = static_cast<int>(checks);
  protocol->max_rounds = static_cast<int>(std::max<int64_t>(rounds, 3));
  protocol->min_rounds = std::min(protocol->min_rounds, protocol->max_rounds);
  protocol->run_timeout_ms = timeout_s * 1000;
  protocol->build_timeout_ms = timeout_s * 1000;
  protocol->baselines.clear();
  if (timed) protocol->baselines = {absl::StrContains(baseline, "compile") ? Baseline::kCompile : Baseline::kEager};
  return absl::OkStatus();
}

/// How KernelGYM names what happened.
struct Naming {
  const char* status;
  bool compiled;
  const char* error_code;  // null: none
};

Naming NamingOf(VerdictStatus status) {
  switch (status) {
    case VerdictStatus::kOk: return {"completed", true, nullptr};
    case VerdictStatus::kParse: return {"failed", false, "VALIDATION_ERROR"};
    case VerdictStatus::kForbidden: return {"failed", false, "VALIDATION_ERROR"};
    case VerdictStatus::kCompile: return {"failed", false, "COMPILATION_ERROR"};
    case VerdictStatus::kCompileTimeout: return {"timeout", false, "TIMEOUT_ERROR"};
    case VerdictStatus::kRuntime: return {"completed", true, "RUNTIME_ERROR"};
    case VerdictStatus::kTimeout: return {"timeout", true, "TIMEOUT_ERROR"};
    case VerdictStatus::kOom: return {"completed", true, "RESOURCE_ERROR"};
    case VerdictStatus::kIncorrect: return {"completed", true, "CORRECTNESS_ERROR"};
    case VerdictStatus::kCheat: return {"completed", true, nullptr};
    case VerdictStatus::kInfra: return {"failed", false, "SYSTEM_ERROR"};
  }
  return {"failed", false, "UNKNOWN_ERROR"};
}

std::string Stamp(absl::Time time) { return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone()); }

}  // namespace

absl::StatusOr<VerifyRequest> ReadEvaluation(const Json& request) {
  if (!request.is_object()) return absl::InvalidArgumentError(absl::StrCat("the body is a ", request.type_name(), ", not an object"));
  VerifyRequest read;
  HONE_ASSIGN_OR_RETURN(read.task.id, Text(request, "task_id", ""));
  if (read.task.id.empty() || read.task.id.size() > 100) {
    return Wrong("task_id", absl::StrCat(read.task.id.size(), " characters; allowed are 1 to 100"));
  }
  HONE_ASSIGN_OR_RETURN(const std::string workflow, Text(request, "workflow", "kernelbench"));
  if (workflow != "kernelbench") return Wrong("workflow", absl::StrCat("'", workflow, "'; there is kernelbench"));
  HONE_ASSIGN_OR_RETURN(read.task.reference, Code(request, "reference_code"));
  HONE_ASSIGN_OR_RETURN(read.candidate.source, Code(request, "kernel_code"));
  HONE_RETURN_IF_ERROR(ReadBackend(request, &read.candidate));
  HONE_ASSIGN_OR_RETURN(const std::string entry, Text(request, "entry_point", "Model"));
  if (!IsIdentifier(entry)) return Wrong("entry_point", absl::StrCat("'", entry, "' is no name of a class"));
  if (entry != "Model") {
    absl::StrAppend(&read.task.reference, "\n\nModel = ", entry, "\n");
    if (read.candidate.format != Format::kNative) absl::StrAppend(&read.candidate.source, "\n\nModelNew = ", entry, "New\n");
  }
  read.task.tolerance = {1e-2, 1e-2};
  HONE_RETURN_IF_ERROR(ReadProtocol(request, &read.protocol));
  HONE_ASSIGN_OR_RETURN(const std::string priority, Text(request, "priority", "normal"));
  if (priority != "low" && priority != "normal" && priority != "high") {
    return Wrong("priority", absl::StrCat("'", priority, "'; there are low, normal, high"));
  }
  read.priority = priority == "low" ? Priority::kLow : priority == "high" ? Priority::kHigh : Priority::kNormal;
  HONE_ASSIGN_OR_RETURN(const bool refresh, Flag(request, "force_refresh", false));
  read.use_cache = !refresh;
  return read;
}

Json EvaluationOf(const std::string& task_id, const VerifyRequest& request, const Verdict& verdict, absl::Time submitted,
                  absl::Time completed) {
  const Naming naming = NamingOf(verdict.status);
  const Timing* timing = verdict.speed();
  Json metadata = {{"device", verdict.device},       {"gpu_name", verdict.device},
                   {"backend", Name(request.candidate.backend).data()},
                   {"hone_status", std::string(Name(verdict.status))},
                   {"hone_protocol", verdict.protocol}, {"toolchain", verdict.toolchain},
                   {"sandbox", verdict.sandbox},     {"cached", verdict.from_cache},
                   {"correct_rate", verdict.correct_rate}};
  if (!verdict.compiler_output.empty()) metadata["compilation_error"] = ToUtf8(verdict.compiler_output);
  if (verdict.status == VerdictStatus::kRuntime) metadata["runtime_error"] = ToUtf8(verdict.message);
  if (verdict.status == VerdictStatus::kIncorrect) metadata["correctness_issue"] = ToUtf8(verdict.message);
  if (verdict.coverage) metadata["custom_kernel_cuda_time_coverage"] = *verdict.coverage;
  if (timing != nullptr) {
    metadata["speedup_low"] = timing->speedup.low;
    metadata["speedup_high"] = timing->speedup.high;
    metadata["emulated"] = timing->emulated;
  }
  if (!verdict.rules.empty()) {
    metadata["rules"] = Json::array();
    for (const RuleHit& hit : verdict.rules) metadata["rules"].push_back(hit.rule);
  }
  const auto number = [&](bool there, double value) { return there ? Json(value) : Json(); };
  return {{"task_id", task_id},
          {"status", naming.status},
          {"compiled", naming.compiled},
          {"correctness", verdict.ok()},
          {"decoy_kernel", verdict.status == VerdictStatus::kCheat},
          {"reference_runtime", number(timing != nullptr, timing != nullptr ? timing->baseline_ns * 1e-6 : 0)},
          {"kernel_runtime", number(timing != nullptr, timing != nullptr ? timing->candidate_ns * 1e-6 : 0)},
          {"speedup", number(timing != nullptr, timing != nullptr ? timing->speedup.median : 0)},
          {"metadata", metadata},
          {"error_message", verdict.ok() ? Json() : Json(ToUtf8(verdict.message))},
          {"error_code", naming.error_code == nullptr ? Json() : Json(naming.error_code)},
          {"submitted_at", Stamp(submitted)},
          {"completed_at", Stamp(completed)},
          {"processing_time", absl::ToDoubleSeconds(completed - submitted)}};
}

}  // namespace hone::verifier
