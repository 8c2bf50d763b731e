#include "verifier/service/http_gateway.h"

#include <google/protobuf/util/json_util.h>
#include <httplib.h>

#include <atomic>
#include <list>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/address.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/strings.h"
#include "hone/v1/verifier.pb.h"
#include "nlohmann/json.hpp"
#include "proto/convert.h"
#include "verifier/service/json_body.h"
#include "verifier/service/kernelgym.h"
#include "verifier/service/read_request.h"

namespace hone::verifier {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxBatch = 100;                  // KernelGYM's
constexpr int64_t kResultBytes = int64_t{64} << 20;
constexpr char kJson[] = "application/json";

std::string Now() { return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()); }

std::string Write(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

int HttpCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return 200;
    case absl::StatusCode::kInvalidArgument: return 400;
    case absl::StatusCode::kUnauthenticated: return 401;
    case absl::StatusCode::kNotFound: return 404;
    case absl::StatusCode::kCancelled: return 409;
    case absl::StatusCode::kOutOfRange: return 413;  // a body too large
    case absl::StatusCode::kFailedPrecondition: return 422;
    case absl::StatusCode::kResourceExhausted: return 429;
    case absl::StatusCode::kUnavailable: return 503;
    case absl::StatusCode::kDeadlineExceeded: return 504;
    default: return 500;
  }
}

const char* ErrorCodeOf(int http) {
  return http == 400 || http == 413 || http == 422 ? "VALIDATION_ERROR"
         : http == 429                             ? "RESOURCE_ERROR"
         : http == 504                             ? "TIMEOUT_ERROR"
                                                   : "SYSTEM_ERROR";
}

/// What a handler is given.
struct Call {
  std::string body;
  std::string id;            // of the path
  std::string trace_id;
  std::string authorization;
  bool wants_text = false;   // Prometheus, by its Accept header
};

struct Answer {
  std::string body;
  std::string type = kJson;
};

using Handler = std::function<absl::StatusOr<Answer>(Call&)>;

/// KernelGYM's tasks by their ids: those at work, and the last finished ones.
class TaskTable {
 public:
  explicit TaskTable(SharedBytes* shared) : shared_(shared) {}

  void Begin(const std::string& id, const std::string& key) {
    absl::MutexLock lock(&mutex_);
    running_[id] = key;
  }
  void End(const std::string& id, const std::string& key, const std::optional<std::string>& result) {
    {
      absl::MutexLock lock(&mutex_);
      const auto running = running_.find(id);
      if (running != running_.end() && running->second == key) running_.erase(running);
      if (result && shared_ == nullptr) Keep(id, *result);
    }
    if (result && shared_ != nullptr) shared_->Put(id, *result).IgnoreError();  // then it is asked for in vain
  }
  std::optional<std::string> RunningKey(const std::string& id) const {
    absl::MutexLock lock(&mutex_);
    const auto running = running_.find(id);
    return running == running_.end() ? std::nullopt : std::optional<std::string>(running->second);
  }
  absl::StatusOr<std::string> Find(const std::string& id) const {
    if (shared_ != nullptr) {
      HONE_ASSIGN_OR_RETURN(std::optional<std::string> result, shared_->Get(id));
      if (result) return *std::move(result);
    } else {
      absl::MutexLock lock(&mutex_);
      const auto found = index_.find(id);
      if (found != index_.end()) return found->second->second;
    }
    return absl::NotFoundError(absl::StrCat("task ", id, " is not known here"));
  }
  size_t running() const {
    absl::MutexLock lock(&mutex_);
    return running_.size();
  }

 private:
  void Keep(const std::string& id, const std::string& result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (const auto old = index_.find(id); old != index_.end()) Drop(old->second);
    finished_.emplace_front(id, result);
    index_[id] = finished_.begin();
    bytes_ += static_cast<int64_t>(result.size());
    while (bytes_ > kResultBytes) Drop(std::prev(finished_.end()));
  }
  void Drop(std::list<std::pair<std::string, std::string>>::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    bytes_ -= static_cast<int64_t>(entry->second.size());
    index_.erase(entry->first);
    finished_.erase(entry);
  }

