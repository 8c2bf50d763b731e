#include "verifier/lane/findings.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <sys/syscall.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "verifier/rules/rule.h"
#include "verifier/sandbox/seccomp.h"

namespace hone::verifier {
namespace {

/// What a candidate said, for one line of a log or a terminal: no line ends, no escapes.
std::string OneLine(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }, ' ');
  return text;
}

/// The last line that a dying program printed is mostly the reason.
std::string LastLine(const std::string& output) {
  std::string last;
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty()) last = std::string(line.substr(0, 200));
  }
  return OneLine(std::move(last));
}

/// "12 bytes past the end of `out`", or "" far from all tensors.
std::string NameAddress(uint64_t address, const std::vector<PlacedTensor>& tensors) {
  constexpr uint64_t kNear = 1 << 20;
  std::string best;
  uint64_t distance = kNear;
  for (const PlacedTensor& tensor : tensors) {
    const uint64_t end = tensor.address + tensor.bytes;
    if (address >= tensor.address && address < end) return absl::StrCat("inside `", tensor.name, "`");
    const uint64_t away = address < tensor.address ? tensor.address - address : address - end + 1;
    if (away >= distance) continue;
    distance = away;
    best = address < tensor.address ? absl::StrCat(away, " bytes before `", tensor.name, "`")
                                    : absl::StrCat(away - 1, " bytes past the end of `", tensor.name, "`");
  }
  return best;
}

std::string ExplainSegmentationFault(const RunnerReport& report, const std::vector<PlacedTensor>& tensors) {
  const std::string where = NameAddress(report.address, tensors);
  const bool inside = where.rfind("inside", 0) == 0;
  if (inside) return absl::StrCat("device memory touched by host code, or an input written: ", where);
  if (!where.empty()) return absl::StrCat("out-of-bounds access: ", where);
  if (!report.text.empty()) return absl::StrCat("illegal memory access: ", report.text);
  if (report.address < 4096) return "null pointer access";
  return absl::StrFormat("illegal memory access at 0x%x", report.address);
}

/// Calls that no kernel makes by accident.
bool IsEscape(int system_call) {
  switch (system_call) {
    case SYS_tgkill:  // abort()
    case SYS_tkill:
      return false;
    default:
      return true;
  }
}

Finding ExplainFault(const RunnerReport& report, const std::vector<PlacedTensor>& tensors, const std::string& output) {
  Finding finding;
  if (report.signal == SIGSYS && IsEscape(report.system_call)) {
    return Cheat("forbidden_system_call", SystemCallName(report.system_call));
  }
  switch (report.signal) {
    case SIGSEGV:
    case SIGBUS:
      finding.message = ExplainSegmentationFault(report, tensors);
      break;
    case SIGFPE:
      finding.message = "integer division by zero";
      break;
    case SIGILL:
    case SIGTRAP:
      finding.message = report.text.empty() ? "a trap: out-of-bounds array access or unreachable code" : report.text;
      break;
    case SIGABRT:
    case SIGSYS:
      finding.message = !report.text.empty() ? report.text : "called abort()";
      break;
    default:
      finding.message = absl::StrCat("ended by signal ", report.signal);
  }
  if (const std::string last = LastLine(output); !last.empty()) absl::StrAppend(&finding.message, "; it printed: ", last);
  if (report.workspace_failed) finding.status = VerdictStatus::kOom;
  return finding;
}

Finding ExplainEnd(const RunnerReport& report, const std::string& output) {
  Finding finding;
  if (report.exited) {
    finding.message = absl::StrCat("ended its process with exit code ", report.status, " before the call returned");
  } else if (report.status == SIGKILL) {
    finding.status = VerdictStatus::kOom;
    finding.message = "killed by the system, most likely for its memory";
    finding.from_outside = true;
  } else if (report.status == SIGXCPU) {
    finding.status = VerdictStatus::kTimeout;
    finding.message = "used up its processor time";
  } else {
    finding.message = absl::StrCat("killed by signal ", report.status);
  }
  if (const std::string last = LastLine(output); !last.empty()) absl::StrAppend(&finding.message, "; it printed: ", last);
  return finding;
}

// ---- Differences. ----

float HalfToFloat(uint16_t half) {
  const int exponent = (half >> 10) & 0x1F;
  const int mantissa = half & 0x3FF;
  const float sign = (half & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  if (exponent == 31) {
    return mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  }
  return sign * std::ldexp(static_cast<float>(mantissa | 0x400), exponent - 25);
}

template <class T>
T Load(const unsigned char* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof value);
  return value;
}

