#include "verifier/service/grpc_service.h"

#include <grpcpp/grpcpp.h>

#include <deque>
#include <unordered_map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "hone/v1/verifier.grpc.pb.h"
#include "proto/convert.h"
#include "verifier/service/read_request.h"

namespace hone::verifier {
namespace {

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// ------------------------------------------------------------------------------------------------------ unary calls

/// The token that a call brings, as its header has it.
std::string AuthorizationOf(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find("authorization");
  return found == context.client_metadata().end() ? "" : std::string(found->second.data(), found->second.size());
}

/// What a request may need to run; null where there is no access control.
absl::StatusOr<std::shared_ptr<Permit>> Admit(AccessControl* access, const std::string& authorization) {
  if (access == nullptr) return std::shared_ptr<Permit>();
  return access->Admit(authorization);
}

/// A unary call that the engine answers later, or that its client gives up before. Deletes itself.
template <class Response, class Answer>
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  using Fill = void (*)(const Answer&, Response*);

  UnaryCall(Engine& engine, std::shared_ptr<Permit> permit, Response* response, Fill fill)
      : engine_(engine), permit_(std::move(permit)), shared_(std::make_shared<Shared>()) {
    shared_->reactor = this;
    shared_->response = response;
    shared_->fill = fill;
  }

  /// `start` begins the work with the callback it is given and returns what Abandon takes.
  template <class Start>
  void Begin(Start start) {
    std::shared_ptr<Engine::Call> call = start([shared = shared_](absl::StatusOr<Answer> answer) {
      UnaryCall* reactor = shared->TakeReactor();
      if (reactor == nullptr) return;
      if (answer.ok()) shared->fill(*answer, shared->response);
      reactor->Finish(answer.ok() ? grpc::Status::OK : ToGrpc(answer.status()));
    });
    absl::MutexLock lock(&shared_->mutex);
    shared_->call = std::move(call);
  }

  void OnCancel() override {
    std::shared_ptr<Engine::Call> call;
    {
      absl::MutexLock lock(&shared_->mutex);
      call = shared_->call;
    }
    engine_.Abandon(call);
    if (UnaryCall* reactor = shared_->TakeReactor()) reactor->Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

 private:
  /// Outlives the reactor when the engine's answer comes late.
  struct Shared {
    absl::Mutex mutex;
    UnaryCall* reactor ABSL_GUARDED_BY(mutex) = nullptr;  // null: finished
    std::shared_ptr<Engine::Call> call ABSL_GUARDED_BY(mutex);
    Response* response = nullptr;
    Fill fill = nullptr;

    UnaryCall* TakeReactor() {
      absl::MutexLock lock(&mutex);
      return std::exchange(reactor, nullptr);
    }
  };

  Engine& engine_;
  const std::shared_ptr<Permit> permit_;  // until the call ends
  const std::shared_ptr<Shared> shared_;
};

// ---------------------------------------------------------------------------------------------------------- streams

/// One VerifyStream. The shared part is owned by the reactor and by every answer that is still to come.
class StreamCall final : public grpc::ServerBidiReactor<v1::VerifyStreamRequest, v1::VerifyStreamResponse> {
 public:
  StreamCall(Engine& engine, const GrpcServiceOptions& options, std::string authorization)
      : shared_(std::make_shared<Shared>(engine, this, options, std::move(authorization))) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return shared_->ReadsEnded();
    shared_->Begin(shared_, request_);
    if (shared_->MayRead()) StartRead(&request_);
  }
  void OnWriteDone(bool ok) override { shared_->Written(ok); }
  void OnCancel() override { shared_->GiveUp(); }
  void OnDone() override {
    shared_->Detach();
    delete this;
  }

 private:
  class Shared {
   public:
    Shared(Engine& engine, StreamCall* reactor, const GrpcServiceOptions& options, std::string authorization)
        : engine_(engine), max_jobs_(options.max_stream_jobs), access_(options.access),
          authorization_(std::move(authorization)), reactor_(reactor) {}

    void Begin(const std::shared_ptr<Shared>& self, v1::VerifyStreamRequest& message) {
      const uint64_t tag = message.tag();
      uint64_t number = 0;
      {
        absl::MutexLock lock(&mutex_);
        number = ++last_number_;
        ++open_;
        calls_[number];  // removed by the answer, which may come before Verify returns
      }
      absl::StatusOr<VerifyRequest> request = ReadRequest(std::move(*message.mutable_request()));
      message.Clear();
      if (!request.ok()) return Answer(number, tag, request.status());
      absl::StatusOr<std::shared_ptr<Permit>> permit = Admit(access_, authorization_);
      if (!permit.ok()) return Answer(number, tag, permit.status());
      std::shared_ptr<Engine::Call> call =
          engine_.Verify(*request, [self, number, tag, permit = *std::move(permit)](absl::StatusOr<Verdict> verdict) {
            self->Answer(number, tag, std::move(verdict));
          });
      {
        absl::MutexLock lock(&mutex_);
        const auto waiting = calls_.find(number);
        if (waiting != calls_.end()) waiting->second = call;
        if (!given_up_) return;
      }
      engine_.Abandon(call);
    }

