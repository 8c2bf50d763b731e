#include "verifier/client/client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/address.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "hone/v1/verifier.grpc.pb.h"
#include "proto/convert.h"

namespace hone::verifier {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100);
constexpr absl::Duration kLongestBackoff = absl::Seconds(5);
// Beyond the server's limit for a candidate, so that the server says what is wrong.
constexpr int kMaxMessageBytes = 64 << 20;

absl::Status FromGrpc(const grpc::Status& status, const std::string& endpoint) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const bool transport = absl::IsUnavailable(absl::Status(code, ""));
  return absl::Status(code, transport ? absl::StrCat("verifier at ", endpoint, ": ", status.error_message())
                                      : status.error_message());
}

void Authorize(const ClientOptions& options, grpc::ClientContext* context) {
  if (!options.token.empty()) context->AddMetadata("authorization", absl::StrCat("Bearer ", options.token));
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const ClientOptions& options) {
  if (options.tls_ca.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions tls;
  HONE_ASSIGN_OR_RETURN(tls.pem_root_certs, ReadFile(options.tls_ca, 1 << 20));
  if (!options.tls_certificate.empty()) {
    HONE_ASSIGN_OR_RETURN(tls.pem_cert_chain, ReadFile(options.tls_certificate, 1 << 20));
    HONE_ASSIGN_OR_RETURN(tls.pem_private_key, ReadFile(options.tls_key, 1 << 20));
  }
  return grpc::SslCredentials(tls);
}

double RandomUnit() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(random);
}

/// Before attempt number `attempt` (2, 3, ...): doubled each time, with the jitter that keeps clients of one restarted
/// server from coming back all at once.
absl::Duration BackoffBefore(int attempt) {
  const absl::Duration full = kFirstBackoff * (1 << std::min(attempt - 2, 16));
  return std::min(full, kLongestBackoff) * (0.5 + 0.5 * RandomUnit());
}

/// A request that bypasses the cache gets a key, so that our own retry joins its job instead of measuring twice.
v1::VerifyRequest ToMessage(const VerifyRequest& request) {
  v1::VerifyRequest message;
  proto::ToWire(request, &message);
  if (!request.use_cache && request.key.empty()) {
    thread_local std::mt19937_64 random{std::random_device{}()};
    message.set_key(absl::StrCat("client/", absl::Hex(random(), absl::kZeroPad16), absl::Hex(random(), absl::kZeroPad16)));
  }
  return message;
}

/// gRPC takes a time of day and turns it into its own steady one at once.
std::chrono::system_clock::time_point FromNow(absl::Duration duration) {
  return std::chrono::system_clock::now() + absl::ToChronoMilliseconds(duration);
}

/// Whether the channel is connected, or becomes so at the first attempt.
bool Connects(grpc::Channel& channel) {
  const auto deadline = FromNow(absl::Seconds(5));
  while (true) {
    const grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return true;
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN) return false;
    if (!channel.WaitForStateChange(state, deadline)) return false;
  }
}

/// A synchronous channel makes progress only while somebody waits on it: a connection that takes several messages (TLS, a
/// distant host) would never come about in a plain sleep. Returns early once it has.
void PauseWhileConnecting(grpc::Channel& channel, absl::Duration duration) {
  const SteadyTime end = SteadyTime::Now() + duration;
  const bool ready = channel.GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
  if (!ready && channel.WaitForConnected(FromNow(duration))) return;
  absl::SleepFor(end - SteadyTime::Now());
}

struct Endpoint {
  std::string name;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Verifier::Stub> stub;
};

// ------------------------------------------------------------------------------------------------------- the batch

/// One stream an endpoint, all of them taking from one list of work, which grows until it is closed. What a broken stream
/// had open goes back to the list.
class Batch {
 public:
  Batch(const ClientOptions& options, size_t endpoints)
      : options_(options),
        stream_limit_(std::max<size_t>(1, static_cast<size_t>(options.max_in_flight) / endpoints)),
        dead_endpoints_limit_(endpoints) {}