bool IsUnwritten(const OutputPair& pair, int64_t index) {
  const int64_t width = ByteSize(pair.spec->dtype);
  for (int64_t byte = 0; byte < width; ++byte) {
    const int64_t at = index * width + byte;
    const auto expected = static_cast<unsigned char>(at % 2 == 0 ? pair.poison : pair.poison >> 8);
    if (pair.got[at] != expected) return false;
  }
  return true;
}

double ErrorInTolerances(double got, double want, const Tolerance& tolerance) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
  if (!std::isfinite(got) || !std::isfinite(want)) return std::numeric_limits<double>::infinity();
  const double allowed = tolerance.atol + tolerance.rtol * std::fabs(want);
  return allowed > 0 ? std::fabs(got - want) / allowed : std::numeric_limits<double>::infinity();
}

bool Differs(const OutputPair& pair, int64_t got_index, int64_t want_index, const Tolerance& tolerance) {
  const DType dtype = pair.spec->dtype;
  const double got = ElementAt(dtype, pair.got, got_index);
  const double want = ElementAt(dtype, pair.want, want_index);
  if (IsFloating(dtype)) {
    return ErrorInTolerances(got, want, tolerance) > 1 || (std::isnan(got) && IsUnwritten(pair, got_index));
  }
  return got != want;
}

/// Facts about all elements, gathered in one pass.
struct Census {
  int64_t elements = 0;
  int64_t wrong = 0;
  int64_t first_wrong = -1;
  int64_t last_right = -1;
  int64_t unwritten = 0;
  int64_t last_written = -1;
  int64_t zero = 0;
  int64_t want_zero = 0;
  int64_t nan = 0;
  int64_t want_nan = 0;
};

Census Count(const OutputPair& pair, const Tolerance& tolerance) {
  Census census;
  census.elements = pair.spec->Elements();
  for (int64_t i = 0; i < census.elements; ++i) {
    const double got = ElementAt(pair.spec->dtype, pair.got, i);
    const double want = ElementAt(pair.spec->dtype, pair.want, i);
    census.zero += got == 0;
    census.want_zero += want == 0;
    census.nan += std::isnan(got);
    census.want_nan += std::isnan(want);
    if (IsUnwritten(pair, i)) {
      ++census.unwritten;
    } else {
      census.last_written = i;
    }
    if (Differs(pair, i, i, tolerance)) {
      ++census.wrong;
      if (census.first_wrong < 0) census.first_wrong = i;
    } else {
      census.last_right = i;
    }
  }
  return census;
}

bool IsTransposed(const OutputPair& pair, const Tolerance& tolerance) {
  const std::vector<int64_t>& shape = pair.spec->shape;
  if (shape.size() != 2 || shape[0] < 2 || shape[1] < 2) return false;
  for (int64_t row = 0; row < shape[0]; ++row) {
    for (int64_t column = 0; column < shape[1]; ++column) {
      if (Differs(pair, column * shape[0] + row, row * shape[1] + column, tolerance)) return false;
    }
  }
  return true;
}

/// Whether each element is the right one of `shift` elements further on, where that exists.
bool IsShifted(const OutputPair& pair, int64_t shift, const Tolerance& tolerance) {
  const int64_t elements = pair.spec->Elements();
  if (std::abs(shift) >= elements / 2) return false;
  for (int64_t i = std::max<int64_t>(0, -shift); i < std::min(elements, elements - shift); ++i) {
    if (Differs(pair, i, i + shift, tolerance)) return false;
  }
  return true;
}

/// The one factor between all elements, or 0.
double CommonFactor(const OutputPair& pair) {
  double factor = 0;
  int64_t seen = 0;
  for (int64_t i = 0; i < pair.spec->Elements(); ++i) {
    const double got = ElementAt(pair.spec->dtype, pair.got, i);
    const double want = ElementAt(pair.spec->dtype, pair.want, i);
    if (!std::isfinite(got) || !std::isfinite(want)) return 0;
    if (std::fabs(want) < 1e-6) continue;
    if (seen++ == 0) factor = got / want;
    if (factor == 0 || std::fabs(got / want - factor) > 1e-3 * std::fabs(factor)) return 0;
  }
  return seen >= 4 ? factor : 0;
}

std::string Share(int64_t part, int64_t all, const char* what) {
  return absl::StrCat(part, " of ", all, all == 1 ? " element" : " elements", what);
}

