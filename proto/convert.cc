#include "proto/convert.h"

#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace hone::proto {
namespace {

// Domain enums count from 0 and wire enums from 1, in the same order; codec_test.cc compares the names of all values.
template <class Wire, class Domain>
Wire EnumToWire(Domain value) {
  return static_cast<Wire>(static_cast<int>(value) + 1);
}

template <class Wire, class Domain>
absl::Status EnumFromWire(Wire from, const google::protobuf::EnumDescriptor* type, const char* field, Domain* to) {
  const int number = static_cast<int>(from);
  if (number == 0 || type->FindValueByNumber(number) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", number, " is not a value of ", type->full_name()));
  }
  *to = static_cast<Domain>(number - 1);
  return absl::OkStatus();
}

#define HONE_ENUM_FROM_WIRE(Enum, from, field, to) EnumFromWire((from), v1::Enum##_descriptor(), field, to)

template <class T, class Field>
void CopyToWire(const std::vector<T>& from, Field* to) {
  to->Add(from.begin(), from.end());
}

template <class T, class Field>
void CopyFromWire(const Field& from, std::vector<T>* to) {
  to->assign(from.begin(), from.end());
}

void ToWire(const Sizes& from, v1::Sizes* to) {
  for (const auto& [name, value] : from) (*to->mutable_values())[name] = value;
}

absl::Status FromWire(const v1::Sizes& from, Sizes* to) {
  *to = Sizes(from.values().begin(), from.values().end());
  return absl::OkStatus();
}

void ToWire(const TensorSpec& from, v1::TensorSpec* to) {
  to->set_name(from.name);
  to->set_dtype(EnumToWire<v1::DType>(from.dtype));
  CopyToWire(from.shape, to->mutable_shape());
  CopyToWire(from.strides, to->mutable_strides());
}

absl::Status FromWire(const v1::TensorSpec& from, TensorSpec* to) {
  to->name = from.name();
  HONE_RETURN_IF_ERROR(HONE_ENUM_FROM_WIRE(DType, from.dtype(), "tensor.dtype", &to->dtype));
  CopyFromWire(from.shape(), &to->shape);
  CopyFromWire(from.strides(), &to->strides);
  return absl::OkStatus();
}

void ToWire(const TensorArgument& from, v1::TensorArgument* to) {
  to->set_role(EnumToWire<v1::TensorArgument::Role>(from.role));
  ToWire(from.spec, to->mutable_spec());
  CopyToWire(from.dimensions, to->mutable_dimensions());
}

absl::Status FromWire(const v1::TensorArgument& from, TensorArgument* to) {
  HONE_RETURN_IF_ERROR(EnumFromWire(from.role(), v1::TensorArgument::Role_descriptor(), "tensor.role", &to->role));
  HONE_RETURN_IF_ERROR(FromWire(from.spec(), &to->spec));
  CopyFromWire(from.dimensions(), &to->dimensions);
  return absl::OkStatus();
}

void ToWire(const SizeArgument& from, v1::SizeArgument* to) {
  to->set_name(from.name);
  to->set_value(from.value);
  to->set_wide(from.wide);
}

absl::Status FromWire(const v1::SizeArgument& from, SizeArgument* to) {
  *to = {from.name(), from.value(), from.wide()};
  return absl::OkStatus();
}

void ToWire(const ScalarArgument& from, v1::ScalarArgument* to) {
  to->set_name(from.name);
  to->set_integral(from.integral);
  to->set_value(from.value);
}

absl::Status FromWire(const v1::ScalarArgument& from, ScalarArgument* to) {
  *to = {from.name(), from.integral(), from.value()};
  return absl::OkStatus();
}

void ToWire(const Mismatch& from, v1::Mismatch* to) {
  to->set_output(from.output);
  CopyToWire(from.index, to->mutable_index());
  to->set_got(from.got);
  to->set_want(from.want);
  to->set_error_in_tolerances(from.error_in_tolerances);
  to->set_shape(ToUtf8(from.shape));
  to->set_diagnosis(ToUtf8(from.diagnosis));
}

Mismatch FromWire(const v1::Mismatch& from) {
  Mismatch to;
  to.output = from.output();
  CopyFromWire(from.index(), &to.index);
  to.got = from.got();
  to.want = from.want();
  to.error_in_tolerances = from.error_in_tolerances();
  to.shape = from.shape();
  to.diagnosis = from.diagnosis();
  return to;
}

void ToWire(const Estimate& from, v1::Estimate* to) {
  to->set_median(from.median);
  to->set_low(from.low);
  to->set_high(from.high);
  to->set_samples(from.samples);
}

void ToWire(const KernelProfile& from, v1::KernelProfile* to) {
  to->set_kernel(ToUtf8(from.kernel));
  to->set_launches(from.launches);
  to->set_time_ns(from.time_ns);
  to->set_share(from.share);
  to->set_occupancy(from.occupancy);
  to->set_bytes(from.bytes);
  to->set_flop(from.flop);
  to->set_roofline(from.roofline);
}

absl::Status FromWire(const v1::KernelProfile& from, KernelProfile* to) {
  *to = {from.kernel(), from.launches(), from.time_ns(), from.share(),
         from.occupancy(), from.bytes(), from.flop(), from.roofline()};
  return absl::OkStatus();
}

void ToWire(const Timing& from, v1::Timing* to) {
  to->set_baseline(EnumToWire<v1::Baseline>(from.baseline));
  ToWire(from.speedup, to->mutable_speedup());
  to->set_candidate_ns(from.candidate_ns);
  to->set_baseline_ns(from.baseline_ns);
  to->set_calls_per_round(from.calls_per_round);
  to->set_emulated(from.emulated);
  CopyToWire(from.samples, to->mutable_samples());
}

absl::Status FromWire(const v1::Timing& from, Timing* to) {
  HONE_RETURN_IF_ERROR(HONE_ENUM_FROM_WIRE(Baseline, from.baseline(), "timing.baseline", &to->baseline));
  const v1::Estimate& speedup = from.speedup();
  to->speedup = {speedup.median(), speedup.low(), speedup.high(), speedup.samples()};
  to->candidate_ns = from.candidate_ns();
  to->baseline_ns = from.baseline_ns();
  to->calls_per_round = from.calls_per_round();
  to->emulated = from.emulated();
  CopyFromWire(from.samples(), &to->samples);
  return absl::OkStatus();
}

void ToWire(const VersionSpan& from, v1::VersionSpan* to) {
  to->set_begin(from.begin);
  to->set_end(from.end);
  to->set_policy_version(from.policy_version);
}

absl::Status FromWire(const v1::VersionSpan& from, VersionSpan* to) {
  *to = {from.begin(), from.end(), from.policy_version()};
  return absl::OkStatus();
}

}  // namespace