  void Add(const VerifyRequest& request) {
    v1::VerifyRequest message = ToMessage(request);
    absl::MutexLock lock(&mutex_);
    messages_.push_back(std::move(message));
    attempts_.push_back(0);
    ++left_;
    const size_t index = messages_.size() - 1;
    status_.ok() ? pending_.push_back(index) : EndInfra(index, status_);
  }
  /// Nothing more comes.
  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  /// Nobody waits for what is open any more.
  void Abandon() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    abandoned_ = true;
    for (size_t index : std::exchange(pending_, {})) EndInfra(index, absl::CancelledError("abandoned"));
    for (const auto& [when, index] : std::exchange(delayed_, {})) EndInfra(index, absl::CancelledError("abandoned"));
    for (Stream* stream : streams_) stream->context->TryCancel();
  }

  /// Serves one endpoint until every verdict is in.
  void Run(Endpoint& endpoint) {
    Stream stream;
    for (int failures = 0; !Over();) {
      if (failures > 0) Sleep(BackoffBefore(failures + 1));
      if (!Connects(*endpoint.channel)) {
        ++failures;
        if (failures == options_.max_attempts) EndpointIsDead(endpoint.name);
        continue;
      }
      if (failures >= options_.max_attempts) EndpointIsBack();
      failures = Exchange(endpoint, stream).ok() ? 0 : failures + 1;
    }
  }

  /// In the caller's thread: hands out verdicts until the list is closed and all are in.
  absl::Status Deliver(const std::function<void(size_t, const Verdict&)>& on_verdict) {
    while (true) {
      std::deque<std::pair<size_t, Verdict>> ready;
      {
        absl::MutexLock lock(&mutex_);
        const auto some = [](Batch* batch) { return !batch->ready_.empty() || batch->Ended(); };
        const SteadyTime next_retry = delayed_.empty() ? SteadyTime::InfiniteFuture() : delayed_.begin()->first;
        AwaitUntil(mutex_, absl::Condition(+some, this), std::min(SteadyTime::Now() + absl::Seconds(1), next_retry));
        FailOverdue();
        for (; !delayed_.empty() && delayed_.begin()->first <= SteadyTime::Now(); delayed_.erase(delayed_.begin())) {
          pending_.push_back(delayed_.begin()->second);
        }
        ready.swap(ready_);
        if (abandoned_) ready.clear();
        if (ready.empty() && Ended()) return status_;
      }
      for (const auto& [index, verdict] : ready) on_verdict(index, verdict);
    }
  }

 private:
  struct Stream {
    std::unordered_map<size_t, SteadyTime> open;  // index and when it must be answered
    bool broken = false;
    grpc::ClientContext* context = nullptr;       // while the stream lives
  };

  bool Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_ && left_ == 0; }

  bool Over() {
    absl::MutexLock lock(&mutex_);
    return Ended();
  }

  void Sleep(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    const auto over = [](Batch* batch) { return batch->Ended(); };
    AwaitFor(mutex_, absl::Condition(+over, this), duration);
  }

  /// One stream from its opening to its end.
  absl::Status Exchange(Endpoint& endpoint, Stream& stream) {
    grpc::ClientContext context;
    Authorize(options_, &context);
    {
      absl::MutexLock lock(&mutex_);
      stream.broken = false;
      stream.context = &context;
      streams_.push_back(&stream);
    }
    auto exchange = endpoint.stub->VerifyStream(&context);
    std::thread writer([&] {
      while (const std::optional<v1::VerifyStreamRequest> message = Take(stream)) {
        if (!exchange->Write(*message)) return;
      }
      exchange->WritesDone();
    });
    v1::VerifyStreamResponse response;
    while (exchange->Read(&response)) Answer(stream, response);
    {
      absl::MutexLock lock(&mutex_);
      stream.broken = true;  // wakes the writer
      stream.context = nullptr;
      std::erase(streams_, &stream);
    }
    writer.join();
    const absl::Status status = FromGrpc(exchange->Finish(), endpoint.name);
    PutBack(stream, status);
    return status;
  }

  std::optional<v1::VerifyStreamRequest> Take(Stream& stream) {
    absl::MutexLock lock(&mutex_);
    std::pair<Batch*, Stream*> both{this, &stream};
    const auto may_go = [](std::pair<Batch*, Stream*>* both) {
      auto [batch, stream] = *both;
      return stream->broken || batch->Ended() ||
             (!batch->pending_.empty() && stream->open.size() < batch->stream_limit_);
    };
    mutex_.Await(absl::Condition(+may_go, &both));
    if (stream.broken || Ended()) return std::nullopt;
    const size_t index = pending_.front();
    pending_.pop_front();
    ++attempts_[index];
    stream.open.emplace(index, SteadyTime::Now() + options_.deadline);
    v1::VerifyStreamRequest message;
    message.set_tag(index);
    *message.mutable_request() = messages_[index];
    return message;
  }

  void Answer(Stream& stream, const v1::VerifyStreamResponse& response) {
    Verdict verdict;
    absl::Status status = response.has_verdict()
                              ? proto::FromWire(response.verdict(), &verdict)
                              : absl::Status(static_cast<absl::StatusCode>(response.error().code()),
                                             response.error().message());
    absl::MutexLock lock(&mutex_);
    const size_t index = response.tag();
    if (stream.open.erase(index) == 0) return;  // overdue: answered already
    if (absl::IsUnavailable(status)) return TryAgain(index, status);
    status.ok() ? End(index, std::move(verdict)) : EndInfra(index, status);
  }

  void PutBack(Stream& stream, const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    const absl::Status reason = status.ok() ? absl::UnavailableError("the stream ended early") : status;
    for (const auto& [index, deadline] : std::exchange(stream.open, {})) {
      absl::IsUnavailable(reason) || absl::IsCancelled(reason) ? TryAgain(index, reason) : EndInfra(index, reason);
    }
    if (!absl::IsUnauthenticated(reason)) return;  // else no stream will ever be let in
    status_ = reason;
    for (size_t index : std::exchange(pending_, {})) EndInfra(index, reason);
    for (const auto& [when, index] : std::exchange(delayed_, {})) EndInfra(index, reason);
  }

  void TryAgain(size_t index, const absl::Status& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (abandoned_ || attempts_[index] >= options_.max_attempts) return EndInfra(index, reason);
    delayed_.emplace(SteadyTime::Now() + BackoffBefore(attempts_[index] + 1), index);
  }

  void EndInfra(size_t index, const absl::Status& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Verdict verdict;
    verdict.status = VerdictStatus::kInfra;
    verdict.message = std::string(reason.message());
    verdict.protocol = messages_[index].protocol().id();
    End(index, std::move(verdict));
  }

  void End(size_t index, Verdict verdict) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    messages_[index].Clear();
    ready_.emplace_back(index, std::move(verdict));
    --left_;
  }

  void FailOverdue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const SteadyTime now = SteadyTime::Now();
    for (Stream* stream : streams_) {
      std::vector<size_t> overdue;
      for (const auto& [index, deadline] : stream->open) {
        if (deadline <= now) overdue.push_back(index);
      }
      for (size_t index : overdue) {
        stream->open.erase(index);
        EndInfra(index, absl::DeadlineExceededError(
                            absl::StrCat("no verdict within ", absl::FormatDuration(options_.deadline))));
      }
      // The rest of its work goes to another stream: this one may be stuck.
      if (!overdue.empty()) stream->context->TryCancel();
    }
  }

  /// When the last endpoint is given up, so is what waits: better a reason than a wait for ever.
  void EndpointIsDead(const std::string& name) {
    absl::MutexLock lock(&mutex_);
    if (++dead_endpoints_ < dead_endpoints_limit_) return;
    status_ = absl::UnavailableError(absl::StrCat("no verifier answers at ", name));
    for (size_t index : std::exchange(pending_, {})) EndInfra(index, status_);
    for (const auto& [when, index] : std::exchange(delayed_, {})) EndInfra(index, status_);
  }
  void EndpointIsBack() {
    absl::MutexLock lock(&mutex_);
    --dead_endpoints_;
  }

  const ClientOptions& options_;
  const size_t stream_limit_;
  absl::Mutex mutex_;
  std::vector<v1::VerifyRequest> messages_ ABSL_GUARDED_BY(mutex_);  // cleared when answered
  std::vector<int> attempts_ ABSL_GUARDED_BY(mutex_);
  std::deque<size_t> pending_ ABSL_GUARDED_BY(mutex_);
  std::multimap<SteadyTime, size_t> delayed_ ABSL_GUARDED_BY(mutex_);  // to be tried again, by when
  std::deque<std::pair<size_t, Verdict>> ready_ ABSL_GUARDED_BY(mutex_);
  std::vector<Stream*> streams_ ABSL_GUARDED_BY(mutex_);
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  size_t dead_endpoints_ ABSL_GUARDED_BY(mutex_) = 0;
  const size_t dead_endpoints_limit_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