  SharedBytes* const shared_;
  mutable absl::Mutex mutex_;
  std::unordered_map<std::string, std::string> running_ ABSL_GUARDED_BY(mutex_);
  std::list<std::pair<std::string, std::string>> finished_ ABSL_GUARDED_BY(mutex_);  // newest first
  std::unordered_map<std::string, std::list<std::pair<std::string, std::string>>::iterator> index_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

class Gateway final : public HttpGateway {
 public:
  Gateway(HttpGatewayOptions options, Engine& engine, const Queue& queue, const Metrics& metrics, AccessControl* access,
          SharedBytes* results, Logger log)
      : options_(std::move(options)), engine_(engine), queue_(queue), metrics_(metrics), access_(access), tasks_(results),
        log_(log.For("http")) {}
  ~Gateway() override {
    if (server_) server_->stop();
    if (thread_.joinable()) thread_.join();
  }
  absl::Status Start();
  int port() const override { return port_; }

 private:
  // ---- routes
  void Routes();
  void Get(const char* pattern, bool open, Handler handler);
  void Post(const char* pattern, Handler handler);
  void Reply(const absl::StatusOr<Answer>& answer, const std::string& trace_id, httplib::Response& response) const;
  Call CallOf(const httplib::Request& request) const;
  absl::StatusOr<std::string> ReadBody(const httplib::ContentReader& reader, const httplib::Response& response);
  absl::StatusOr<std::shared_ptr<Permit>> Admit(const Call& call) const;

  // ---- KernelGYM's
  struct Waiting {
    std::string id, key;
    VerifyRequest request;
    absl::Time submitted;
    std::shared_ptr<Permit> permit;
    std::shared_ptr<Engine::Call> call;
    struct State {
      absl::Mutex mutex;
      bool done = false;
      absl::StatusOr<Verdict> verdict = absl::UnknownError("");
    };
    std::shared_ptr<State> state;
  };
  absl::StatusOr<Waiting> Submit(const Json& json, const Call& call);
  absl::StatusOr<Json> Await(Waiting& waiting);
  absl::StatusOr<Verdict> AwaitVerdict(Waiting& waiting) const;
  absl::StatusOr<Answer> Evaluate(Call& call);
  absl::StatusOr<Answer> EvaluateBatch(Call& call);
  absl::StatusOr<Answer> Workflow(Call& call);
  absl::StatusOr<Answer> Status(Call& call) const;
  absl::StatusOr<Answer> Cancel(Call& call);
  Answer Health() const;
  Answer QueueStatus() const;
  Answer MetricsPage(const Call& call) const;

  // ---- ours
  absl::StatusOr<Answer> Verify(Call& call);
  absl::StatusOr<Answer> ShowCapabilities() const;

  const HttpGatewayOptions options_;
  Engine& engine_;
  const Queue& queue_;
  const Metrics& metrics_;
  AccessControl* const access_;
  TaskTable tasks_;
  const Logger log_;
  const SteadyTime started_ = SteadyTime::Now();
  std::atomic<int64_t> body_bytes_{0};
  std::atomic<int64_t> finished_{0};
  std::atomic<int64_t> last_key_{0};
  std::unique_ptr<httplib::Server> server_;
  int port_ = 0;
  std::thread thread_;
};

/// Takes its bytes off the budget when the request ends.
class Charge {
 public:
  Charge(std::atomic<int64_t>& total, const std::string& body) : total_(total), bytes_(static_cast<int64_t>(body.size())) {}
  ~Charge() { total_ -= bytes_; }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;