// Outside the unnamed namespace, where the names inside would hide those of the header.
template <class T, class Message>
static void MessagesToWire(const std::vector<T>& from, google::protobuf::RepeatedPtrField<Message>* to) {
  to->Reserve(static_cast<int>(from.size()));
  for (const T& item : from) ToWire(item, to->Add());
}

template <class T, class Message>
static absl::Status MessagesFromWire(const google::protobuf::RepeatedPtrField<Message>& from, std::vector<T>* to) {
  to->clear();
  to->reserve(from.size());
  for (const Message& item : from) HONE_RETURN_IF_ERROR(FromWire(item, &to->emplace_back()));
  return absl::OkStatus();
}

// ------------------------------------------------------------------------------------------------------------- task

void ToWire(const Task& from, v1::Task* to) {
  to->set_id(from.id);
  to->set_level(from.level);
  to->set_family(from.family);
  to->set_description(from.description);
  to->set_split(EnumToWire<v1::Split>(from.split));
  to->set_dtype(EnumToWire<v1::DType>(from.dtype));
  to->mutable_tolerance()->set_atol(from.tolerance.atol);
  to->mutable_tolerance()->set_rtol(from.tolerance.rtol);
  MessagesToWire(from.variants, to->mutable_variants());
  ToWire(from.timing, to->mutable_timing());
  ToWire(from.timing_gpu, to->mutable_timing_gpu());
  for (ValueProfile profile : from.profiles) to->add_profiles(EnumToWire<v1::ValueProfile>(profile));
  to->mutable_legality()->set_allow_library_kernels(from.legality.allow_library_kernels);
  for (const std::string& rule : from.legality.disabled_rules) to->mutable_legality()->add_disabled_rules(rule);
  to->set_weak(from.weak);
  to->set_reference(from.reference);
  to->set_scalar_baseline(from.scalar_baseline);
}