/// A batch with the threads that serve it.
class BatchStream final : public VerdictStream {
 public:
  BatchStream(std::vector<Endpoint>& endpoints, const ClientOptions& options,
              std::function<void(size_t, const Verdict&)> on_verdict)
      : batch_(options, endpoints.size()), on_verdict_(std::move(on_verdict)) {
    for (Endpoint& endpoint : endpoints) threads_.emplace_back([this, &endpoint] { batch_.Run(endpoint); });
    threads_.emplace_back([this] { status_ = batch_.Deliver(on_verdict_); });
  }
  ~BatchStream() override {
    if (threads_.empty()) return;
    batch_.Abandon();
    Join();
  }
  void Submit(const VerifyRequest& request) override { batch_.Add(request); }
  absl::Status Finish() override {
    batch_.Close();
    Join();
    return status_;
  }

 private:
  void Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  Batch batch_;
  std::function<void(size_t, const Verdict&)> on_verdict_;
  std::vector<std::thread> threads_;
  absl::Status status_;  // written by the thread that delivers, read after it was joined
};

/// Of all endpoints.
class StreamHold final : public LaneHold {
 public:
  static absl::StatusOr<std::unique_ptr<LaneHold>> Take(std::vector<Endpoint>& endpoints, const ClientOptions& options) {
    auto hold = std::make_unique<StreamHold>();
    for (Endpoint& endpoint : endpoints) hold->Ask(endpoint, options);
    for (Held& held : hold->held_) {
      v1::HoldLanesResponse quiet;
      if (held.stream->Read(&quiet)) continue;
      const grpc::Status why = held.stream->Finish();
      held.stream.reset();
      const absl::Status status = FromGrpc(why, held.name);
      return status.ok() ? absl::UnavailableError(absl::StrCat("the verifier at ", held.name, " holds no lanes")) : status;
    }
    return std::unique_ptr<LaneHold>(std::move(hold));
  }
  ~StreamHold() override {
    for (Held& held : held_) held.context->TryCancel();
    for (Held& held : held_) {
      if (held.stream) (void)held.stream->Finish();
    }
  }

