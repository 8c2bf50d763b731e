#include "rollout/serve/openai_server.h"

#include <httplib.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/file.h"
#include "rollout/engine/openai_http.h"
#include "tests/support/page_reader.h"

// The server and the client of the OpenAI API, over a real socket, with a runner that has no model.

namespace hone::rollout {
namespace {

using Json = nlohmann::json;
using testing::ExpectedTokens;
using testing::PageReader;

constexpr int32_t kVocab = 300;

// A byte-level tokenizer: 256 bytes, then made-up words and <end>.
std::unique_ptr<policy::Tokenizer> MakeTokenizer() {
  return policy::Tokenizer::Load(HONE_TEST_DATA "/gpt2.json").value();
}

struct Served {
  PageReader runner{400, 16, 64, 1, kVocab};
  Scheduler scheduler{runner};
  std::unique_ptr<policy::Tokenizer> tokenizer = MakeTokenizer();
  std::unique_ptr<policy::ChatTemplate> chat = policy::ChatTemplate::ChatMl();
  TextService service{{}, scheduler, *tokenizer, nullptr};
  std::unique_ptr<OpenAiServer> server = OpenAiServer::Start({.port = 0, .threads = 16, .model_name = "tiny", .context = 4000, .end_ids = {7}}, service, *tokenizer, *chat).value();