    /// Whether the next read may start now; if not, Written starts it when there is room.
    bool MayRead() {
      absl::MutexLock lock(&mutex_);
      read_paused_ = open_ >= max_jobs_ && !given_up_;
      return !read_paused_ && !given_up_;
    }

    void ReadsEnded() {
      absl::MutexLock lock(&mutex_);
      reads_ended_ = true;
      FinishIfOver();
    }

    void Written(bool ok) {
      StreamCall* read = nullptr;
      {
        absl::MutexLock lock(&mutex_);
        outbox_.pop_front();
        --open_;
        writing_ = false;
        if (!ok) given_up_ = true;
        if (read_paused_ && !given_up_ && open_ < max_jobs_) {
          read_paused_ = false;
          read = reactor_;
        }
        WriteNext();
        FinishIfOver();
      }
      if (read != nullptr) read->StartRead(&read->request_);
    }

    /// The client is gone: nobody waits any more.
    void GiveUp() {
      std::unordered_map<uint64_t, std::shared_ptr<Engine::Call>> calls;
      {
        absl::MutexLock lock(&mutex_);
        given_up_ = true;
        calls.swap(calls_);
      }
      for (const auto& [number, call] : calls) engine_.Abandon(call);
      absl::MutexLock lock(&mutex_);
      FinishIfOver();
    }

    void Detach() {
      absl::MutexLock lock(&mutex_);
      reactor_ = nullptr;
    }

   private:
    void Answer(uint64_t number, uint64_t tag, const absl::StatusOr<Verdict>& verdict) {
      v1::VerifyStreamResponse response;
      response.set_tag(tag);
      if (verdict.ok()) {
        proto::ToWire(*verdict, response.mutable_verdict());
      } else {
        response.mutable_error()->set_code(static_cast<int>(verdict.status().code()));
        response.mutable_error()->set_message(std::string(verdict.status().message()));
      }
      absl::MutexLock lock(&mutex_);
      calls_.erase(number);
      if (given_up_ || reactor_ == nullptr) return;
      outbox_.push_back(std::move(response));
      WriteNext();
    }

    void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (writing_ || outbox_.empty() || given_up_ || finished_) return;
      writing_ = true;
      reactor_->StartWrite(&outbox_.front());
    }

    void FinishIfOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (finished_ || reactor_ == nullptr || writing_) return;
      if (!given_up_ && !(reads_ended_ && open_ == 0)) return;
      finished_ = true;
      reactor_->Finish(given_up_ ? grpc::Status::CANCELLED : grpc::Status::OK);
    }

    Engine& engine_;
    const int max_jobs_;
    AccessControl* const access_;
    const std::string authorization_;
    absl::Mutex mutex_;
    StreamCall* reactor_ ABSL_GUARDED_BY(mutex_);
    std::unordered_map<uint64_t, std::shared_ptr<Engine::Call>> calls_ ABSL_GUARDED_BY(mutex_);
    std::deque<v1::VerifyStreamResponse> outbox_ ABSL_GUARDED_BY(mutex_);  // the first is being written
    uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
    int open_ ABSL_GUARDED_BY(mutex_) = 0;  // read and not yet answered to the client
    bool writing_ ABSL_GUARDED_BY(mutex_) = false;
    bool read_paused_ ABSL_GUARDED_BY(mutex_) = false;
    bool reads_ended_ ABSL_GUARDED_BY(mutex_) = false;
    bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
    bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  };

  const std::shared_ptr<Shared> shared_;
  v1::VerifyStreamRequest request_;
};