absl::Status FromWire(const v1::Task& from, Task* to) {
  to->id = from.id();
  to->level = from.level();
  to->family = from.family();
  to->description = from.description();
  HONE_RETURN_IF_ERROR(HONE_ENUM_FROM_WIRE(Split, from.split(), "task.split", &to->split));
  HONE_RETURN_IF_ERROR(FromWire(from.dtype(), &to->dtype));
  to->tolerance = {from.tolerance().atol(), from.tolerance().rtol()};
  HONE_RETURN_IF_ERROR(MessagesFromWire(from.variants(), &to->variants));
  HONE_RETURN_IF_ERROR(FromWire(from.timing(), &to->timing));
  HONE_RETURN_IF_ERROR(FromWire(from.timing_gpu(), &to->timing_gpu));
  to->profiles.clear();
  for (int profile : from.profiles()) {
    HONE_RETURN_IF_ERROR(HONE_ENUM_FROM_WIRE(ValueProfile, static_cast<v1::ValueProfile>(profile), "task.profiles",
                                             &to->profiles.emplace_back()));
  }
  to->legality.allow_library_kernels = from.legality().allow_library_kernels();
  CopyFromWire(from.legality().disabled_rules(), &to->legality.disabled_rules);
  to->weak = from.weak();
  to->reference = from.reference();
  to->scalar_baseline = from.scalar_baseline();
  return absl::OkStatus();
}

// -------------------------------------------------------------------------------------------- candidate and protocol

void ToWire(const Candidate& from, v1::Candidate* to) {
  to->set_format(EnumToWire<v1::Format>(from.format));
  to->set_backend(EnumToWire<v1::Backend>(from.backend));
  to->set_source(from.source);
}

absl::Status FromWire(const v1::Candidate& from, Candidate* to) {
  HONE_RETURN_IF_ERROR(HONE_ENUM_FROM_WIRE(Format, from.format(), "candidate.format", &to->format));
  HONE_RETURN_IF_ERROR(HONE_ENUM_FROM_WIRE(Backend, from.backend(), "candidate.backend", &to->backend));
  to->source = from.source();
  return absl::OkStatus();
}

void ToWire(const Protocol& from, v1::Protocol* to) {
  to->set_id(from.id);
  to->set_check_sets_per_shape(from.check_sets_per_shape);
  to->set_check_variants(from.check_variants);
  to->set_check_profiles(from.check_profiles);
  for (Baseline baseline : from.baselines) to->add_baselines(EnumToWire<v1::Baseline>(baseline));
  to->set_statistic(EnumToWire<v1::SpeedupStatistic>(from.statistic));
  to->set_min_rounds(from.min_rounds);
  to->set_max_rounds(from.max_rounds);
  to->set_target_half_width(from.target_half_width);
  to->set_max_overhead(from.max_overhead);
  to->set_rotate_bytes(from.rotate_bytes);
  to->set_build_timeout_ms(from.build_timeout_ms);
  to->set_run_timeout_ms(from.run_timeout_ms);
  to->set_keep_samples(from.keep_samples);
  to->set_timed_by_events(from.timed_by_events);
  to->set_sanitize(from.sanitize);
  to->set_profile(from.profile);
}

absl::Status FromWire(const v1::Protocol& from, Protocol* to) {
  to->id = from.id();
  to->check_sets_per_shape = from.check_sets_per_shape();
  to->check_variants = from.check_variants();
  to->check_profiles = from.check_profiles();
  to->baselines.clear();
  for (int baseline : from.baselines()) {
    HONE_RETURN_IF_ERROR(HONE_ENUM_FROM_WIRE(Baseline, static_cast<v1::Baseline>(baseline), "protocol.baselines",
                                             &to->baselines.emplace_back()));
  }
  HONE_RETURN_IF_ERROR(
      HONE_ENUM_FROM_WIRE(SpeedupStatistic, from.statistic(), "protocol.statistic", &to->statistic));
  to->min_rounds = from.min_rounds();
  to->max_rounds = from.max_rounds();
  to->target_half_width = from.target_half_width();
  to->max_overhead = from.max_overhead();
  to->rotate_bytes = from.rotate_bytes();
  to->build_timeout_ms = from.build_timeout_ms();
  to->run_timeout_ms = from.run_timeout_ms();
  to->keep_samples = from.keep_samples();
  to->timed_by_events = from.timed_by_events();
  to->sanitize = from.sanitize();
  to->profile = from.profile();
  return absl::OkStatus();
}

void ToWire(const Signature& from, v1::Signature* to) {
  MessagesToWire(from.tensors, to->mutable_tensors());
  MessagesToWire(from.sizes, to->mutable_sizes());
  MessagesToWire(from.scalars, to->mutable_scalars());
}

