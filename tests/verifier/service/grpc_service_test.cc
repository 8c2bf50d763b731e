#include "verifier/service/grpc_service.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "hone/v1/verifier.grpc.pb.h"
#include "tests/verifier/service/fakes.h"
#include "verifier/client/client.h"

namespace hone::verifier {
namespace {

/// A scripted engine behind a real gRPC server on a Unix socket.
struct Fixture : EngineFixture {
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<grpc::Server> server;
  std::string address = "unix:" + folder.path() + "/socket";
  std::unique_ptr<v1::Verifier::Stub> stub;

  explicit Fixture(int max_stream_jobs = 64, bool holds = false) {
    REQUIRE(Start().ok());
    service = MakeGrpcService(*engine, {max_stream_jobs, holds});
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.SetMaxReceiveMessageSize(64 << 20);
    builder.RegisterService(service.get());
    server = builder.BuildAndStart();
    REQUIRE(server);
    stub = NewStub();
  }
  ~Fixture() {
    if (!counts.release.HasBeenNotified()) counts.release.Notify();
    engine->Drain(SteadyTime::InfinitePast());
    server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  }
  std::unique_ptr<v1::Verifier::Stub> NewStub() const {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return v1::Verifier::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), own));
  }
  std::unique_ptr<Client> NewClient() const {
    ClientOptions options;
    options.endpoints = {address};
    options.deadline = absl::Seconds(30);
    return *Client::Create(options);
  }
  int64_t QueuedJobs() const {
    int64_t jobs = 0;
    for (const auto& [kind, counts] : queue->Stats().kinds) jobs += counts.waiting + counts.leased;
    return jobs;
  }
};

/// The least that a client in another language must say.
v1::VerifyRequest Minimal(const std::string& source) {
  v1::VerifyRequest request;
  request.mutable_task()->set_reference("reference");
  request.mutable_candidate()->set_backend(v1::BACKEND_CPU);
  request.mutable_candidate()->set_source(source);
  return request;
}

TEST_CASE("A verdict crosses the wire whole", "[verifier][service][grpc]") {
  Fixture f;
  const auto client = f.NewClient();
  const absl::StatusOr<Verdict> verdict = client->Verify(Request("incorrect"));
  REQUIRE(verdict.ok());
  CHECK(verdict->status == VerdictStatus::kIncorrect);
  CHECK(verdict->message == "judged incorrect");
  CHECK(verdict->seconds.check == 0.25);
  CHECK(client->Verify(Request("incorrect"))->from_cache);
  CHECK(client->DescribeTask(Request("").task)->sizes.front().name == "n");
  const absl::StatusOr<Capabilities> capabilities = client->GetCapabilities();
  REQUIRE(capabilities.ok());
  CHECK(capabilities->devices == std::vector<std::string>{"fake cpu"});
  CHECK(capabilities->backends == std::vector<std::string>{"cpu"});
  CHECK(capabilities->build_slots == 2);
  CHECK(capabilities->protocols == ProtocolIds());
}

TEST_CASE("A request that names only what it must gets hone's defaults", "[verifier][service][grpc]") {
  Fixture f;
  grpc::ClientContext context;
  v1::VerifyResponse response;
  REQUIRE(f.stub->Verify(&context, Minimal("ok"), &response).ok());
  CHECK(response.verdict().status() == v1::VERDICT_STATUS_OK);
  CHECK(response.verdict().protocol() == "hone-v1");

  SECTION("the shipped protocol is taken by its id") {
    v1::VerifyRequest request = Minimal("ok");
    request.mutable_protocol()->set_id("quick");
    grpc::ClientContext second;
    REQUIRE(f.stub->Verify(&second, request, &response).ok());
    CHECK(response.verdict().protocol() == "quick");
  }
  SECTION("and the content is that of a domain request with the same values") {
    VerifyRequest request = Request("ok");
    CHECK(f.NewClient()->Verify(request)->from_cache);
  }
}