 private:
  struct Held {
    std::string name;
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<grpc::ClientReader<v1::HoldLanesResponse>> stream;  // null: ended
  };
  void Ask(Endpoint& endpoint, const ClientOptions& options) {
    auto context = std::make_unique<grpc::ClientContext>();
    Authorize(options, context.get());
    auto stream = endpoint.stub->HoldLanes(context.get(), v1::HoldLanesRequest());
    held_.push_back({endpoint.name, std::move(context), std::move(stream)});
  }
  std::vector<Held> held_;
};

// ------------------------------------------------------------------------------------------------------- the client

class GrpcClient final : public Client {
 public:
  GrpcClient(ClientOptions options, const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : options_(std::move(options)) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // for one attempt, its handshake included
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // clients of one process do not share connections
    for (const std::string& name : options_.endpoints) {
      Endpoint endpoint;
      endpoint.name = name;
      endpoint.channel = grpc::CreateCustomChannel(
          name, absl::StartsWith(name, "unix:") ? grpc::InsecureChannelCredentials() : credentials, arguments);
      endpoint.stub = v1::Verifier::NewStub(endpoint.channel);
      endpoints_.push_back(std::move(endpoint));
    }
  }

  absl::StatusOr<Verdict> Verify(const VerifyRequest& request) override {
    const v1::VerifyRequest message = ToMessage(request);
    v1::VerifyResponse response;
    HONE_RETURN_IF_ERROR(Call(&v1::Verifier::Stub::Verify, message, &response));
    Verdict verdict;
    HONE_RETURN_IF_ERROR(proto::FromWire(response.verdict(), &verdict));
    return verdict;
  }