std::string Diagnose(const OutputPair& pair, const Census& census, const Tolerance& tolerance) {
  const int64_t all = census.elements;
  if (census.unwritten == all) return "nothing is written";
  if (census.unwritten > 0) {
    const bool tail = census.last_written + 1 == all - census.unwritten;
    return tail ? absl::StrCat("the last ", Share(census.unwritten, all, " are not written"))
                : Share(census.unwritten, all, " are not written");
  }
  if (census.zero == all && census.want_zero < all) return "all zero";
  if (census.nan > census.want_nan) return Share(census.nan, all, " are NaN");
  if (IsTransposed(pair, tolerance)) return "transposed";
  if (pair.spec->shape.size() >= 2) {
    const int64_t row = pair.spec->shape.back();
    if (row > 1 && (IsShifted(pair, row, tolerance) || IsShifted(pair, -row, tolerance))) return "off by one row";
  }
  if (IsShifted(pair, 1, tolerance) || IsShifted(pair, -1, tolerance)) return "off by one element";
  const double factor = CommonFactor(pair);
  if (factor != 0) return absl::StrFormat("everything is %.4g times the right value", factor);
  if (census.last_right >= 0 && census.last_right < census.first_wrong && census.wrong * 2 < all) {
    return absl::StrCat("only the last ", Share(census.wrong, all, " are wrong"));
  }
  return Share(census.wrong, all, " are wrong");
}

}  // namespace

double ElementAt(DType dtype, const unsigned char* data, int64_t index) {
  switch (dtype) {
    case DType::kFloat32:
      return Load<float>(data, index);
    case DType::kFloat64:
      return Load<double>(data, index);
    case DType::kFloat16:
      return HalfToFloat(Load<uint16_t>(data, index));
    case DType::kBFloat16: {
      const uint32_t bits = uint32_t{Load<uint16_t>(data, index)} << 16;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    case DType::kInt32:
      return Load<int32_t>(data, index);
    case DType::kInt64:
      return static_cast<double>(Load<int64_t>(data, index));
    case DType::kInt8:
      return Load<int8_t>(data, index);
    case DType::kUInt8:
    case DType::kBool:
      return Load<uint8_t>(data, index);
  }
  return 0;
}

Finding Cheat(const std::string& rule, const std::string& evidence) {
  HONE_CHECK(FindRule(rule) != nullptr);
  Finding finding;
  finding.status = VerdictStatus::kCheat;
  finding.message = absl::StrCat(rule, ": ", evidence);
  finding.rule = RuleHit{rule, true, evidence};
  return finding;
}

Finding ExplainGone(const RunnerReport& ended, const DeviceTable& device, const std::string& output) {
  const bool killed = ended.kind == RunnerReport::Kind::kEnded && !ended.exited && ended.status == SIGKILL;
  if (!killed) return Cheat("forged_answer", "it answered and was gone");
  return ExplainReport(ended, device, {}, absl::ZeroDuration(), output);
}

Finding ExplainReport(const RunnerReport& said, const DeviceTable& device, const std::vector<PlacedTensor>& tensors,
                      absl::Duration limit, const std::string& output) {
  RunnerReport report = said;
  report.text = OneLine(std::move(report.text));
  Finding finding;
  switch (report.kind) {
    case RunnerReport::Kind::kDone:
      finding.message = absl::StrCat("the call returned ", device.launch_error_name(report.code), " (", report.code, ")");
      if (report.code == device.out_of_memory || report.workspace_failed) finding.status = VerdictStatus::kOom;
      return finding;
    case RunnerReport::Kind::kLoadFailed:
      finding.status = VerdictStatus::kCompile;
      finding.message = absl::StrCat("the built artefact does not load: ", report.text);
      return finding;
    case RunnerReport::Kind::kFault:
      return ExplainFault(report, tensors, output);
    case RunnerReport::Kind::kEnded:
      return ExplainEnd(report, output);
    case RunnerReport::Kind::kTimeout:
      finding.status = VerdictStatus::kTimeout;
      finding.message = absl::StrCat("not done after ", absl::FormatDuration(limit));
      return finding;
    case RunnerReport::Kind::kGarbage:
      return Cheat("forged_answer", report.text);
  }
  return finding;
}

Finding ExplainPython(const RunnerReport& report, const DeviceTable& device, absl::Duration limit,
                      const std::string& output) {
  if (report.kind == RunnerReport::Kind::kEnded && !report.exited && report.status == SIGSEGV) {
    Finding finding;
    finding.message = "illegal memory access: out of bounds, or an input written";
    return finding;
  }
  if (report.kind != RunnerReport::Kind::kDone || report.code == 0) {
    return ExplainReport(report, device, {}, limit, output);
  }
  Finding finding;
  finding.message = OneLine(report.text);
  if (report.code == static_cast<int>(PythonError::kOutOfMemory)) finding.status = VerdictStatus::kOom;
  if (report.code == static_cast<int>(PythonError::kWrongOutput)) finding.status = VerdictStatus::kIncorrect;
  return finding;
}

void Workmanship::Add(const RunnerReport& report) {
  ++calls;
  custom_calls += report.custom_calls;
  library_calls += report.library_calls;
  if (library_names.empty()) library_names = OneLine(report.text);
}

std::vector<RuleHit> Workmanship::Rules(const LegalityPolicy& policy) const {
  std::vector<RuleHit> rules;
  const auto add = [&](const char* rule, std::string evidence) {
    const std::vector<std::string>& disabled = policy.disabled_rules;
    if (std::find(disabled.begin(), disabled.end(), rule) != disabled.end()) return;
    rules.push_back({rule, !policy.allow_library_kernels, std::move(evidence)});
  };
  if (custom_calls == 0) {
    add("no_custom_kernel", absl::StrCat("no kernel of its own ran in ", calls, calls == 1 ? " call" : " calls",
                                         library_names.empty() ? "" : absl::StrCat("; PyTorch did: ", library_names)));
  } else if (library_calls > 0) {
    add("library_compute", absl::StrCat("PyTorch computes: ", library_names));
  }
  return rules;
}

Tolerance ToleranceFor(const Task& task, DType dtype) {
  return dtype == task.dtype ? task.tolerance : DefaultTolerance(dtype);
}

double RelativeError(const TensorSpec& spec, const unsigned char* got, const unsigned char* want, int64_t elements) {
  double error = 0, size = 0;
  for (int64_t i = 0; i < elements; ++i) {
    const double a = ElementAt(spec.dtype, got, i);
    const double b = ElementAt(spec.dtype, want, i);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    error += (a - b) * (a - b);
    size += b * b;
  }
  return size > 0 ? std::sqrt(error / size) : 0;
}

double LargeError(const TensorSpec& spec, const unsigned char* got, const unsigned char* want, int64_t elements) {
  constexpr int64_t kShare = 16;
  const auto each_finite = [&](auto visit) {
    for (int64_t i = 0; i < elements; ++i) {
      const double a = ElementAt(spec.dtype, got, i);
      const double b = ElementAt(spec.dtype, want, i);
      if (std::isfinite(a) && std::isfinite(b)) visit(std::fabs(a - b), std::fabs(b));
    }
  };
  double squares = 0;
  int64_t count = 0;
  each_finite([&](double, double size) {
    squares += size * size;
    ++count;
  });
  if (squares == 0) return 0;
  const double typical = std::sqrt(squares / static_cast<double>(count));
  std::vector<double> errors;
  errors.reserve(static_cast<size_t>(count));
  each_finite([&](double error, double size) { errors.push_back(error / std::max(size, typical)); });
  const auto at = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() - 1 - errors.size() / kShare);
  std::nth_element(errors.begin(), at, errors.end());
  return *at;
}

