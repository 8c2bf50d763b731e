#include "verifier/lane/reference_worker.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <poll.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "base/descriptor_message.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/strings.h"
#include "verifier/lane/affinity.h"
#include "verifier/timing/statistics.h"

namespace hone::verifier {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kMaxFrameBytes = 64 << 20;

std::string Text(absl::string_view view) { return std::string(view); }

Json SizesJson(const Sizes& sizes) {
  Json result = Json::object();
  for (const auto& [name, value] : sizes) result[name] = value;
  return result;
}

Json TaskJson(const char* operation, const Task& task) {
  return {{"op", operation}, {"source", task.reference}, {"dtype", Text(Name(task.dtype))}};
}

absl::StatusOr<TensorSpec> SpecFromJson(const Json& json) {
  TensorSpec spec;
  spec.name = json.at("name").get<std::string>();
  const std::string dtype = json.at("dtype").get<std::string>();
  const std::optional<DType> parsed = ParseDType(dtype);
  if (!parsed) return absl::InternalError(absl::StrCat("the reference worker names a dtype '", dtype, "'"));
  spec.dtype = *parsed;
  spec.shape = json.at("shape").get<std::vector<int64_t>>();
  spec.strides = json.at("strides").get<std::vector<int64_t>>();
  return spec;
}

TensorArgument::Role RoleFromName(const std::string& name) {
  if (name == "input") return TensorArgument::Role::kInput;
  return name == "parameter" ? TensorArgument::Role::kParameter : TensorArgument::Role::kOutput;
}

absl::StatusOr<Signature> SignatureFromJson(const Json& json) {
  Signature signature;
  for (const Json& item : json.at("tensors")) {
    TensorArgument argument;
    argument.role = RoleFromName(item.at("role").get<std::string>());
    HONE_ASSIGN_OR_RETURN(argument.spec, SpecFromJson(item));
    argument.dimensions = item.at("dimensions").get<std::vector<std::string>>();
    signature.tensors.push_back(std::move(argument));
  }
  for (const Json& item : json.at("sizes")) {
    signature.sizes.push_back(
        {item.at("name").get<std::string>(), item.at("value").get<int64_t>(), item.at("wide").get<bool>()});
  }
  for (const Json& item : json.at("scalars")) {
    signature.scalars.push_back(
        {item.at("name").get<std::string>(), item.at("integral").get<bool>(), item.at("value").get<double>()});
  }
  return signature;
}

/// Names differ from those of the module by trailing underscores and replaced characters (reference_worker.py, Names).
std::string Stem(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  while (!name.empty() && name.front() == '_') name.erase(name.begin());
  return name;
}

absl::Status DoesNotFit(const Task& task, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("task ", task.id, ": the signature does not fit the reference: ", why));
}

absl::StatusOr<CallPlan> PlanFromJson(const Task& task, const Signature& signature, const Json& json) {
  CallPlan plan;
  for (const Json& item : json.at("tensors")) {
    HONE_ASSIGN_OR_RETURN(TensorSpec spec, SpecFromJson(item));
    plan.tensors.push_back(std::move(spec));
  }
  if (plan.tensors.size() != signature.tensors.size()) {
    return DoesNotFit(task, absl::StrCat(plan.tensors.size(), " tensors, not ", signature.tensors.size()));
  }
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    TensorSpec& spec = plan.tensors[i];
    const TensorArgument& argument = signature.tensors[i];
    const bool same_role = RoleFromName(json.at("tensors")[i].at("role").get<std::string>()) == argument.role;
    if (!same_role || spec.dtype != argument.spec.dtype || spec.shape.size() != argument.spec.shape.size()) {
      return DoesNotFit(task, absl::StrCat("tensor ", argument.spec.name, " has another role, dtype or rank"));
    }
    spec.name = argument.spec.name;
  }
  std::vector<std::pair<std::string, double>> values;
  for (const Json& item : json.at("scalars")) {
    values.emplace_back(item.at("key").get<std::string>(), item.at("value").get<double>());
    if (item.at("origin").get<std::string>() == "constant") {
      plan.constants[values.back().first] = static_cast<int64_t>(values.back().second);
    }
  }
  for (const ScalarArgument& scalar : signature.scalars) {
    const auto found = std::find_if(values.begin(), values.end(),
                                    [&](const auto& value) { return Stem(value.first) == Stem(scalar.name); });
    if (found == values.end()) return DoesNotFit(task, absl::StrCat("no number `", scalar.name, "`"));
    plan.scalars.push_back(found->second);
    values.erase(found);  // a second one of this name stands behind it
  }
  plan.recipe = json.at("recipe").get<std::string>();
  return plan;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReferenceWorker>> ReferenceWorker::Create(ReferenceWorkerOptions options) {
  if (!FileExists(options.script)) return absl::NotFoundError(absl::StrCat("no reference worker at ", options.script));
  std::unique_ptr<ReferenceWorker> worker(new ReferenceWorker(std::move(options)));
  HONE_RETURN_IF_ERROR(worker->StartIfGone());
  return worker;
}