TEST_CASE("What is unusable is named", "[verifier][service][grpc]") {
  Fixture f;
  const auto error = [&](const v1::VerifyRequest& request) {
    grpc::ClientContext context;
    v1::VerifyResponse response;
    const grpc::Status status = f.stub->Verify(&context, request, &response);
    CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  v1::VerifyRequest request = Minimal("ok");
  request.mutable_candidate()->clear_backend();
  CHECK(error(request) == "candidate.backend: 0 is not a value of hone.v1.Backend");
  request = Minimal("ok");
  request.mutable_task()->clear_reference();
  CHECK(error(request) == "task.reference: empty");
  request = Minimal("ok");
  request.mutable_protocol()->set_id("no such protocol");
  CHECK(error(request).find("hone-v1") != std::string::npos);
  request = Minimal("ok");
  request.mutable_task()->set_reference("raises");
  CHECK(error(request) == "line 3: NameError: x");
}

TEST_CASE("A field of a newer schema is refused with its place, wherever it stands", "[verifier][service][grpc]") {
  Fixture f;
  constexpr int kFuture = 4242;
  const auto refusal = [&](google::protobuf::Message* (*place)(v1::VerifyRequest&)) {
    v1::VerifyRequest request;
    request.mutable_task()->set_reference("r");
    request.mutable_task()->add_variants();
    google::protobuf::Message* holder = place(request);
    holder->GetReflection()->MutableUnknownFields(holder)->AddVarint(kFuture, 1);
    grpc::ClientContext context;
    v1::VerifyResponse response;
    const grpc::Status status = f.stub->Verify(&context, request, &response);
    CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  using Message = google::protobuf::Message;
  CHECK(refusal([](v1::VerifyRequest& r) -> Message* { return &r; }) ==
        "request: field 4242 is of a newer schema than this verifier knows");
  CHECK(absl::StartsWith(refusal([](v1::VerifyRequest& r) -> Message* { return r.mutable_task()->mutable_legality(); }),
                         "request.task.legality: field 4242"));
  CHECK(absl::StartsWith(refusal([](v1::VerifyRequest& r) -> Message* { return r.mutable_task()->mutable_variants(0); }),
                         "request.task.variants: field 4242"));
}

TEST_CASE("A candidate of 10 MB reaches the builder", "[verifier][service][grpc]") {
  Fixture f;
  const absl::StatusOr<Verdict> verdict = f.NewClient()->Verify(Request("compile " + std::string(10 << 20, 'x')));
  REQUIRE(verdict.ok());
  CHECK(verdict->status == VerdictStatus::kCompile);
}

TEST_CASE("A stream answers each request once, whatever becomes of the others", "[verifier][service][grpc]") {
  Fixture f;
  std::vector<VerifyRequest> requests;
  for (int i = 0; i < 300; ++i) {
    const char* words[] = {"ok", "incorrect", "compile", "crash", "no_compiler"};
    requests.push_back(Request(absl::StrCat(words[i % 5], " ", i / 2)));
    if (i % 60 == 59) requests.back().task.reference = "raises";
  }
  std::vector<int> answers(requests.size(), 0);
  const std::thread::id caller = std::this_thread::get_id();
  bool one_thread = true;
  const absl::Status status = f.NewClient()->VerifyAll(requests, [&](size_t i, const Verdict& verdict) {
    one_thread = one_thread && std::this_thread::get_id() == caller;
    ++answers[i];
    const VerdictStatus expected[] = {VerdictStatus::kOk, VerdictStatus::kIncorrect, VerdictStatus::kCompile,
                                      VerdictStatus::kInfra, VerdictStatus::kInfra};
    CHECK(verdict.status == (i % 60 == 59 ? VerdictStatus::kInfra : expected[i % 5]));
    if (i % 60 == 59) CHECK(verdict.message == "line 3: NameError: x");
    if (i % 60 != 59 && i % 5 == 4) CHECK(verdict.message == "no compiler: g++");
  });
  CHECK(status.ok());
  CHECK(one_thread);
  CHECK(answers == std::vector<int>(requests.size(), 1));
  CHECK(f.QueuedJobs() == 0);
}

TEST_CASE("A client that does not read slows only itself", "[verifier][service][grpc]") {
  Fixture f(/*max_stream_jobs=*/8);
  grpc::ClientContext context;
  auto stream = f.stub->VerifyStream(&context);
  constexpr int kJobs = 2000;
  std::thread writer([&] {
    for (int i = 0; i < kJobs; ++i) {
      v1::VerifyStreamRequest message;
      message.set_tag(i);
      *message.mutable_request() = Minimal(absl::StrCat("ok ", i, " ", std::string(4000, 'x')));
      if (!stream->Write(message)) break;
    }
    stream->WritesDone();
  });
  // The transport's own windows take some answers; beyond them the service stops reading.
  int before = -1;
  REQUIRE(Eventually([&] {
    const int now = f.counts.judgements;
    const bool still = now == before && now >= 8;
    before = now;
    absl::SleepFor(absl::Milliseconds(100));
    return still;
  }));
  CHECK(f.counts.judgements < kJobs);
  CHECK(f.NewClient()->Verify(Request("ok other client"))->ok());
  std::set<uint64_t> tags;
  v1::VerifyStreamResponse response;
  while (stream->Read(&response)) tags.insert(response.tag());
  writer.join();
  CHECK(stream->Finish().ok());
  CHECK(tags.size() == kJobs);
}

TEST_CASE("A client that vanishes leaves nothing behind and nobody waiting", "[verifier][service][grpc]") {
  Fixture f;
  {
    auto stub = f.NewStub();
    grpc::ClientContext context;
    auto stream = stub->VerifyStream(&context);
    for (int i = 0; i < 40; ++i) {
      v1::VerifyStreamRequest message;
      *message.mutable_request() = Minimal(absl::StrCat("hang ", i));
      REQUIRE(stream->Write(message));
    }
    REQUIRE(Eventually([&] { return f.QueuedJobs() == 40 && f.counts.hanging == 1; }));
    context.TryCancel();
    v1::VerifyStreamResponse response;
    while (stream->Read(&response)) {
    }
    CHECK_FALSE(stream->Finish().ok());
  }
  CHECK(Eventually([&] { return f.QueuedJobs() <= 3; }));  // on the lane, and what the build slots had in hand
  f.counts.release.Notify();
  CHECK(Eventually([&] { return f.QueuedJobs() == 0; }));
  CHECK(f.counts.judgements <= 3);
  CHECK(f.NewClient()->Verify(Request("ok"))->ok());
}

TEST_CASE("A unary caller whose time is up gives up its place", "[verifier][service][grpc]") {
  Fixture f;
  Answer<Verdict> hanging;
  f.engine->Verify(Request("hang"), hanging.Callback());
  REQUIRE(Eventually([&] { return f.counts.hanging == 1; }));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  v1::VerifyResponse response;
  CHECK(f.stub->Verify(&context, Minimal("ok late"), &response).error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
  CHECK(Eventually([&] { return f.QueuedJobs() == 1; }));
  f.counts.release.Notify();
  CHECK(hanging.Wait()->ok());
  CHECK(f.counts.Judged() == std::vector<std::string>{"hang"});
}

TEST_CASE("Cancel over the wire ends the callers of a key", "[verifier][service][grpc]") {
  Fixture f;
  grpc::Status ended;
  std::thread waiting([&] {
    grpc::ClientContext context;
    v1::VerifyRequest request = Minimal("hang");
    request.set_key("mine");
    v1::VerifyResponse response;
    ended = f.stub->Verify(&context, request, &response);
  });
  REQUIRE(Eventually([&] { return f.counts.hanging == 1; }));
  grpc::ClientContext context;
  v1::CancelRequest request;
  v1::CancelResponse response;
  request.set_key("mine");
  REQUIRE(f.stub->Cancel(&context, request, &response).ok());
  CHECK(response.cancelled() == 1);
  waiting.join();
  CHECK(ended.error_code() == grpc::StatusCode::CANCELLED);
  grpc::ClientContext second;
  CHECK(f.stub->Cancel(&second, v1::CancelRequest(), &response).error_code() == grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_CASE("Many streams at once are all served", "[verifier][service][grpc]") {
  Fixture f;
  constexpr int kStreams = 32, kEach = 20;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kStreams; ++t) {
    threads.emplace_back([&, t] {
      std::vector<VerifyRequest> requests;
      for (int i = 0; i < kEach; ++i) requests.push_back(Request(absl::StrCat(i % 2 == 0 ? "ok " : "incorrect ", t % 4, i)));
      const absl::Status status = f.NewClient()->VerifyAll(requests, [&](size_t i, const Verdict& verdict) {
        right += verdict.status == (i % 2 == 0 ? VerdictStatus::kOk : VerdictStatus::kIncorrect);
      });
      right += status.ok();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == kStreams * (kEach + 1));
}

TEST_CASE("Lanes are held until the client lets go or is gone, where the service allows it", "[verifier][grpc]") {
  Fixture fixture(64, /*holds=*/true);
  std::unique_ptr<Client> holder = fixture.NewClient();
  const std::unique_ptr<Client> client = fixture.NewClient();
  for (const bool vanishes : {false, true}) {
    auto hold = holder->HoldLanes();
    INFO(hold.status());
    REQUIRE(hold.ok());
    std::atomic<int> answers = 0;
    auto stream = client->OpenStream([&](size_t, const Verdict& verdict) {
      CHECK(verdict.ok());
      ++answers;
    });
    const int judged = fixture.counts.judgements;
    stream->Submit(Request(absl::StrCat("ok ", vanishes)));
    REQUIRE(Eventually([&] { return fixture.counts.builds == (vanishes ? 2 : 1); }));
    absl::SleepFor(absl::Milliseconds(50));
    CHECK(fixture.counts.judgements == judged);
    CHECK(answers == 0);
    hold->reset();
    if (vanishes) holder.reset();
    CHECK(stream->Finish().ok());
    CHECK(answers == 1);
  }
}

TEST_CASE("A hold that its client abandons without a word ends with the connection", "[verifier][grpc]") {
  Fixture fixture(64, /*holds=*/true);
  std::unique_ptr<v1::Verifier::Stub> stub = fixture.NewStub();
  {
    grpc::ClientContext context;
    auto stream = stub->HoldLanes(&context, {});
    v1::HoldLanesResponse quiet;
    REQUIRE(stream->Read(&quiet));
  }  // the call is dropped, neither cancelled nor finished
  stub.reset();
  CHECK(fixture.NewClient()->Verify(Request("ok"))->ok());
}

TEST_CASE("A service that holds lanes for nobody says so", "[verifier][grpc]") {
  Fixture fixture;
  const auto hold = fixture.NewClient()->HoldLanes();
  CHECK(absl::IsPermissionDenied(hold.status()));
  CHECK(absl::StrContains(hold.status().message(), "`holds` is off"));
  CHECK(fixture.NewClient()->Verify(Request("ok"))->ok());
}

}  // namespace
}  // namespace hone::verifier
