#include "verifier/client/client.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "hone/v1/verifier.grpc.pb.h"
#include "tests/support/memory_folder.h"
#include "verifier/client/endpoints.h"

namespace hone::verifier {
namespace {

using Stream = grpc::ServerReaderWriter<v1::VerifyStreamResponse, v1::VerifyStreamRequest>;

/// A verifier that answers as a test tells it to.
class ScriptedServer final : public v1::Verifier::Service {
 public:
  explicit ScriptedServer(const std::string& address) : address_(address) { Start(); }
  ~ScriptedServer() override { Stop(); }

  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    REQUIRE(server_);
  }
  void Stop() {
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }

  grpc::Status Verify(grpc::ServerContext*, const v1::VerifyRequest* request, v1::VerifyResponse* response) override {
    {
      absl::MutexLock lock(&mutex);
      keys.push_back(request->key());
    }
    const grpc::Status status = on_verify ? on_verify(++calls) : grpc::Status::OK;
    response->mutable_verdict()->set_status(v1::VERDICT_STATUS_OK);
    return status;
  }
  grpc::Status VerifyStream(grpc::ServerContext*, Stream* stream) override { return on_stream(++calls, *stream); }

  std::function<grpc::Status(int call)> on_verify;
  std::function<grpc::Status(int call, Stream& stream)> on_stream;
  std::atomic<int> calls{0};
  absl::Mutex mutex;
  std::vector<std::string> keys;