  std::string url() const { return "http://127.0.0.1:" + std::to_string(server->port()) + "/v1"; }
  httplib::Result Post(const std::string& path, const std::string& body) const {
    httplib::Client client("127.0.0.1", server->port());
    return client.Post(path.c_str(), body, "application/json");
  }
};

TEST_CASE("Whole and streamed answers agree, and both are what the engine generated", "[rollout][serve]") {
  Served served;
  const std::string body = R"({"prompt": [3, 4, 5], "max_tokens": 12, "n": 2, "seed": 9, "logprobs": 1, "return_token_ids": true, "ignore_eos": true)";
  const auto whole = served.Post("/v1/completions", body + "}");
  REQUIRE(whole);
  REQUIRE(whole->status == 200);
  const Json answer = Json::parse(whole->body);
  REQUIRE(answer["choices"].size() == 2);
  CHECK(answer["usage"]["prompt_tokens"] == 3);
  CHECK(answer["usage"]["completion_tokens"] == 24);
  GenerationRequest request{{3, 4, 5}, 2, 9, {}};
  request.sampling.max_tokens = 12;
  std::vector<std::string> texts(2);
  for (size_t j = 0; j < 2; ++j) {
    std::vector<int32_t> ids;
    for (const TokenDraw& draw : ExpectedTokens(request, j, kVocab)) ids.push_back(draw.id);
    CHECK(answer["choices"][j]["token_ids"].get<std::vector<int32_t>>() == ids);
    CHECK(answer["choices"][j]["text"] == served.tokenizer->Decode(ids, true));
    CHECK(answer["choices"][j]["finish_reason"] == "length");
  }
  const auto streamed = served.Post("/v1/completions", body + R"(, "stream": true, "stream_options": {"include_usage": true}})");
  REQUIRE(streamed);
  CHECK(streamed->get_header_value("Content-Type") == "text/event-stream");
  size_t at = 0;
  int64_t usage = 0;
  bool done = false;
  while ((at = streamed->body.find("data: ", at)) != std::string::npos) {
    const size_t end = streamed->body.find("\n\n", at);
    const std::string data = streamed->body.substr(at + 6, end - at - 6);
    at = end;
    if (data == "[DONE]") {
      done = true;
      continue;
    }
    const Json chunk = Json::parse(data);
    if (chunk.contains("usage")) usage = chunk["usage"]["completion_tokens"];
    for (const Json& choice : chunk["choices"]) texts[choice["index"].get<size_t>()] += choice["text"].get<std::string>();
  }
  CHECK(done);
  CHECK(usage == 24);
  for (size_t j = 0; j < 2; ++j) CHECK(texts[j] == answer["choices"][j]["text"]);
}

TEST_CASE("A chat is answered through the template, until the model's own end", "[rollout][serve]") {
  Served served;
  const auto answer = served.Post("/v1/chat/completions", R"({"model": "tiny", "messages": [{"role": "user", "content": "hello"}], "seed": 1})");
  REQUIRE(answer);
  REQUIRE(answer->status == 200);
  const Json json = Json::parse(answer->body);
  CHECK(json["object"] == "chat.completion");
  CHECK(json["choices"][0]["message"]["role"] == "assistant");
  CHECK(json["choices"][0]["finish_reason"] == "stop");  // 1 in 300 tokens ends, and the context has room for 4000
}

TEST_CASE("Refusals are JSON with the code that clients know", "[rollout][serve]") {
  Served served;
  const auto refused = [&](const std::string& path, const std::string& body, int code, const std::string& message) {
    const auto answer = served.Post(path, body);
    REQUIRE(answer);
    CHECK(answer->status == code);
    CHECK(Json::parse(answer->body)["error"]["message"] == message);
  };
  refused("/v1/completions", "{", 400, "the body is not a JSON object");
  refused("/v1/completions", R"({"prompt": "x", "model": "gpt-5"})", 404, "model \"gpt-5\" is not served here; \"tiny\" is");
  refused("/v1/completions", Json{{"prompt", std::vector<int32_t>(4000, 1)}}.dump(), 400, "the prompt has 4000 tokens, the context is 4000");
  refused("/v1/embeddings", "{}", 404, "POST /v1/embeddings is not served here");
}

TEST_CASE("More samples than a server ever lets wait are refused for good, not for now", "[rollout][serve]") {
  PageReader runner{400, 16, 64, 1, kVocab};
  Scheduler scheduler{runner};
  const auto tokenizer = MakeTokenizer();
  TextService service({.max_waiting = 2}, scheduler, *tokenizer, nullptr);
  TextRequest request;
  request.generation.prompt_ids = {1};
  request.generation.samples = 3;
  const auto refused = service.Submit(request);
  CHECK(refused.status() == absl::InvalidArgumentError("n = 3, allowed at most 2 here"));
  request.generation.samples = 2;
  CHECK(service.Submit(request).ok());
}

TEST_CASE("A client that goes away ends its request", "[rollout][serve]") {
  Served served;
  {
    httplib::Client client("127.0.0.1", served.server->port());
    httplib::Request request;
    request.method = "POST";
    request.path = "/v1/completions";
    request.body = R"({"prompt": [3], "max_tokens": 3900, "ignore_eos": true, "stream": true, "n": 4})";
    request.content_receiver = [](const char*, size_t, uint64_t, uint64_t) { return false; };
    client.send(request);
  }
  for (int i = 0; i < 1000 && served.service.stats().running + served.service.stats().waiting > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(served.service.stats().running == 0);
  CHECK(served.service.stats().free_pages == 400);
}

GenerationRequest Request(std::vector<int32_t> prompt, int64_t samples, uint64_t seed, int64_t tokens) {
  GenerationRequest request{std::move(prompt), samples, seed, {}};
  request.sampling.max_tokens = tokens;
  return request;
}

TEST_CASE("The HTTP engine returns the ids, log-probs and versions that the engine behind the server made", "[rollout][serve]") {
  Served served;
  served.scheduler.set_version(5);
  const auto engine = OpenAiEngine::Create({.url = served.url()}).value();
  CHECK(engine->model() == "tiny");
  std::vector<GenerationRequest> requests{Request({1, 2, 3}, 4, 11, 30), Request({9}, 2, 12, 50), Request({4, 4}, 1, 13, 20)};
  requests[1].sampling.stop_ids = {17, 18, 19, 20, 21, 22, 23, 24, 25, 26};
  std::set<std::pair<size_t, size_t>> told;
  GenerateOptions options;
  options.on_sample = [&](size_t i, size_t j, const Sample&) { CHECK(told.insert({i, j}).second); };
  const auto results = engine->Generate(requests, options).value();
  CHECK(told.size() == 7);
  for (size_t i = 0; i < requests.size(); ++i) {
    for (size_t j = 0; j < results[i].size(); ++j) {
      const std::vector<TokenDraw> wanted = ExpectedTokens(requests[i], j, kVocab);
      REQUIRE(results[i][j].ids.size() == wanted.size());
      for (size_t t = 0; t < wanted.size(); ++t) {
        CHECK(results[i][j].ids[t] == wanted[t].id);
        CHECK(results[i][j].log_probs[t] == wanted[t].log_prob);
      }
      CHECK((results[i][j].versions == std::vector<VersionSpan>{{0, static_cast<int64_t>(wanted.size()), 5}}));
      CHECK(results[i][j].finish == (static_cast<int64_t>(wanted.size()) < requests[i].sampling.max_tokens ? FinishReason::kStop : FinishReason::kLength));
    }
  }
}

TEST_CASE("The HTTP engine ends samples that the caller wants no more of, and all of them on abort", "[rollout][serve]") {
  Served served;
  const auto engine = OpenAiEngine::Create({.url = served.url()}).value();
  GenerateOptions options;
  options.stop = [](size_t, size_t, const Sample& so_far) { return so_far.ids.size() == 5; };
  const auto cut = engine->Generate({Request({1}, 2, 1, 3000)}, options).value();
  for (const Sample& sample : cut[0]) {
    CHECK(sample.ids.size() == 5);
    CHECK(sample.finish == FinishReason::kStop);
  }
  std::atomic<bool> abort = true;
  GenerateOptions aborting;
  aborting.abort = &abort;
  const auto aborted = engine->Generate({Request({1}, 2, 1, 3000)}, aborting).value();
  for (const Sample& sample : aborted[0]) CHECK(sample.finish == FinishReason::kAborted);
}

// A server that says what it is told to, one answer after another.
struct Scripted {
  std::vector<std::pair<int, std::string>> answers;
  std::atomic<size_t> asked = 0;
  std::vector<std::string> bodies;
  std::string owner = "vllm";
  std::string models;  // in place of a list with "m" of `owner`
  httplib::Server http;
  int port = 0;
  std::thread thread;

  explicit Scripted(std::vector<std::pair<int, std::string>> script) : answers(std::move(script)) {
    http.Get("/v1/models", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(models.empty() ? Json{{"data", {{{"id", "m"}, {"owned_by", owner}}}}}.dump() : models, "application/json");
    });
    http.Post("/v1/completions", [this](const httplib::Request& request, httplib::Response& response) {
      const auto& [code, body] = answers[std::min<size_t>(asked++, answers.size() - 1)];
      bodies.push_back(request.body);
      response.status = code;
      response.set_content(body, code == 200 ? "text/event-stream" : "application/json");
    });
    port = http.bind_to_any_port("127.0.0.1");
    thread = std::thread([this] { http.listen_after_bind(); });
    while (!http.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~Scripted() {
    http.stop();
    thread.join();
  }
  absl::StatusOr<std::vector<std::vector<Sample>>> Generate(GenerationRequest request, OpenAiEngineOptions options = {}) {
    options.url = "http://127.0.0.1:" + std::to_string(port) + "/v1";
    options.retry_wait_ms = 1;
    const auto engine = OpenAiEngine::Create(options);
    if (!engine.ok()) return engine.status();
    return (*engine)->Generate({request}, {});
  }
};

std::string Events(const std::vector<std::string>& events) {
  std::string out;
  for (const std::string& event : events) out += "data: " + event + "\n\n";
  return out + "data: [DONE]\n\n";
}

const std::string kGood = Events({R"({"choices": [{"index": 0, "text": "ab", "token_ids": [5, 6], "logprobs": {"token_logprobs": [-0.5, -1.5]}, "finish_reason": null}]})",
                                  R"({"choices": [{"index": 0, "text": "", "token_ids": [], "logprobs": null, "finish_reason": "length"}]})"});

TEST_CASE("Answers as vLLM and llama.cpp spell them are understood", "[rollout][serve]") {
  const std::string spelled = Events({R"({"choices": [{"index": 0, "text": "ab", "logprobs": {"tokens": ["token_id:5", "token_id:6"], "token_logprobs": [-0.5, -1.5]}, "finish_reason": "length"}]})"});
  const std::string content = Events({R"({"choices": [{"index": 0, "text": "ab", "logprobs": {"content": [{"id": 5, "token": "a", "logprob": -0.5}, {"id": 6, "token": "b", "logprob": -1.5}]}, "finish_reason": "length"}]})"});
  for (const std::string& body : {kGood, spelled, content}) {
    Scripted server({{200, body}});
    const auto result = server.Generate(Request({1, 2}, 1, 3, 2)).value()[0][0];
    CHECK((result.ids == std::vector<int32_t>{5, 6}));
    CHECK((result.log_probs == std::vector<float>{-0.5f, -1.5f}));
    CHECK(result.finish == FinishReason::kLength);
    const Json sent = Json::parse(server.bodies.at(0));
    CHECK(sent["prompt"] == Json({1, 2}));
    CHECK(sent["return_token_ids"] == true);
  }
}

TEST_CASE("An exchange recorded from llama.cpp gives its ids and log-probs", "[rollout][serve]") {
  Scripted server({{200, ReadFile(HONE_RECORDED "/llama_cpp.sse").value()}});
  server.models = ReadFile(HONE_RECORDED "/llama_cpp_models.json").value();
  const auto result = server.Generate(Request({2, 818, 5279, 529}, 2, 3, 5)).value()[0];
  CHECK((result[0].ids == std::vector<int32_t>{506, 34295, 529, 38475, 815}));
  CHECK((result[1].ids == std::vector<int32_t>{75380, 563, 21988, 580, 506}));
  CHECK(std::abs(result[0].log_probs[4] + 2.1315510f) < 1e-6f);
  CHECK(std::abs(result[1].log_probs[0] + 6.8669982f) < 1e-6f);
  const Json sent = Json::parse(server.bodies.at(0));
  CHECK(sent["top_k"] == 0);             // its own default is 40
  CHECK_FALSE(sent.contains("ignore_eos"));  // it would change the distribution
}

TEST_CASE("A busy, broken or cut-off server is asked again, a refusal is not", "[rollout][serve]") {
  Scripted busy({{429, R"({"error": {"message": "slow down"}})"}, {503, "x"}, {200, kGood.substr(0, kGood.size() - 20)}, {200, kGood}});
  const auto result = busy.Generate(Request({1}, 1, 3, 2));
  REQUIRE(result.ok());
  CHECK((*result)[0][0].ids.size() == 2);
  CHECK(busy.asked == 4);

  Scripted down({{500, R"({"error": {"message": "out of order"}})"}});
  const absl::Status lost = down.Generate(Request({1}, 1, 3, 2), {.retries = 3}).status();
  CHECK(lost.code() == absl::StatusCode::kUnavailable);
  CHECK(lost.message() == "request 0: HTTP 500: out of order");
  CHECK(down.asked == 4);

  Scripted strict({{400, R"({"error": {"message": "n is too large"}})"}});
  const absl::Status refused = strict.Generate(Request({1}, 1, 3, 2)).status();
  CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  CHECK(refused.message() == "request 0: HTTP 400: n is too large");
  CHECK(strict.asked == 1);
}

TEST_CASE("What a server does not return is refused with what is missing", "[rollout][serve]") {
  const auto refusal = [](const std::string& choice, GenerationRequest request = Request({1}, 1, 3, 2)) {
    Scripted server({{200, Events({"{\"choices\": [" + choice + "]}"})}});
    server.owner = "somebody";
    const absl::Status status = server.Generate(std::move(request)).status();
    CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  const std::string head = "request 0: the server does not return what an episode needs: ";
  CHECK(refusal(R"({"index": 0, "text": "ab", "logprobs": null, "finish_reason": "length"})") == head + "neither token ids nor log-probs came with the text");
  CHECK(refusal(R"({"index": 0, "text": "ab", "logprobs": {"tokens": ["a", "b"], "token_logprobs": [-1, -1]}, "finish_reason": "length"})") ==
        head + "no token ids (vLLM: a version with return_token_ids; llama.cpp: one with logprobs.content[].id)");
  CHECK(refusal(R"({"index": 0, "text": "ab", "token_ids": [1, 2], "logprobs": {"token_logprobs": [-1]}, "finish_reason": "length"})") == head + "1 log-probs for 2 tokens");
  CHECK(refusal(R"({"index": 0, "text": "ab", "token_ids": [1], "logprobs": {"token_logprobs": [0.5]}, "finish_reason": "length"})") ==
        head + "a log-prob that is missing or not at most 0: 0.5");
  CHECK(refusal(R"({"index": 0, "text": "ab", "token_ids": [1], "logprobs": {"token_logprobs": [null]}, "finish_reason": "length"})") ==
        head + "a log-prob that is missing or not at most 0: null");
  CHECK(refusal(R"({"index": 0, "text": "a", "token_ids": [1], "logprobs": {"token_logprobs": [-1]}, "finish_reason": "stop"})") ==
        head + "a sample ended (\"stop\") without the token that ended it; stop_ids has 0 ids");
}

TEST_CASE("Log-probs of the plain softmax do not pass for those of another distribution", "[rollout][serve]") {
  Scripted server({{200, kGood}});
  GenerationRequest warm = Request({1}, 1, 3, 2);
  warm.sampling.temperature = 0.8;
  CHECK(server.Generate(warm).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(server.asked == 0);
  CHECK(server.Generate(warm, {.log_probs = ServerLogProbs::kSampled}).ok());
}

TEST_CASE("An address or model that is not there is named", "[rollout][serve]") {
  CHECK(OpenAiEngine::Create({.url = "ftp://x"}).status().message() == "url = \"ftp://x\", must be http[s]://host[:port][/path]");
  CHECK(OpenAiEngine::Create({.url = "http://127.0.0.1:1/v1"}).status().code() == absl::StatusCode::kUnavailable);
  Scripted server({{200, kGood}});
  const std::string url = "http://127.0.0.1:" + std::to_string(server.port) + "/v1";
  CHECK(OpenAiEngine::Create({.url = url, .model = "other"}).status().message() == url + " has no model \"other\"; it lists m");
}

}  // namespace
}  // namespace hone::rollout