absl::Status FromWire(const v1::Signature& from, Signature* to) {
  HONE_RETURN_IF_ERROR(MessagesFromWire(from.tensors(), &to->tensors));
  HONE_RETURN_IF_ERROR(MessagesFromWire(from.sizes(), &to->sizes));
  return MessagesFromWire(from.scalars(), &to->scalars);
}

// ---------------------------------------------------------------------------------------------------------- verdict

v1::VerdictStatus ToWire(VerdictStatus status) { return EnumToWire<v1::VerdictStatus>(status); }
v1::Format ToWire(Format format) { return EnumToWire<v1::Format>(format); }

absl::Status FromWire(v1::DType from, DType* to) { return HONE_ENUM_FROM_WIRE(DType, from, "dtype", to); }

absl::Status FromWire(v1::VerdictStatus from, VerdictStatus* to) {
  return HONE_ENUM_FROM_WIRE(VerdictStatus, from, "verdict.status", to);
}

absl::Status FromWire(v1::Format from, Format* to) { return HONE_ENUM_FROM_WIRE(Format, from, "format", to); }

void ToWire(const RuleHit& from, v1::RuleHit* to) {
  to->set_rule(from.rule);
  to->set_reject(from.reject);
  to->set_evidence(ToUtf8(from.evidence));
}

absl::Status FromWire(const v1::RuleHit& from, RuleHit* to) {
  *to = {from.rule(), from.reject(), from.evidence()};
  return absl::OkStatus();
}

void ToWire(const Verdict& from, v1::Verdict* to) {
  to->set_status(ToWire(from.status));
  to->set_message(ToUtf8(from.message));
  to->set_compiler_output(ToUtf8(from.compiler_output));
  to->set_correct_rate(from.correct_rate);
  if (from.mismatch) ToWire(*from.mismatch, to->mutable_mismatch());
  MessagesToWire(from.rules, to->mutable_rules());
  MessagesToWire(from.timings, to->mutable_timings());
  if (from.coverage) to->set_coverage(*from.coverage);
  to->mutable_seconds()->set_queue(from.seconds.queue);
  to->mutable_seconds()->set_build(from.seconds.build);
  to->mutable_seconds()->set_check(from.seconds.check);
  to->mutable_seconds()->set_time(from.seconds.time);
  to->mutable_seconds()->set_lane_overhead(from.seconds.lane_overhead);
  to->set_protocol(from.protocol);
  to->set_device(from.device);
  to->set_lane(from.lane);
  to->set_confirmed_on(from.confirmed_on);
  to->set_toolchain(from.toolchain);
  to->set_sandbox(from.sandbox);
  to->set_seed_id(from.seed_id);
  to->set_clock_mhz(from.clock_mhz);
  to->set_from_cache(from.from_cache);
  to->set_screened_on_cpu(from.screened_on_cpu);
  to->set_sanitizer_report(ToUtf8(from.sanitizer_report));
  MessagesToWire(from.profile, to->mutable_profile());
}

absl::Status FromWire(const v1::Verdict& from, Verdict* to) {
  HONE_RETURN_IF_ERROR(FromWire(from.status(), &to->status));
  to->message = from.message();
  to->compiler_output = from.compiler_output();
  to->correct_rate = from.correct_rate();
  to->mismatch.reset();
  if (from.has_mismatch()) to->mismatch = FromWire(from.mismatch());
  HONE_RETURN_IF_ERROR(MessagesFromWire(from.rules(), &to->rules));
  HONE_RETURN_IF_ERROR(MessagesFromWire(from.timings(), &to->timings));
  to->coverage.reset();
  if (from.has_coverage()) to->coverage = from.coverage();
  to->seconds = {from.seconds().queue(), from.seconds().build(), from.seconds().check(), from.seconds().time(),
                 from.seconds().lane_overhead()};
  to->protocol = from.protocol();
  to->device = from.device();
  to->lane = from.lane();
  to->confirmed_on = from.confirmed_on();
  to->toolchain = from.toolchain();
  to->sandbox = from.sandbox();
  to->seed_id = from.seed_id();
  to->clock_mhz = from.clock_mhz();
  to->from_cache = from.from_cache();
  to->screened_on_cpu = from.screened_on_cpu();
  to->sanitizer_report = from.sanitizer_report();
  HONE_RETURN_IF_ERROR(MessagesFromWire(from.profile(), &to->profile));
  return absl::OkStatus();
}

// --------------------------------------------------------------------------------------------------------- episodes