ReferenceWorker::~ReferenceWorker() = default;

void ReferenceWorker::Interrupt() {
  interrupted_ = true;
  if (const pid_t pid = interruptible_; pid > 0) kill(pid, SIGKILL);
}

absl::Status ReferenceWorker::StartIfGone() {
  if (interrupted_) return absl::CancelledError("the reference worker was interrupted");
  if (child_ && !child_->Ended()) return absl::OkStatus();
  interruptible_ = -1;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return ErrnoStatus(errno, "making sockets");
  UniqueFd own(ends[0]);
  UniqueFd theirs(ends[1]);
  SpawnOptions spawn;
  spawn.argv = {options_.python, "-I", options_.script};
  if (options_.cpu_core >= 0) spawn.argv.insert(spawn.argv.end(), {"--core", absl::StrCat(options_.cpu_core)});
  if (!options_.device.empty()) spawn.argv.insert(spawn.argv.end(), {"--device", options_.device});
  // One thread, and memory that is reused in place of being returned to the kernel after each call: the reference's time
  // is that of its arithmetic, as with the caching allocator of a device. 32 MiB is the most that the C library takes.
  spawn.environment = {"OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "MALLOC_MMAP_THRESHOLD_=33554432",
                       "MALLOC_TRIM_THRESHOLD_=1073741824", "MALLOC_TOP_PAD_=16777216"};
  if (options_.device.empty()) spawn.environment.push_back("CUDA_VISIBLE_DEVICES=");
  spawn.environment.insert(spawn.environment.end(), options_.environment.begin(), options_.environment.end());
  spawn.pass_fds = {{theirs.get(), 3}, {2, 2}};
  HONE_ASSIGN_OR_RETURN(Child child, [&] {
    const ScopedCores cores(options_.cores);
    return Child::Spawn(spawn);
  }());
  child_ = std::move(child);
  interruptible_ = child_->pid();
  socket_ = std::move(own);
  greeted_ = false;
  ++generation_;
  return absl::OkStatus();
}

absl::Status ReferenceWorker::Lost(const std::string& what) {
  interruptible_ = -1;
  child_.reset();
  socket_.Reset();
  ++generation_;  // its pools are gone from this moment, not from the start of the next one
  return absl::UnavailableError(absl::StrCat("the reference worker ", what));
}

