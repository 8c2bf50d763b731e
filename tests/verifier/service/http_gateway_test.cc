// The HTTP gateway over an engine whose lanes do what a candidate's source tells them to.

#include "verifier/service/http_gateway.h"

#include <httplib.h>

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "nlohmann/json.hpp"
#include "tests/verifier/service/fakes.h"

namespace hone::verifier {
namespace {

using Json = nlohmann::json;

struct GatewayFixture {
  EngineFixture engine;
  std::unique_ptr<AccessControl> access;
  std::unique_ptr<HttpGateway> gateway;
  HttpGatewayOptions options;

  GatewayFixture() {
    REQUIRE(engine.Start().ok());
    options.address = "127.0.0.1:0";
    options.threads = 8;
    options.max_body_bytes = 1 << 20;
    options.patience = absl::Seconds(20);
  }
  ~GatewayFixture() { gateway.reset(); }
  void Start() {
    absl::StatusOr<std::unique_ptr<HttpGateway>> started = HttpGateway::Start(
        options, *engine.engine, *engine.queue, *engine.metrics, access.get(), nullptr, Logger::Discard());
    INFO(started.status().ToString());
    REQUIRE(started.ok());
    gateway = *std::move(started);
  }
  httplib::Client Client() const {
    httplib::Client client("127.0.0.1", gateway->port());
    client.set_read_timeout(60, 0);
    return client;
  }
  std::pair<int, Json> Post(const std::string& path, const std::string& body, const httplib::Headers& headers = {}) const {
    const auto answer = Client().Post(path.c_str(), headers, body, "application/json");
    REQUIRE(answer);
    return {answer->status, Json::parse(answer->body)};
  }
  std::pair<int, Json> Get(const std::string& path, const httplib::Headers& headers = {}) const {
    const auto answer = Client().Get(path.c_str(), headers);
    REQUIRE(answer);
    return {answer->status, Json::parse(answer->body)};
  }
};

Json Evaluation(const std::string& id, const std::string& source) {
  return {{"task_id", id}, {"reference_code", "reference of a task"}, {"kernel_code", source + " and some more text"},
          {"backend", "cpu"}, {"timeout", 60}, {"toolkit", "kernelbench"}, {"enable_profiling", nullptr}};
}

TEST_CASE("A task in KernelGYM's shape comes back in KernelGYM's shape", "[verifier][http]") {
  GatewayFixture f;
  f.Start();
  const auto [code, right] = f.Post("/evaluate", Evaluation("good", "ok").dump());
  CHECK(code == 200);
  INFO(right.dump());
  CHECK(right["task_id"] == "good");
  CHECK(right["status"] == "completed");
  CHECK(right["compiled"] == true);
  CHECK(right["correctness"] == true);
  CHECK(right["decoy_kernel"] == false);
  CHECK(right["error_code"].is_null());
  CHECK(right["metadata"]["device"] == "fake cpu");
  CHECK(right["submitted_at"].is_string());
  CHECK(right["processing_time"].is_number());

  INFO("by its id afterwards, as a polling client asks");
  CHECK(f.Get("/status/good").second["status"] == "completed");
  CHECK(f.Get("/results/good").second == right);
  CHECK(f.Get("/workflow/results/good").second["result"] == right);
  CHECK(f.Get("/status/unknown").first == 404);

  const Json wrong = f.Post("/evaluate", Evaluation("wrong", "incorrect").dump()).second;
  CHECK(wrong["compiled"] == true);
  CHECK(wrong["correctness"] == false);
  CHECK(wrong["error_code"] == "CORRECTNESS_ERROR");
  const Json broken = f.Post("/evaluate", Evaluation("broken", "compile").dump()).second;
  CHECK(broken["status"] == "failed");
  CHECK(broken["compiled"] == false);
  CHECK(broken["error_code"] == "COMPILATION_ERROR");
}

TEST_CASE("A second gateway on one port is refused: it would take half of the requests", "[verifier][http]") {
  GatewayFixture f;
  f.Start();
  GatewayFixture second;
  second.options.address = absl::StrCat("127.0.0.1:", f.gateway->port());
  const absl::Status status = HttpGateway::Start(second.options, *second.engine.engine, *second.engine.queue, *second.engine.metrics,
                                                 nullptr, nullptr, Logger::Discard())
                                  .status();
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(status.message() == absl::StrCat("http: cannot listen on ", second.options.address));
}

TEST_CASE("A fault of ours is 503 with Retry-After and never a failed task", "[verifier][http]") {
  GatewayFixture f;
  f.Start();
  const auto answer = f.Client().Post("/evaluate", Evaluation("t", "infra").dump(), "application/json");
  REQUIRE(answer);
  CHECK(answer->status == 503);
  CHECK(answer->get_header_value("Retry-After") == "5");
  CHECK(f.Get("/status/t").first == 404);
}

TEST_CASE("A batch answers each of its tasks, the unusable ones too", "[verifier][http]") {
  GatewayFixture f;
  f.Start();
  Json batch = {{"batch_id", "b"}, {"tasks", {Evaluation("1", "ok"), Evaluation("2", "incorrect"), {{"task_id", "3"}}}}};
  const auto [code, answer] = f.Post("/evaluate/batch", batch.dump());
  CHECK(code == 200);
  INFO(answer.dump());
  CHECK(answer["total_tasks"] == 3);
  CHECK(answer["completed_tasks"] == 2);
  CHECK(answer["failed_tasks"] == 1);
  CHECK(answer["results"][0]["correctness"] == true);
  CHECK(answer["results"][1]["correctness"] == false);
  CHECK(answer["results"][2]["error_code"] == "VALIDATION_ERROR");
  batch["tasks"] = Json::array();
  CHECK(f.Post("/evaluate/batch", batch.dump()).first == 400);
  batch["tasks"] = std::vector<Json>(101, Evaluation("x", "ok"));
  CHECK(f.Post("/evaluate/batch", batch.dump()).first == 400);
}

TEST_CASE("A workflow is submitted with its payload and cancelled by its id", "[verifier][http]") {
  GatewayFixture f;
  f.Start();
  CHECK(f.Post("/workflow/submit", Json{{"task_id", "w"}, {"payload", Evaluation("ignored", "ok")}}.dump()).second["task_id"] == "w");
  std::thread hanging([&] {
    const auto [code, answer] = f.Post("/workflow/submit", Json{{"payload", Evaluation("long", "hang")}}.dump());
    CHECK(code == 409);
    CHECK(absl::StrContains(answer["detail"].get<std::string>(), "cancelled"));
  });
  CHECK(Eventually([&] { return f.engine.counts.hanging == 1; }));
  CHECK(f.Get("/status/long").second["status"] == "processing");
  const auto cancelled = f.Client().Delete("/tasks/long");
  REQUIRE(cancelled);
  CHECK(cancelled->status == 200);
  hanging.join();
  CHECK(f.Client().Delete("/tasks/long")->status == 404);
  f.engine.counts.release.Notify();
}

TEST_CASE("Bodies that are no JSON, too large, too deep or of wrong types get a 4xx that says what is wrong",
          "[verifier][http]") {
  GatewayFixture f;
  f.Start();
  Json typed = Evaluation("t", "ok");
  const auto with = [&](const char* field, const Json& value) {
    Json changed = typed;
    changed[field] = value;
    return changed.dump();
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"{\"task_id\": \"\xff\xfe\"}", "not JSON"},
      {"[]", "not an object"},
      {"\"text\"", "not an object"},
      {std::string(100'000, '['), "levels deep"},
      {"{\"a\":" + std::string(500, '[') + std::string(500, ']') + "}", "levels deep"},
      {with("task_id", 7), "task_id"},
      {with("task_id", std::string(101, 'x')), "task_id"},
      {with("kernel_code", ""), "kernel_code"},
      {with("reference_code", nullptr), "reference_code"},
      {with("num_correct_trials", 21), "1 to 20"},
      {with("num_perf_trials", "many"), "num_perf_trials"},
      {with("timeout", 5), "10 to 3600"},
      {with("priority", "urgent"), "urgent"},
      {with("backend", "metal"), "metal"},
      {with("backend", "musa"), "it has: cpu"},
      {with("entry_point", "a b"), "entry_point"},
      {with("workflow", "other"), "kernelbench"},
  };
  for (const auto& [body, word] : cases) {
    const auto [code, answer] = f.Post("/evaluate", body);
    INFO(body.substr(0, 100) << " -> " << answer.dump());
    CHECK(code == 400);
    CHECK(absl::StrContains(answer["detail"].get<std::string>(), word));
    CHECK(answer["error_code"] == "VALIDATION_ERROR");
  }
  const auto [large, answer] = f.Post("/evaluate", std::string((1 << 20) + 1, ' '));
  CHECK(large == 413);
  CHECK(absl::StrContains(answer["detail"].get<std::string>(), "1048576"));
  CHECK(f.Post("/evaluate", typed.dump()).first == 200);
  CHECK(f.Get("/no/such/path").first == 404);
}

TEST_CASE("All bodies together are bounded", "[verifier][http]") {
  GatewayFixture f;
  f.options.memory_bytes = 1000;
  f.Start();
  CHECK(f.Post("/evaluate", Evaluation("t", "ok " + std::string(2000, 'x')).dump()).first == 503);
  CHECK(f.Post("/evaluate", Evaluation("t", "ok").dump()).first == 200);
}

TEST_CASE("Our own request takes plain text and returns the whole verdict", "[verifier][http]") {
  GatewayFixture f;
  f.Start();
  Json request = {{"task", {{"reference", "reference"}}}, {"candidate", {{"source", "incorrect \"\\"}, {"backend", "BACKEND_CPU"}}},
                  {"trace_id", "abc"}};
  const auto [code, answer] = f.Post("/v1/verify", request.dump());
  INFO(answer.dump());
  CHECK(code == 200);
  CHECK(answer["verdict"]["status"] == "VERDICT_STATUS_INCORRECT");
  CHECK(answer["verdict"]["message"] == "judged incorrect \"\\");
  request["from_a_newer_version"] = 1;
  const auto [newer, refusal] = f.Post("/v1/verify", request.dump());
  CHECK(newer == 400);
  CHECK(absl::StrContains(refusal["detail"].get<std::string>(), "from_a_newer_version"));
  CHECK(f.Get("/v1/capabilities").second["devices"] == Json{"fake cpu"});
}

TEST_CASE("Health, queue and metrics keep KernelGYM's fields", "[verifier][http]") {
  GatewayFixture f;
  f.Start();
  const Json health = f.Get("/health").second;
  CHECK(health["status"] == "healthy");
  for (const char* field : {"timestamp", "gpu_status", "queue_status", "memory_usage", "active_tasks", "total_processed", "uptime"}) {
    CHECK(health.contains(field));
  }
  CHECK(f.Get("/queue/status").second["pending"] == 0);
  CHECK(f.Get("/metrics").second.contains("queue_metrics"));
  const auto text = f.Client().Get("/metrics", {{"Accept", "text/plain"}});
  REQUIRE(text);
  CHECK(absl::StrContains(text->body, "hone_queue_up 1"));
}

TEST_CASE("A trace id comes in by header, also in W3C's form, and goes out again", "[verifier][http]") {
  GatewayFixture f;
  f.Start();
  const auto ours = f.Client().Post("/evaluate", {{"X-Trace-Id", "mine"}}, Evaluation("t", "ok").dump(), "application/json");
  CHECK(ours->get_header_value("X-Trace-Id") == "mine");
  const auto w3c = f.Client().Post("/evaluate", {{"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}},
                                   Evaluation("t", "ok").dump(), "application/json");
  CHECK(w3c->get_header_value("X-Trace-Id") == "4bf92f3577b34da6a3ce929d0e0e4736");
}

TEST_CASE("Every path of the gateway stands in the OpenAPI document and the other way round", "[verifier][http]") {
  const absl::StatusOr<std::string> text = ReadFile(std::string(HONE_SOURCE_DIR) + "/verifier/service/openapi.json");
  REQUIRE(text.ok());
  const Json document = Json::parse(*text);
  CHECK(document["openapi"].get<std::string>().substr(0, 2) == "3.");
  GatewayFixture f;
  f.Start();
  httplib::Client client = f.Client();
  for (const auto& [path, item] : document["paths"].items()) {
    std::string concrete = path;
    if (const size_t brace = concrete.find('{'); brace != std::string::npos) concrete = concrete.substr(0, brace) + "x";
    for (const auto& [method, operation] : item.items()) {
      INFO(method << " " << path);
      const auto answer = method == "get"    ? client.Get(concrete.c_str())
                          : method == "post" ? client.Post(concrete.c_str(), "no json", "application/json")
                                             : client.Delete(concrete.c_str());
      REQUIRE(answer);
      CHECK_FALSE(absl::StrContains(answer->body, "no such path"));
      if (method == "post") CHECK(answer->status == 400);
    }
  }
  INFO("references resolve");
  const std::string all = document.dump();
  for (size_t at = all.find("#/components/schemas/"); at != std::string::npos; at = all.find("#/components/schemas/", at + 1)) {
    const size_t begin = at + 21;
    CHECK(document["components"]["schemas"].contains(all.substr(begin, all.find('"', begin) - begin)));
  }
}

// ------------------------------------------------------------------------------------------------------------- tokens

std::string TokenLine(const std::string& client, const std::string& token, const std::string& end, int quota) {
  return absl::StrCat(client, " ", Sha256Hex(token), " ", end, " ", quota, "\n");
}

TEST_CASE("Wrong, missing and expired tokens are told apart, and a quota bounds open requests", "[verifier][access]") {
  const TempFolder folder = MemoryFolder("tokens");
  const std::string path = folder.path() + "/tokens";
  REQUIRE(WriteFileAtomically(path, "# who\n" + TokenLine("trainer", "secret", "never", 2) +
                                        TokenLine("old", "stale", "2020-01-01T00:00:00Z", 1)).ok());
  const auto access = AccessControl::Load(path, Logger::Discard());
  REQUIRE(access.ok());
  CHECK(absl::IsUnauthenticated((*access)->Admit("").status()));
  CHECK(absl::StrContains((*access)->Admit("Bearer guess").status().message(), "unknown"));
  const absl::Status expired = (*access)->Admit("Bearer stale").status();
  CHECK(absl::IsUnauthenticated(expired));
  CHECK(absl::StrContains(expired.message(), "expired at 2020-01-01"));
  auto one = (*access)->Admit("Bearer secret");
  const auto two = (*access)->Admit("Bearer secret");
  REQUIRE(two.ok());
  CHECK((*two)->client() == "trainer");
  const absl::Status spent = (*access)->Admit("Bearer secret").status();
  CHECK(absl::IsResourceExhausted(spent));
  CHECK(absl::StrContains(spent.message(), "trainer has 2"));
  one->reset();
  CHECK((*access)->Admit("Bearer secret").ok());
}

TEST_CASE("A token file is read again when it changes, and a broken one changes nothing", "[verifier][access]") {
  const TempFolder folder = MemoryFolder("tokens");
  const std::string path = folder.path() + "/tokens";
  REQUIRE(WriteFileAtomically(path, TokenLine("a", "one", "never", 9)).ok());
  const auto access = AccessControl::Load(path, Logger::Discard());
  REQUIRE(access.ok());
  REQUIRE(WriteFileAtomically(path, TokenLine("a", "one", "never", 9) + TokenLine("b", "two", "never", 9)).ok());
  CHECK(Eventually([&] { return (*access)->Admit("Bearer two").ok(); }));
  REQUIRE(WriteFileAtomically(path, "nonsense").ok());
  absl::SleepFor(absl::Milliseconds(1200));
  CHECK((*access)->Admit("Bearer two").ok());
  for (const std::string& bad : {std::string("x\n"), std::string("a b never 1\n"), TokenLine("a", "t", "soon", 1),
                                 TokenLine("a", "t", "never", 0), TokenLine("a", "t", "never", 1) + TokenLine("b", "t", "never", 1)}) {
    REQUIRE(WriteFileAtomically(path, "# first line\n" + bad).ok());
    const absl::Status status = AccessControl::Load(path, Logger::Discard()).status();
    INFO(status.ToString());
    CHECK(absl::IsInvalidArgument(status));
    CHECK(absl::StrContains(status.message(), path + ":"));
  }
}

TEST_CASE("The gateway lets nobody in without a token but to its health", "[verifier][http][access]") {
  GatewayFixture f;
  const std::string path = f.engine.folder.path() + "/tokens";
  REQUIRE(WriteFileAtomically(path, TokenLine("trainer", "secret", "never", 1)).ok());
  f.access = *AccessControl::Load(path, Logger::Discard());
  f.Start();
  const httplib::Headers token = {{"Authorization", "Bearer secret"}};
  CHECK(f.Post("/evaluate", Evaluation("t", "ok").dump()).first == 401);
  CHECK(f.Post("/evaluate", Evaluation("t", "ok").dump(), {{"Authorization", "Bearer wrong"}}).first == 401);
  CHECK(f.Get("/queue/status").first == 401);
  CHECK(f.Get("/health").first == 200);
  CHECK(f.Post("/evaluate", Evaluation("t", "ok").dump(), token).first == 200);
  std::thread hanging([&] { f.Post("/evaluate", Evaluation("long", "hang").dump(), token); });
  CHECK(Eventually([&] { return f.engine.counts.hanging == 1; }));
  CHECK(f.Post("/evaluate", Evaluation("t", "ok").dump(), token).first == 429);
  f.engine.counts.release.Notify();
  hanging.join();
}

}  // namespace
}  // namespace hone::verifier