 private:
  std::atomic<int64_t>& total_;
  const int64_t bytes_;
};

// ------------------------------------------------------------------------------------------------------------ serving

absl::Status Gateway::Start() {
  if (options_.tls_certificate.empty()) {
    server_ = std::make_unique<httplib::Server>();
  } else {
    server_ = std::make_unique<httplib::SSLServer>(options_.tls_certificate.c_str(), options_.tls_key.c_str());
  }
  if (!server_->is_valid()) {
    return absl::FailedPreconditionError(absl::StrCat("tls: ", options_.tls_certificate, " and ", options_.tls_key,
                                                      " are no certificate and its key"));
  }
  HONE_ASSIGN_OR_RETURN(const HostPort wanted, ParseHostPort("http", options_.address));
  const int threads = options_.threads;
  server_->new_task_queue = [threads] { return new httplib::ThreadPool(static_cast<size_t>(threads)); };
  server_->set_payload_max_length(static_cast<size_t>(options_.max_body_bytes));
  server_->set_read_timeout(30, 0);
  server_->set_socket_options(TakePortAlone);  // by default two servers would share a port, and its requests
  Routes();
  const char* host = wanted.host.c_str();
  port_ = wanted.port == 0 ? server_->bind_to_any_port(host) : (server_->bind_to_port(host, wanted.port) ? wanted.port : -1);
  if (port_ <= 0) return absl::FailedPreconditionError(absl::StrCat("http: cannot listen on ", options_.address));
  thread_ = std::thread([this] { server_->listen_after_bind(); });
  while (!server_->is_running()) absl::SleepFor(absl::Milliseconds(1));
  log_.Info("listening", {{"address", absl::StrCat(options_.address.substr(0, options_.address.rfind(':') + 1), port_)}});
  return absl::OkStatus();
}

void Gateway::Routes() {
  const auto bind = [this](auto method) { return [this, method](Call& call) { return (this->*method)(call); }; };
  Post("/v1/verify", bind(&Gateway::Verify));
  Post("/evaluate", bind(&Gateway::Evaluate));
  Post("/evaluate/batch", bind(&Gateway::EvaluateBatch));
  Post("/workflow/submit", bind(&Gateway::Workflow));
  Get("/v1/capabilities", false, [this](Call&) { return ShowCapabilities(); });
  Get(R"(/status/([^/]{1,100}))", false, bind(&Gateway::Status));
  const Handler result = [this](Call& call) -> absl::StatusOr<Answer> {
    HONE_ASSIGN_OR_RETURN(std::string found, tasks_.Find(call.id));
    return Answer{std::move(found)};
  };
  Get(R"(/results/([^/]{1,100}))", false, result);
  Get(R"(/workflow/results/([^/]{1,100}))", false, [this](Call& call) -> absl::StatusOr<Answer> {
    HONE_ASSIGN_OR_RETURN(const std::string found, tasks_.Find(call.id));
    const Json result = Json::parse(found, nullptr, false);
    return Answer{Write({{"task_id", call.id}, {"status", result["status"]}, {"result", result},
                         {"error_message", result["error_message"]}, {"error_code", result["error_code"]},
                         {"submitted_at", result["submitted_at"]}, {"completed_at", result["completed_at"]}})};
  });
  Get("/health", true, [this](Call&) { return Health(); });
  Get("/metrics", false, [this](Call& call) { return MetricsPage(call); });
  Get("/queue/status", false, [this](Call&) { return QueueStatus(); });
  Get("/workers/status", false, [this](Call&) { return ShowCapabilities(); });
  Get("/openapi.json", true, [](Call&) -> absl::StatusOr<Answer> {
    HONE_ASSIGN_OR_RETURN(std::string text, ReadFile(ResourcePath("openapi.json")));
    return Answer{std::move(text)};
  });
  Get("/", true, [](Call&) {
    return Answer{Write({{"name", "hone-verifier"}, {"version", HONE_VERSION}, {"description", "judges GPU kernels"},
                         {"openapi", "/openapi.json"}, {"timestamp", Now()}})};
  });
  server_->Delete(R"(/tasks/([^/]{1,100}))", [this](const httplib::Request& request, httplib::Response& response) {
    Call call = CallOf(request);
    const auto permit = Admit(call);
    Reply(permit.ok() ? Cancel(call) : absl::StatusOr<Answer>(permit.status()), call.trace_id, response);
  });
  server_->set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (!response.body.empty()) return;
    const std::string message = response.status == 404   ? "no such path; GET /openapi.json lists them"
                                : response.status == 413 ? "the body is too large"
                                                         : "the request cannot be read";
    response.set_content(Write({{"error", "HTTPException"}, {"detail", message}, {"message", message},
                                {"error_code", ErrorCodeOf(response.status)}, {"timestamp", Now()}}), kJson);
  });
}