absl::StatusOr<std::string> ReferenceWorker::ReadFrame(SteadyTime deadline) {
  const auto read_exactly = [&](char* to, size_t count) -> absl::Status {
    while (count > 0) {
      const absl::Duration left = std::max(deadline - SteadyTime::Now(), absl::ZeroDuration());
      pollfd item = {socket_.get(), POLLIN, 0};
      const int ready = poll(&item, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) return Lost("did not answer in time");
      const ssize_t got = recv(socket_.get(), to, count, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return Lost("died");
      to += got;
      count -= static_cast<size_t>(got);
    }
    return absl::OkStatus();
  };
  uint32_t header[2];
  HONE_RETURN_IF_ERROR(read_exactly(reinterpret_cast<char*>(header), sizeof header));
  if (header[0] > kMaxFrameBytes) return Lost("sent nonsense");
  std::string text(header[0], '\0');
  HONE_RETURN_IF_ERROR(read_exactly(text.data(), text.size()));
  return text;
}

absl::StatusOr<std::string> ReferenceWorker::Call(const std::string& request, int fd) {
  HONE_RETURN_IF_ERROR(StartIfGone());
  const SteadyTime deadline = SteadyTime::Now() + options_.timeout;
  if (!greeted_) {
    HONE_RETURN_IF_ERROR(ReadFrame(deadline).status());
    greeted_ = true;
  }
  std::string frame(8, '\0');
  const uint32_t header[2] = {static_cast<uint32_t>(request.size()), fd >= 0 ? 1u : 0u};
  std::memcpy(frame.data(), header, sizeof header);
  frame += request;

  size_t sent = 0;
  while (sent < frame.size()) {
    const bool with_fd = fd >= 0 && sent == 0;
    const ssize_t count = SendMessage(socket_.get(), frame.data() + sent, frame.size() - sent, &fd, with_fd ? 1 : 0);
    if (count <= 0) return Lost("died");
    sent += static_cast<size_t>(count);
  }
  return ReadFrame(deadline);
}

namespace {

/// The reply, or the task's error with its line. Exceptions of the JSON library end here.
template <class Use>
auto WithReply(const Task& task, const absl::StatusOr<std::string>& text, Use use) -> decltype(use(Json())) {
  if (!text.ok()) return text.status();
  try {
    const Json reply = Json::parse(*text);
    if (reply.at("ok").get<bool>()) return use(reply);
    const int line = reply.at("line").get<int>();
    return absl::InvalidArgumentError(absl::StrCat("task ", task.id, line > 0 ? absl::StrCat(", line ", line) : "", ": ",
                                                   reply.at("message").get<std::string>()));
  } catch (const Json::exception& error) {
    return absl::InternalError(absl::StrCat("the reference worker's reply: ", error.what()));
  }
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

absl::StatusOr<Signature> ReferenceWorker::Describe(const Task& task) {
  Json request = TaskJson("describe", task);
  request["points"] = Json::array();
  for (const Sizes& sizes : task.variants) request["points"].push_back(SizesJson(sizes));
  if (!task.timing.empty()) request["points"].push_back(SizesJson(task.timing));
  if (!task.timing_gpu.empty()) request["points"].push_back(SizesJson(task.timing_gpu));
  return WithReply(task, Call(Dump(request)), [](const Json& reply) { return SignatureFromJson(reply); });
}

absl::StatusOr<CallPlan> ReferenceWorker::Plan(const Task& task, const Signature& signature, const Sizes& sizes) {
  Json request = TaskJson("plan", task);
  request["sizes"] = SizesJson(sizes);
  return WithReply(task, Call(Dump(request)),
                   [&](const Json& reply) { return PlanFromJson(task, signature, reply); });
}

absl::Status ReferenceWorker::Fill(const Task& task, const CallPlan& plan, const FillRequest& fill) {
  Json request = TaskJson("fill", task);
  request["pool"] = fill.pool;
  request["sizes"] = SizesJson(fill.sizes);
  request["profile"] = Text(Name(fill.profile));
  request["keep"] = fill.keep;
  request["first_set"] = fill.first_set;
  request["memory_bytes"] = fill.memory_bytes;
  request["set_bytes"] = fill.set_bytes;
  request["offsets"] = fill.offsets;
  std::vector<int64_t> bytes;
  for (const TensorSpec& spec : plan.tensors) bytes.push_back(spec.Bytes());
  request["bytes"] = bytes;
  request["seeds"] = fill.seeds;
  request["parameter_seeds"] = fill.parameter_seeds;
  return WithReply(task, Call(Dump(request), fill.memory_fd), [](const Json&) { return absl::OkStatus(); });
}

absl::StatusOr<std::vector<double>> ReferenceWorker::OwnErrors(const Task& task, const Sizes& sizes, int64_t seed) {
  Json request = TaskJson("own_errors", task);
  request["sizes"] = SizesJson(sizes);
  request["seed"] = seed;
  return WithReply(task, Call(Dump(request)), [](const Json& reply) -> absl::StatusOr<std::vector<double>> {
    return reply.at("errors").get<std::vector<double>>();
  });
}

absl::StatusOr<EagerTime> ReferenceWorker::TimeEager(int64_t pool, int sets_there, int warm, int calls, bool copies, bool by_events) {
  std::vector<int> warm_sets(static_cast<size_t>(warm)), sets(static_cast<size_t>(calls));
  std::iota(warm_sets.begin(), warm_sets.end(), 0);
  for (int i = 0; i < calls; ++i) sets[static_cast<size_t>(i)] = warm + i % std::max(1, sets_there - warm);
  const Json request = {{"op", "time"}, {"pool", pool}, {"warm", warm_sets}, {"sets", sets}, {"copies", copies}, {"events", by_events}};
  return WithReply(Task{}, Call(Dump(request)), [](const Json& reply) -> absl::StatusOr<EagerTime> {
    return EagerTime{Median(reply.at("call_ns").get<std::vector<double>>()),
                     Median(reply.at("copy_ns").get<std::vector<double>>())};
  });
}

void ReferenceWorker::Release(int64_t pool) {
  if (child_ && greeted_) (void)Call(Dump({{"op", "release"}, {"pool", pool}}));
}

}  // namespace hone::verifier