  absl::Status VerifyAll(absl::Span<const VerifyRequest> requests,
                         const std::function<void(size_t, const Verdict&)>& on_verdict) override {
    if (requests.empty()) return absl::OkStatus();
    Batch batch(options_, endpoints_.size());
    for (const VerifyRequest& request : requests) batch.Add(request);
    batch.Close();
    std::vector<std::thread> threads;
    for (Endpoint& endpoint : endpoints_) threads.emplace_back([&] { batch.Run(endpoint); });
    const absl::Status status = batch.Deliver(on_verdict);
    for (std::thread& thread : threads) thread.join();
    return status;
  }

  std::unique_ptr<VerdictStream> OpenStream(std::function<void(size_t, const Verdict&)> on_verdict) override {
    return std::make_unique<BatchStream>(endpoints_, options_, std::move(on_verdict));
  }

  absl::StatusOr<std::unique_ptr<LaneHold>> HoldLanes() override { return StreamHold::Take(endpoints_, options_); }

  absl::StatusOr<Signature> DescribeTask(const Task& task) override {
    v1::DescribeTaskRequest message;
    proto::ToWire(task, message.mutable_task());
    v1::DescribeTaskResponse response;
    HONE_RETURN_IF_ERROR(Call(&v1::Verifier::Stub::DescribeTask, message, &response));
    Signature signature;
    HONE_RETURN_IF_ERROR(proto::FromWire(response.signature(), &signature));
    return signature;
  }

  absl::StatusOr<Capabilities> GetCapabilities() override {
    v1::GetCapabilitiesResponse response;
    HONE_RETURN_IF_ERROR(Call(&v1::Verifier::Stub::GetCapabilities, v1::GetCapabilitiesRequest(), &response));
    Capabilities capabilities;
    HONE_RETURN_IF_ERROR(proto::FromWire(response.capabilities(), &capabilities));
    return capabilities;
  }

 private:
  /// One unary call: the next endpoint in turn, another one after kUnavailable, until attempts or time are spent.
  template <class Request, class Response>
  absl::Status Call(grpc::Status (v1::Verifier::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    const SteadyTime deadline = SteadyTime::Now() + options_.deadline;
    for (int attempt = 1;; ++attempt) {
      Endpoint& endpoint = endpoints_[turn_++ % endpoints_.size()];
      grpc::ClientContext context;
      Authorize(options_, &context);
      context.set_deadline(FromNow(deadline - SteadyTime::Now()));
      const absl::Status status = FromGrpc((endpoint.stub.get()->*method)(&context, request, response), endpoint.name);
      if (!absl::IsUnavailable(status) || attempt >= options_.max_attempts) return status;
      const absl::Duration backoff = BackoffBefore(attempt + 1);
      if (SteadyTime::Now() + backoff >= deadline) return status;
      PauseWhileConnecting(*endpoints_[turn_ % endpoints_.size()].channel, backoff);
    }
  }

  const ClientOptions options_;
  std::vector<Endpoint> endpoints_;
  std::atomic<size_t> turn_{0};
};

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(ClientOptions options) {
  if (options.endpoints.empty()) return absl::InvalidArgumentError("a verifier client needs at least one endpoint");
  if (options.max_attempts < 1 || options.max_in_flight < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a verifier client needs max_attempts and max_in_flight of at least 1, not ",
                                                   options.max_attempts, " and ", options.max_in_flight));
  }
  for (const std::string& endpoint : options.endpoints) {
    if (!absl::StartsWith(endpoint, "unix:")) {
      HONE_RETURN_IF_ERROR(ParseHostPort("verifier endpoint", endpoint, "unix:/path").status());
    }
  }
  HONE_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials, Credentials(options));
  return std::make_unique<GrpcClient>(std::move(options), credentials);
}

}  // namespace hone::verifier