 private:
  const std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

struct Fixture {
  TempFolder folder = MemoryFolder("client_test");
  std::string Address(int i) const { return absl::StrCat("unix:", folder.path(), "/", i); }
  std::unique_ptr<Client> NewClient(int endpoints, int max_attempts = 4, absl::Duration deadline = absl::Seconds(20)) const {
    ClientOptions options;
    for (int i = 0; i < endpoints; ++i) options.endpoints.push_back(Address(i));
    options.max_attempts = max_attempts;
    options.deadline = deadline;
    options.max_in_flight = 16;
    return *Client::Create(options);
  }
};

grpc::Status Failing(grpc::StatusCode code) { return grpc::Status(code, "scripted"); }

/// Answers `count` requests of a stream; the tag comes back in the message.
int AnswerSome(Stream& stream, int count) {
  v1::VerifyStreamRequest request;
  int answered = 0;
  for (; answered < count && stream.Read(&request); ++answered) {
    v1::VerifyStreamResponse response;
    response.set_tag(request.tag());
    response.mutable_verdict()->set_status(v1::VERDICT_STATUS_OK);
    response.mutable_verdict()->set_message(request.request().candidate().source());
    stream.Write(response);
  }
  return answered;
}

std::vector<VerifyRequest> Numbered(int count) {
  std::vector<VerifyRequest> requests(count);
  for (int i = 0; i < count; ++i) requests[i].candidate.source = std::to_string(i);
  return requests;
}

/// Runs VerifyAll and checks that each request got one verdict, its own when OK. Returns how many were INFRA.
int VerifyNumbered(Client& client, int count, absl::Status* status = nullptr) {
  std::vector<int> answers(count, 0);
  int infra = 0;
  const absl::Status ended = client.VerifyAll(Numbered(count), [&](size_t i, const Verdict& verdict) {
    ++answers[i];
    if (verdict.status == VerdictStatus::kInfra) {
      ++infra;
      CHECK_FALSE(verdict.message.empty());
    } else {
      CHECK(verdict.message == std::to_string(i));
    }
  });
  CHECK(answers == std::vector<int>(count, 1));
  if (status != nullptr) *status = ended;
  return infra;
}

TEST_CASE("An endpoint without a port is refused by name, before anything waits for it", "[verifier][client]") {
  const absl::Status status = Client::Create({.endpoints = {"127.0.0.1:50151", "verifier-0"}}).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(status.message() == "verifier endpoint: 'verifier-0' is neither host:port nor unix:/path");
  CHECK(Client::Create({.endpoints = {"dns:///verifier:50151", "unix:/run/hone.sock", "[::1]:50151"}}).ok());
}

TEST_CASE("Commands take several endpoints with commas, and their secrets from the environment", "[verifier][client]") {
  setenv("HONE_TOKEN", "secret", /*replace=*/1);
  setenv("HONE_TLS_CA", "/etc/hone/ca.pem", /*replace=*/1);
  const ClientOptions options = OptionsFor("front-0:50151,unix:/run/hone.sock");
  unsetenv("HONE_TOKEN");
  unsetenv("HONE_TLS_CA");
  CHECK(options.endpoints == std::vector<std::string>{"front-0:50151", "unix:/run/hone.sock"});
  CHECK(options.token == "secret");
  CHECK(options.tls_ca == "/etc/hone/ca.pem");
  CHECK(OptionsFor("front-0:50151").token.empty());
}

TEST_CASE("UNAVAILABLE is tried again, with the same key, until it works", "[verifier][client]") {
  Fixture f;
  ScriptedServer server(f.Address(0));
  server.on_verify = [](int call) { return call < 3 ? Failing(grpc::StatusCode::UNAVAILABLE) : grpc::Status::OK; };
  VerifyRequest request;
  request.use_cache = false;
  CHECK(f.NewClient(1)->Verify(request)->ok());
  REQUIRE(server.keys.size() == 3);
  CHECK_FALSE(server.keys[0].empty());
  CHECK(server.keys[0] == server.keys[1]);
  CHECK(server.keys[0] == server.keys[2]);
}

TEST_CASE("UNAVAILABLE is returned when the attempts are spent", "[verifier][client]") {
  Fixture f;
  ScriptedServer server(f.Address(0));
  server.on_verify = [](int) { return Failing(grpc::StatusCode::UNAVAILABLE); };
  const absl::Status status = f.NewClient(1, /*max_attempts=*/3)->Verify({}).status();
  CHECK(absl::IsUnavailable(status));
  CHECK(std::string(status.message()).find(f.Address(0)) != std::string::npos);
  CHECK(server.calls == 3);
}

TEST_CASE("No other error is tried again", "[verifier][client]") {
  Fixture f;
  ScriptedServer server(f.Address(0));
  const auto client = f.NewClient(1);
  for (grpc::StatusCode code : {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::RESOURCE_EXHAUSTED,
                                grpc::StatusCode::INTERNAL, grpc::StatusCode::FAILED_PRECONDITION}) {
    server.calls = 0;
    server.on_verify = [code](int) { return Failing(code); };
    const absl::Status status = client->Verify({}).status();
    CHECK(static_cast<int>(status.code()) == static_cast<int>(code));
    CHECK(server.calls == 1);
  }
}

TEST_CASE("A call ends at its deadline", "[verifier][client]") {
  Fixture f;
  ScriptedServer server(f.Address(0));
  server.on_verify = [](int) {
    absl::SleepFor(absl::Milliseconds(500));
    return grpc::Status::OK;
  };
  CHECK(absl::IsDeadlineExceeded(f.NewClient(1, 4, absl::Milliseconds(100))->Verify({}).status()));
}

TEST_CASE("Calls are spread over the endpoints, and a dead one is passed over", "[verifier][client]") {
  Fixture f;
  ScriptedServer one(f.Address(0)), two(f.Address(1));
  one.on_verify = two.on_verify = [](int) { return grpc::Status::OK; };
  const auto client = f.NewClient(2);
  for (int i = 0; i < 10; ++i) CHECK(client->Verify({}).ok());
  CHECK(one.calls == 5);
  CHECK(two.calls == 5);
  two.Stop();
  for (int i = 0; i < 4; ++i) CHECK(client->Verify({}).ok());
  CHECK(one.calls == 9);
}

TEST_CASE("A client without an endpoint is refused", "[verifier][client]") {
  CHECK(absl::IsInvalidArgument(Client::Create({}).status()));
}

TEST_CASE("VerifyAll answers everything over one stream", "[verifier][client]") {
  Fixture f;
  ScriptedServer server(f.Address(0));
  server.on_stream = [](int, Stream& stream) {
    AnswerSome(stream, 1000);
    return grpc::Status::OK;
  };
  absl::Status status;
  CHECK(VerifyNumbered(*f.NewClient(1), 200, &status) == 0);
  CHECK(status.ok());
  CHECK(server.calls == 1);
  CHECK(VerifyNumbered(*f.NewClient(1), 0, &status) == 0);
}

TEST_CASE("A stream hands out verdicts while requests still come, and each is answered once", "[verifier][client]") {
  Fixture f;
  ScriptedServer server(f.Address(0));
  server.on_stream = [](int call, Stream& stream) {
    AnswerSome(stream, call == 1 ? 30 : 1000);
    return call == 1 ? Failing(grpc::StatusCode::UNAVAILABLE) : grpc::Status::OK;  // breaks once
  };
  const auto client = f.NewClient(1);
  absl::Mutex mutex;
  std::vector<int> answers(100, 0);
  const auto stream = client->OpenStream([&](size_t i, const Verdict& verdict) {
    absl::MutexLock lock(&mutex);
    ++answers[i];
    CHECK(verdict.message == std::to_string(i));
  });
  const std::vector<VerifyRequest> requests = Numbered(100);
  stream->Submit(requests[0]);
  {
    absl::MutexLock lock(&mutex);
    const auto first = [](std::vector<int>* a) { return (*a)[0] == 1; };
    CHECK(mutex.AwaitWithTimeout(absl::Condition(+first, &answers), absl::Seconds(20)));  // before the others are known
  }
  for (int i = 1; i < 100; ++i) stream->Submit(requests[i]);
  CHECK(stream->Finish().ok());
  CHECK(answers == std::vector<int>(100, 1));
}

TEST_CASE("A stream that is given up ends at once, whatever it still waits for", "[verifier][client]") {
  Fixture f;
  ScriptedServer server(f.Address(0));
  server.on_stream = [](int, Stream& stream) {
    v1::VerifyStreamRequest request;
    while (stream.Read(&request)) continue;  // never an answer
    return grpc::Status::OK;
  };
  const auto client = f.NewClient(1);
  std::atomic<int> handed_out{0};
  auto stream = client->OpenStream([&](size_t, const Verdict&) { ++handed_out; });
  for (const VerifyRequest& request : Numbered(20)) stream->Submit(request);
  stream.reset();
  CHECK(handed_out == 0);
}

TEST_CASE("VerifyAll keeps no more requests open than it was told", "[verifier][client]") {
  Fixture f;
  ScriptedServer server(f.Address(0));
  std::atomic<int> open{0}, most{0};
  server.on_stream = [&](int, Stream& stream) {
    absl::Mutex mutex;
    std::deque<uint64_t> unanswered;
    bool ended = false;
    std::thread reader([&] {
      v1::VerifyStreamRequest request;
      while (stream.Read(&request)) {
        most = std::max(most.load(), ++open);
        absl::MutexLock lock(&mutex);
        unanswered.push_back(request.tag());
      }
      absl::MutexLock lock(&mutex);
      ended = true;
    });
    // Answers only when all that may come has come, one at a time; what an answer lets in is counted after it.
    for (int answered = 0; answered < 100; ++answered) {
      v1::VerifyStreamResponse response;
      {
        absl::MutexLock lock(&mutex);
        const auto full = [&] { return ended || static_cast<int>(unanswered.size()) >= std::min(16, 100 - answered); };
        mutex.Await(absl::Condition(&full));
        if (unanswered.empty()) break;
        response.set_tag(unanswered.front());
        unanswered.pop_front();
      }
      response.mutable_verdict()->set_status(v1::VERDICT_STATUS_OK);
      response.mutable_verdict()->set_message(std::to_string(response.tag()));
      --open;
      stream.Write(response);
    }
    reader.join();
    return grpc::Status::OK;
  };
  CHECK(VerifyNumbered(*f.NewClient(1), 100) == 0);
  CHECK(most == 16);
}

TEST_CASE("A stream that breaks is opened again and what it had open is asked again", "[verifier][client]") {
  Fixture f;
  ScriptedServer server(f.Address(0));
  server.on_stream = [](int call, Stream& stream) {
    AnswerSome(stream, call < 4 ? 10 : 1000);
    return call < 4 ? Failing(grpc::StatusCode::UNAVAILABLE) : grpc::Status::OK;
  };
  absl::Status status;
  CHECK(VerifyNumbered(*f.NewClient(1, /*max_attempts=*/10), 100, &status) == 0);
  CHECK(status.ok());
  CHECK(server.calls >= 4);
}

TEST_CASE("One of two servers dies: the other one takes its work", "[verifier][client]") {
  Fixture f;
  ScriptedServer healthy(f.Address(0)), dying(f.Address(1));
  healthy.on_stream = [](int, Stream& stream) {
    AnswerSome(stream, 1000);
    return grpc::Status::OK;
  };
  dying.on_stream = [](int, Stream& stream) {
    AnswerSome(stream, 5);
    return Failing(grpc::StatusCode::UNAVAILABLE);
  };
  CHECK(VerifyNumbered(*f.NewClient(2, /*max_attempts=*/50), 200) == 0);
}

TEST_CASE("A request that fails on the verifier's side becomes INFRA with the reason; UNAVAILABLE ones are asked again",
          "[verifier][client]") {
  Fixture f;
  ScriptedServer server(f.Address(0));
  std::atomic<int> unavailable{0};
  server.on_stream = [&](int, Stream& stream) {
    v1::VerifyStreamRequest request;
    while (stream.Read(&request)) {
      v1::VerifyStreamResponse response;
      response.set_tag(request.tag());
      if (request.tag() == 7) {
        response.mutable_error()->set_code(grpc::StatusCode::INVALID_ARGUMENT);
        response.mutable_error()->set_message("line 3: NameError");
      } else if (request.tag() == 8 && ++unavailable < 3) {
        response.mutable_error()->set_code(grpc::StatusCode::UNAVAILABLE);
        response.mutable_error()->set_message("draining");
      } else {
        response.mutable_verdict()->set_status(v1::VERDICT_STATUS_OK);
        response.mutable_verdict()->set_message(request.request().candidate().source());
      }
      stream.Write(response);
    }
    return grpc::Status::OK;
  };
  CHECK(VerifyNumbered(*f.NewClient(1), 20) == 1);
  CHECK(unavailable == 3);
}

TEST_CASE("With nobody there, every request becomes INFRA and VerifyAll says so", "[verifier][client]") {
  Fixture f;
  absl::Status status;
  CHECK(VerifyNumbered(*f.NewClient(2, /*max_attempts=*/1), 20, &status) == 20);
  CHECK(absl::IsUnavailable(status));
}

TEST_CASE("A server that never answers costs the deadline, not for ever", "[verifier][client]") {
  Fixture f;
  ScriptedServer server(f.Address(0));
  server.on_stream = [](int, Stream& stream) {
    v1::VerifyStreamRequest request;
    while (stream.Read(&request)) {
    }
    return grpc::Status::OK;
  };
  CHECK(VerifyNumbered(*f.NewClient(1, 2, absl::Milliseconds(300)), 5) == 5);
}

}  // namespace
}  // namespace hone::verifier