double ErrorOfNarrowerFormat(DType dtype) {
  if (dtype == DType::kFloat32) return 2e-4;  // half a unit of a 10-bit fraction, rms: 2.8e-4; bfloat16 2.3e-3
  if (dtype == DType::kFloat64) return 1e-8;  // of float32: 3.4e-8
  return 0;
}

bool IsAnswer(const TensorSpec& spec, const unsigned char* got, const unsigned char* want, const Tolerance& tolerance) {
  constexpr int64_t kFewest = 32;
  constexpr double kShare = 0.05;
  const int64_t elements = spec.Elements();
  if (elements < kFewest) return false;
  const double share = spec.dtype == DType::kFloat32 || spec.dtype == DType::kFloat64 ? kShare : 1.0;
  const Tolerance strict = {tolerance.atol * share, tolerance.rtol * share};
  for (int64_t i = 0; i < elements; ++i) {
    const double a = ElementAt(spec.dtype, got, i);
    const double b = ElementAt(spec.dtype, want, i);
    if (!(ErrorInTolerances(a, b, strict) <= 1)) return false;
  }
  return true;
}

int64_t CountUnwritten(const OutputPair& pair) {
  int64_t unwritten = 0;
  for (int64_t i = 0; i < pair.spec->Elements(); ++i) unwritten += IsUnwritten(pair, i);
  return unwritten;
}

Mismatch DescribeMismatch(const OutputPair& pair, const Tolerance& tolerance, const std::string& shape) {
  const Census census = Count(pair, tolerance);
  Mismatch mismatch;
  mismatch.output = pair.spec->name;
  mismatch.shape = shape;
  mismatch.diagnosis = Diagnose(pair, census, tolerance);
  int64_t left = std::max<int64_t>(census.first_wrong, 0);
  mismatch.got = ElementAt(pair.spec->dtype, pair.got, left);
  mismatch.want = ElementAt(pair.spec->dtype, pair.want, left);
  mismatch.error_in_tolerances = ErrorInTolerances(mismatch.got, mismatch.want, tolerance);
  mismatch.index.resize(pair.spec->shape.size());
  for (size_t axis = mismatch.index.size(); axis-- > 0;) {
    mismatch.index[axis] = left % pair.spec->shape[axis];
    left /= pair.spec->shape[axis];
  }
  return mismatch;
}

}  // namespace hone::verifier