Call Gateway::CallOf(const httplib::Request& request) const {
  Call call;
  call.authorization = request.get_header_value("Authorization");
  call.trace_id = request.get_header_value("X-Trace-Id").substr(0, 100);
  if (call.trace_id.empty()) {  // W3C: 00-<trace>-<span>-<flags>
    const std::vector<std::string> parts = absl::StrSplit(request.get_header_value("traceparent").substr(0, 100), '-');
    if (parts.size() == 4) call.trace_id = parts[1];
  }
  call.wants_text = absl::StrContains(request.get_header_value("Accept"), "text/plain") ||
                    absl::StrContains(request.get_header_value("Accept"), "openmetrics");
  if (request.matches.size() > 1) call.id = request.matches[1];
  return call;
}

absl::StatusOr<std::shared_ptr<Permit>> Gateway::Admit(const Call& call) const {
  if (access_ == nullptr) return std::shared_ptr<Permit>();
  return access_->Admit(call.authorization);
}

void Gateway::Get(const char* pattern, bool open, Handler handler) {
  server_->Get(pattern, [this, open, handler = std::move(handler)](const httplib::Request& request, httplib::Response& response) {
    Call call = CallOf(request);
    absl::StatusOr<std::shared_ptr<Permit>> permit = std::shared_ptr<Permit>();
    if (!open) permit = Admit(call);
    Reply(permit.ok() ? handler(call) : absl::StatusOr<Answer>(permit.status()), call.trace_id, response);
  });
}

void Gateway::Post(const char* pattern, Handler handler) {
  server_->Post(pattern, [this, handler = std::move(handler)](const httplib::Request& request, httplib::Response& response,
                                                              const httplib::ContentReader& reader) {
    Call call = CallOf(request);
    // Before the body is read: strangers get no memory. Each task takes a permit of its own.
    if (const absl::Status known = Admit(call).status(); !known.ok()) return Reply(known, call.trace_id, response);
    absl::StatusOr<std::string> body = ReadBody(reader, response);
    if (!body.ok()) return Reply(body.status(), call.trace_id, response);
    const Charge charge(body_bytes_, *body);
    call.body = *std::move(body);
    Reply(handler(call), call.trace_id, response);
  });
}

/// What was read counts against the budget until the request ends.
absl::StatusOr<std::string> Gateway::ReadBody(const httplib::ContentReader& reader, const httplib::Response& response) {
  std::string body;
  bool large = false, full = false;
  const bool whole = reader([&](const char* data, size_t size) {
    large = static_cast<int64_t>(body.size() + size) > options_.max_body_bytes;
    full = !large && body_bytes_.fetch_add(static_cast<int64_t>(size)) + static_cast<int64_t>(size) > options_.memory_bytes;
    if (!large) body.append(data, size);
    return !large && !full;
  });
  if (whole) return body;
  body_bytes_ -= static_cast<int64_t>(body.size());
  if (full) return absl::UnavailableError("the bodies of all open requests together are too large just now");
  if (large || response.status == 413) {
    return absl::OutOfRangeError(absl::StrCat("the body is larger than ", options_.max_body_bytes, " bytes"));
  }
  return absl::InvalidArgumentError("the body ends early");
}