class RefusedStream final : public grpc::ServerBidiReactor<v1::VerifyStreamRequest, v1::VerifyStreamResponse> {
 public:
  explicit RefusedStream(const absl::Status& why) { Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

/// One HoldLanes. The shared part outlives it when the lanes fall quiet late.
class HoldCall final : public grpc::ServerWriteReactor<v1::HoldLanesResponse> {
 public:
  explicit HoldCall(const absl::Status& refusal) { Finish(ToGrpc(refusal)); }
  explicit HoldCall(Engine& engine) : shared_(std::make_shared<Shared>()) {
    shared_->reactor = this;
    hold_ = engine.HoldLanes([shared = shared_] {
      absl::MutexLock lock(&shared->mutex);
      if (shared->reactor == nullptr) return;
      shared->writing = true;
      shared->reactor->StartWrite(&shared->quiet);
    });
  }
  void OnWriteDone(bool) override {
    const std::shared_ptr<Shared> shared = shared_;  // Finish may end this
    absl::MutexLock lock(&shared->mutex);
    shared->writing = false;
    if (shared->reactor == nullptr) Finish(grpc::Status::CANCELLED);
  }
  void OnCancel() override {
    if (shared_ == nullptr) return;  // refused
    const std::shared_ptr<Shared> shared = shared_;
    absl::MutexLock lock(&shared->mutex);
    hold_.reset();
    shared->reactor = nullptr;
    if (!shared->writing) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

 private:
  struct Shared {
    absl::Mutex mutex;
    HoldCall* reactor ABSL_GUARDED_BY(mutex) = nullptr;  // null: over
    bool writing ABSL_GUARDED_BY(mutex) = false;
    v1::HoldLanesResponse quiet;
  };
  const std::shared_ptr<Shared> shared_;  // null: refused
  std::shared_ptr<void> hold_;
};

// ---------------------------------------------------------------------------------------------------------- service

void FillVerdict(const Verdict& verdict, v1::VerifyResponse* response) {
  proto::ToWire(verdict, response->mutable_verdict());
}

void FillSignature(const Signature& signature, v1::DescribeTaskResponse* response) {
  proto::ToWire(signature, response->mutable_signature());
  response->set_declaration(signature.Declaration());
}

class VerifierService final : public v1::Verifier::CallbackService {
 public:
  VerifierService(Engine& engine, const GrpcServiceOptions& options) : engine_(engine), options_(options) {}

  grpc::ServerUnaryReactor* Verify(grpc::CallbackServerContext* context, const v1::VerifyRequest* message,
                                   v1::VerifyResponse* response) override {
    absl::StatusOr<std::shared_ptr<Permit>> permit = Admit(options_.access, AuthorizationOf(*context));
    if (!permit.ok()) return Refuse(context, permit.status());
    const absl::StatusOr<VerifyRequest> request = ReadRequest(v1::VerifyRequest(*message));
    if (!request.ok()) return Refuse(context, request.status());
    auto* call = new UnaryCall<v1::VerifyResponse, Verdict>(engine_, *std::move(permit), response, FillVerdict);
    call->Begin([&](Engine::OnVerdict on_verdict) { return engine_.Verify(*request, std::move(on_verdict)); });
    return call;
  }

  grpc::ServerBidiReactor<v1::VerifyStreamRequest, v1::VerifyStreamResponse>* VerifyStream(
      grpc::CallbackServerContext* context) override {
    std::string authorization = AuthorizationOf(*context);
    if (const absl::Status known = Admit(options_.access, authorization).status();
        absl::IsUnauthenticated(known)) {
      return new RefusedStream(known);
    }
    return new StreamCall(engine_, options_, std::move(authorization));
  }

  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context, const v1::CancelRequest* message,
                                   v1::CancelResponse* response) override {
    const auto permit = Admit(options_.access, AuthorizationOf(*context));
    if (!permit.ok()) return Refuse(context, permit.status());
    if (message->key().empty()) return Refuse(context, absl::InvalidArgumentError("key: empty"));
    response->set_cancelled(engine_.Cancel(message->key()));
    return Refuse(context, absl::OkStatus());
  }

  grpc::ServerUnaryReactor* DescribeTask(grpc::CallbackServerContext* context, const v1::DescribeTaskRequest* message,
                                         v1::DescribeTaskResponse* response) override {
    absl::StatusOr<std::shared_ptr<Permit>> permit = Admit(options_.access, AuthorizationOf(*context));
    if (!permit.ok()) return Refuse(context, permit.status());
    const absl::StatusOr<Task> task = ReadTask(v1::Task(message->task()));
    if (!task.ok()) return Refuse(context, task.status());
    auto* call = new UnaryCall<v1::DescribeTaskResponse, Signature>(engine_, *std::move(permit), response, FillSignature);
    call->Begin([&](Engine::OnSignature on_signature) { return engine_.Describe(*task, std::move(on_signature)); });
    return call;
  }

  grpc::ServerWriteReactor<v1::HoldLanesResponse>* HoldLanes(grpc::CallbackServerContext* context,
                                                             const v1::HoldLanesRequest*) override {
    if (const absl::Status known = Admit(options_.access, AuthorizationOf(*context)).status(); !known.ok()) {
      return new HoldCall(known);
    }
    if (!options_.holds) return new HoldCall(absl::PermissionDeniedError("this verifier's lanes are not held for anybody: `holds` is off"));
    return new HoldCall(engine_);
  }

  grpc::ServerUnaryReactor* GetCapabilities(grpc::CallbackServerContext* context, const v1::GetCapabilitiesRequest*,
                                            v1::GetCapabilitiesResponse* response) override {
    const auto permit = Admit(options_.access, AuthorizationOf(*context));
    if (!permit.ok()) return Refuse(context, permit.status());
    proto::ToWire(engine_.GetCapabilities(), response->mutable_capabilities());
    return Refuse(context, absl::OkStatus());
  }

 private:
  /// Ends a call at once.
  static grpc::ServerUnaryReactor* Refuse(grpc::CallbackServerContext* context, const absl::Status& status) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(status.ok() ? grpc::Status::OK : ToGrpc(status));
    return reactor;
  }

  Engine& engine_;
  const GrpcServiceOptions options_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeGrpcService(Engine& engine, const GrpcServiceOptions& options) {
  return std::make_unique<VerifierService>(engine, options);
}

}  // namespace hone::verifier