void ToWire(const Turn& from, v1::Turn* to) {
  CopyToWire(from.prompt_ids, to->mutable_prompt_ids());
  CopyToWire(from.response_ids, to->mutable_response_ids());
  CopyToWire(from.log_probs, to->mutable_log_probs());
  MessagesToWire(from.versions, to->mutable_versions());
  to->set_response(from.response);
  to->set_source(from.source);
  ToWire(from.verdict, to->mutable_verdict());
  to->set_truncated(from.truncated);
}

absl::Status FromWire(const v1::Turn& from, Turn* to) {
  CopyFromWire(from.prompt_ids(), &to->prompt_ids);
  CopyFromWire(from.response_ids(), &to->response_ids);
  CopyFromWire(from.log_probs(), &to->log_probs);
  HONE_RETURN_IF_ERROR(MessagesFromWire(from.versions(), &to->versions));
  to->response = from.response();
  to->source = from.source();
  HONE_RETURN_IF_ERROR(FromWire(from.verdict(), &to->verdict));
  to->truncated = from.truncated();
  return absl::OkStatus();
}

void ToWire(const Episode& from, v1::Episode* to) {
  to->set_id(from.id);
  to->set_task_id(from.task_id);
  MessagesToWire(from.turns, to->mutable_turns());
  to->set_retry(from.retry);
}

absl::Status FromWire(const v1::Episode& from, Episode* to) {
  to->id = from.id();
  to->task_id = from.task_id();
  HONE_RETURN_IF_ERROR(MessagesFromWire(from.turns(), &to->turns));
  to->retry = from.retry();
  return absl::OkStatus();
}

void ToWire(const Group& from, v1::Group* to) {
  to->set_id(from.id);
  to->set_task_id(from.task_id);
  MessagesToWire(from.episodes, to->mutable_episodes());
}

absl::Status FromWire(const v1::Group& from, Group* to) {
  to->id = from.id();
  to->task_id = from.task_id();
  return MessagesFromWire(from.episodes(), &to->episodes);
}

// --------------------------------------------------------------------------------------------------------- requests

void ToWire(const VerifyRequest& from, v1::VerifyRequest* to) {
  ToWire(from.task, to->mutable_task());
  ToWire(from.candidate, to->mutable_candidate());
  ToWire(from.protocol, to->mutable_protocol());
  to->set_priority(EnumToWire<v1::Priority>(from.priority));
  to->set_key(from.key);
  to->set_trace_id(from.trace_id);
  to->set_bypass_cache(!from.use_cache);
  to->set_avoid_lane(from.avoid_lane);
}

absl::Status FromWire(const v1::VerifyRequest& from, VerifyRequest* to) {
  HONE_RETURN_IF_ERROR(FromWire(from.task(), &to->task));
  HONE_RETURN_IF_ERROR(FromWire(from.candidate(), &to->candidate));
  HONE_RETURN_IF_ERROR(FromWire(from.protocol(), &to->protocol));
  to->priority = Priority::kNormal;
  if (from.priority() != v1::PRIORITY_UNSPECIFIED) {
    HONE_RETURN_IF_ERROR(HONE_ENUM_FROM_WIRE(Priority, from.priority(), "priority", &to->priority));
  }
  to->key = from.key();
  to->trace_id = from.trace_id();
  to->use_cache = !from.bypass_cache();
  to->avoid_lane = from.avoid_lane();
  return absl::OkStatus();
}

void ToWire(const Capabilities& from, v1::Capabilities* to) {
  to->set_version(from.version);
  CopyToWire(from.devices, to->mutable_devices());
  CopyToWire(from.backends, to->mutable_backends());
  CopyToWire(from.toolchains, to->mutable_toolchains());
  CopyToWire(from.formats, to->mutable_formats());
  CopyToWire(from.protocols, to->mutable_protocols());
  to->set_sandbox(from.sandbox);
  to->set_build_slots(from.build_slots);
  to->set_lanes(from.lanes);
}

absl::Status FromWire(const v1::Capabilities& from, Capabilities* to) {
  to->version = from.version();
  CopyFromWire(from.devices(), &to->devices);
  CopyFromWire(from.backends(), &to->backends);
  CopyFromWire(from.toolchains(), &to->toolchains);
  CopyFromWire(from.formats(), &to->formats);
  CopyFromWire(from.protocols(), &to->protocols);
  to->sandbox = from.sandbox();
  to->build_slots = from.build_slots();
  to->lanes = from.lanes();
  return absl::OkStatus();
}

}  // namespace hone::proto