void Gateway::Reply(const absl::StatusOr<Answer>& answer, const std::string& trace_id, httplib::Response& response) const {
  if (!trace_id.empty()) response.set_header("X-Trace-Id", ToUtf8(trace_id));
  response.status = HttpCode(answer.status());
  if (answer.ok()) return response.set_content(answer->body, answer->type.c_str());
  const std::string message = ToUtf8(answer.status().message());
  const char* const error_code = ErrorCodeOf(response.status);
  response.set_header("X-Error-Code", error_code);
  if (response.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  if (response.status == 429 || response.status == 503) response.set_header("Retry-After", "5");
  response.set_content(Write({{"error", response.status < 500 ? "RequestValidationError" : "ServiceError"}, {"detail", message},
                              {"message", message}, {"error_code", error_code}, {"timestamp", Now()}}), kJson);
}

// --------------------------------------------------------------------------------------------------------- KernelGYM

absl::StatusOr<Gateway::Waiting> Gateway::Submit(const Json& json, const Call& call) {
  Waiting waiting;
  HONE_ASSIGN_OR_RETURN(waiting.request, ReadEvaluation(json));
  HONE_ASSIGN_OR_RETURN(waiting.permit, Admit(call));
  waiting.id = waiting.request.task.id;
  waiting.key = absl::StrCat("kernelgym/", waiting.id, "/", ++last_key_);
  waiting.request.key = waiting.key;
  waiting.request.trace_id = call.trace_id.empty() ? waiting.id : call.trace_id;
  waiting.submitted = absl::Now();
  waiting.state = std::make_shared<Waiting::State>();
  tasks_.Begin(waiting.id, waiting.key);
  waiting.call = engine_.Verify(waiting.request, [state = waiting.state](absl::StatusOr<Verdict> verdict) {
    absl::MutexLock lock(&state->mutex);
    state->verdict = std::move(verdict);
    state->done = true;
  });
  return waiting;
}

absl::StatusOr<Verdict> Gateway::AwaitVerdict(Waiting& waiting) const {
  {
    absl::MutexLock lock(&waiting.state->mutex);
    if (AwaitFor(waiting.state->mutex, absl::Condition(&waiting.state->done), options_.patience)) {
      HONE_RETURN_IF_ERROR(waiting.state->verdict.status());
      if (waiting.state->verdict->status != VerdictStatus::kInfra) return waiting.state->verdict;
      return absl::UnavailableError(absl::StrCat("not judged, for a fault that is ours: ", waiting.state->verdict->message));
    }
  }
  engine_.Abandon(waiting.call);
  return absl::DeadlineExceededError(absl::StrCat("no verdict within ", absl::FormatDuration(options_.patience)));
}

absl::StatusOr<Json> Gateway::Await(Waiting& waiting) {
  const absl::StatusOr<Verdict> verdict = AwaitVerdict(waiting);
  if (!verdict.ok()) {
    tasks_.End(waiting.id, waiting.key, std::nullopt);
    return verdict.status();
  }
  Json result = EvaluationOf(waiting.id, waiting.request, *verdict, waiting.submitted, absl::Now());
  tasks_.End(waiting.id, waiting.key, Write(result));
  ++finished_;
  return result;
}

absl::StatusOr<Answer> Gateway::Evaluate(Call& call) {
  HONE_ASSIGN_OR_RETURN(const Json json, ParseBody(call.body));
  HONE_ASSIGN_OR_RETURN(Waiting waiting, Submit(json, call));
  HONE_ASSIGN_OR_RETURN(const Json result, Await(waiting));
  return Answer{Write(result)};
}

absl::StatusOr<Answer> Gateway::EvaluateBatch(Call& call) {
  HONE_ASSIGN_OR_RETURN(const Json json, ParseBody(call.body));
  if (!json.is_object() || !json.contains("tasks") || !json["tasks"].is_array()) {
    return absl::InvalidArgumentError("tasks: a list of tasks is needed");
  }
  const std::string batch = json.contains("batch_id") && json["batch_id"].is_string() ? json["batch_id"].get<std::string>() : "";
  if (batch.empty()) return absl::InvalidArgumentError("batch_id: needed");
  const Json& tasks = json["tasks"];
  if (tasks.empty() || tasks.size() > kMaxBatch) {
    return absl::InvalidArgumentError(absl::StrCat("tasks: ", tasks.size(), " of them; allowed are 1 to ", kMaxBatch));
  }
  const std::string submitted = Now();
  std::vector<absl::StatusOr<Waiting>> waiting;
  for (const Json& task : tasks) waiting.push_back(Submit(task, call));
  Json results = Json::array();
  int failed = 0;
  for (size_t i = 0; i < waiting.size(); ++i) {
    absl::StatusOr<Json> result = waiting[i].ok() ? Await(*waiting[i]) : absl::StatusOr<Json>(waiting[i].status());
    if (!result.ok()) {
      const Json& task = tasks[i];
      const bool named = task.is_object() && task.contains("task_id") && task["task_id"].is_string();
      result = Json{{"task_id", named ? task["task_id"] : Json("")}, {"status", "failed"},
                    {"error_message", ToUtf8(result.status().message())},
                    {"error_code", ErrorCodeOf(HttpCode(result.status()))}, {"submitted_at", submitted}};
    }
    failed += (*result)["status"] != "completed";
    results.push_back(*std::move(result));
  }
  return Answer{Write({{"batch_id", batch}, {"total_tasks", tasks.size()},
                       {"completed_tasks", static_cast<int>(tasks.size()) - failed}, {"failed_tasks", failed},
                       {"results", results}, {"batch_status", "completed"}, {"submitted_at", submitted}, {"completed_at", Now()}})};
}

absl::StatusOr<Answer> Gateway::Workflow(Call& call) {
  HONE_ASSIGN_OR_RETURN(const Json json, ParseBody(call.body));
  if (!json.is_object() || !json.contains("payload") || !json["payload"].is_object()) {
    return absl::InvalidArgumentError("payload: an object is needed");
  }
  Json payload = json["payload"];
  for (const char* field : {"task_id", "workflow", "force_refresh"}) {
    if (json.contains(field) && !json[field].is_null()) payload[field] = json[field];
  }
  HONE_ASSIGN_OR_RETURN(Waiting waiting, Submit(payload, call));
  HONE_ASSIGN_OR_RETURN(const Json result, Await(waiting));
  return Answer{Write({{"task_id", waiting.id}, {"status", result["status"]}, {"result", result},
                       {"error_message", result["error_message"]}, {"error_code", result["error_code"]},
                       {"submitted_at", result["submitted_at"]}, {"completed_at", result["completed_at"]}})};
}

absl::StatusOr<Answer> Gateway::Status(Call& call) const {
  if (tasks_.RunningKey(call.id)) {
    return Answer{Write({{"task_id", call.id}, {"status", "processing"}, {"progress", nullptr},
                         {"estimated_completion", nullptr}, {"queue_position", nullptr}, {"assigned_device", nullptr}})};
  }
  HONE_ASSIGN_OR_RETURN(const std::string found, tasks_.Find(call.id));
  const Json result = Json::parse(found, nullptr, false);
  return Answer{Write({{"task_id", call.id}, {"status", result["status"]}, {"progress", 100.0},
                       {"estimated_completion", nullptr}, {"queue_position", nullptr},
                       {"assigned_device", result["metadata"]["device"]}})};
}

absl::StatusOr<Answer> Gateway::Cancel(Call& call) {
  const std::optional<std::string> key = tasks_.RunningKey(call.id);
  if (!key || engine_.Cancel(*key) == 0) {
    return absl::NotFoundError(absl::StrCat("task ", call.id, " is not running here"));
  }
  return Answer{Write({{"message", absl::StrCat("Task ", call.id, " cancelled successfully")}})};
}

Answer Gateway::Health() const {
  const QueueStats stats = queue_.Stats();
  int64_t waiting = 0, leased = 0;
  for (const auto& [kind, counts] : stats.kinds) {
    waiting += counts.waiting;
    leased += counts.leased;
  }
  const Capabilities capabilities = engine_.GetCapabilities();
  Json devices = Json::object();
  for (const std::string& device : capabilities.devices) devices[device] = {{"available", true}};
  const bool healthy = stats.trouble.empty() && capabilities.lanes > 0;
  return Answer{Write({{"status", healthy ? "healthy" : "degraded"}, {"timestamp", Now()}, {"gpu_status", devices},
                       {"queue_status", {{"pending", waiting}, {"processing", leased}, {"completed", finished_.load()},
                                         {"trouble", ToUtf8(stats.trouble)}}},
                       {"memory_usage", {{"queue_bytes", stats.bytes}, {"queue_limit_bytes", stats.limit_bytes},
                                         {"body_bytes", body_bytes_.load()}}},
                       {"active_tasks", tasks_.running()}, {"total_processed", finished_.load()},
                       {"uptime", absl::ToDoubleSeconds(SteadyTime::Now() - started_)}})};
}

Answer Gateway::QueueStatus() const {
  const QueueStats stats = queue_.Stats();
  int64_t waiting = 0, leased = 0;
  Json queues = Json::object();
  for (const auto& [kind, counts] : stats.kinds) {
    waiting += counts.waiting;
    leased += counts.leased;
    queues[kind] = counts.waiting;
  }
  return Answer{Write({{"pending", waiting}, {"pending_by_prefix", {{"hone", waiting}}}, {"worker_queues", queues},
                       {"processing", leased}, {"bytes", stats.bytes}, {"limit_bytes", stats.limit_bytes},
                       {"dead_letters", stats.dead}, {"trouble", ToUtf8(stats.trouble)}})};
}

Answer Gateway::MetricsPage(const Call& call) const {
  if (call.wants_text) return Answer{metrics_.Text(), "text/plain; version=0.0.4"};
  const QueueStats stats = queue_.Stats();
  Json queues = Json::object();
  for (const auto& [kind, counts] : stats.kinds) queues[kind] = {{"waiting", counts.waiting}, {"leased", counts.leased}};
  const Capabilities capabilities = engine_.GetCapabilities();
  return Answer{Write({{"timestamp", Now()},
                       {"performance_metrics", {{"total_processed", finished_.load()}}},
                       {"resource_metrics", {{"lanes", capabilities.lanes}, {"build_slots", capabilities.build_slots},
                                             {"devices", capabilities.devices}}},
                       {"queue_metrics", queues},
                       {"error_metrics", {{"dead_letters", stats.dead}}}})};
}

// -------------------------------------------------------------------------------------------------------------- ours

absl::StatusOr<Answer> Gateway::Verify(Call& call) {
  v1::VerifyRequest message;
  HONE_RETURN_IF_ERROR(ParseVerifyRequest(call.body, &message));
  Waiting waiting;
  HONE_ASSIGN_OR_RETURN(waiting.permit, Admit(call));
  HONE_ASSIGN_OR_RETURN(waiting.request, ReadRequest(std::move(message)));
  if (waiting.request.trace_id.empty()) waiting.request.trace_id = call.trace_id;
  waiting.state = std::make_shared<Waiting::State>();
  waiting.call = engine_.Verify(waiting.request, [state = waiting.state](absl::StatusOr<Verdict> verdict) {
    absl::MutexLock lock(&state->mutex);
    state->verdict = std::move(verdict);
    state->done = true;
  });
  HONE_ASSIGN_OR_RETURN(const Verdict verdict, AwaitVerdict(waiting));
  v1::VerifyResponse response;
  proto::ToWire(verdict, response.mutable_verdict());
  google::protobuf::util::JsonPrintOptions print;
  print.preserve_proto_field_names = true;
  Answer answer;
  if (!google::protobuf::util::MessageToJsonString(response, &answer.body, print).ok()) return absl::InternalError("the verdict does not print");
  return answer;
}

absl::StatusOr<Answer> Gateway::ShowCapabilities() const {
  const Capabilities c = engine_.GetCapabilities();
  return Answer{Write({{"version", c.version}, {"devices", c.devices}, {"backends", c.backends},
                       {"toolchains", c.toolchains}, {"formats", c.formats},
                       {"protocols", c.protocols}, {"sandbox", c.sandbox}, {"build_slots", c.build_slots}, {"lanes", c.lanes}})};
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpGateway>> HttpGateway::Start(const HttpGatewayOptions& options, Engine& engine,
                                                                const Queue& queue, const Metrics& metrics,
                                                                AccessControl* access, SharedBytes* results, Logger log) {
  auto gateway = std::make_unique<Gateway>(options, engine, queue, metrics, access, results, std::move(log));
  HONE_RETURN_IF_ERROR(gateway->Start());
  return gateway;
}

}  // namespace hone::verifier
