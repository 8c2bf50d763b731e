#include "rollout/engine/openai_http.h"

#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace hone::rollout {
namespace {

using Json = nlohmann::json;

struct Address {
  std::string host;  // "http://host:port"
  std::string path;  // "/v1"
};

absl::StatusOr<Address> ParseUrl(const std::string& url) {
  const size_t scheme = absl::StartsWith(url, "http://") ? 7 : absl::StartsWith(url, "https://") ? 8 : 0;
  if (scheme == 0 || url.size() == scheme) {
    return absl::InvalidArgumentError(absl::StrCat("url = \"", url, "\", must be http[s]://host[:port][/path]"));
  }
  const size_t slash = url.find('/', scheme);
  Address address{url.substr(0, slash), slash == std::string::npos ? "" : url.substr(slash)};
  while (absl::EndsWith(address.path, "/")) address.path.pop_back();
  return address;
}

// What a server said about one sample: some tokens, or its end.
struct Piece {
  size_t sample = 0;
  std::vector<int32_t> ids;
  std::vector<float> log_probs;
  std::string finish;  // empty: not yet
  std::vector<VersionSpan> versions;
};

absl::Status Lacks(const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat("the server does not return what an episode needs: ", what));
}

bool ReadIds(const Json& list, std::vector<int32_t>& ids) {
  for (const Json& id : list) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) return false;
    ids.push_back(id.get<int32_t>());
  }
  return true;
}

// The three spellings of a token's id; see the header.
absl::Status ReadTokens(const Json& choice, Piece& piece) {
  const Json* log_probs = choice.contains("logprobs") && choice["logprobs"].is_object() ? &choice["logprobs"] : nullptr;
  const Json* content = log_probs != nullptr && log_probs->contains("content") && (*log_probs)["content"].is_array() ? &(*log_probs)["content"] : nullptr;
  const Json* tokens = log_probs != nullptr && log_probs->contains("tokens") && (*log_probs)["tokens"].is_array() ? &(*log_probs)["tokens"] : nullptr;
  const bool has_text = choice.contains("text") && choice["text"].is_string() && !choice["text"].get<std::string>().empty();
  if (choice.contains("token_ids") && choice["token_ids"].is_array()) {
    if (!ReadIds(choice["token_ids"], piece.ids)) return Lacks("token_ids is not a list of ids");
  } else if (content != nullptr) {
    for (const Json& token : *content) {
      if (!token.is_object() || !token.contains("id") || !token["id"].is_number_integer()) return Lacks("logprobs.content has no token ids");
      piece.ids.push_back(token["id"].get<int32_t>());
    }
  } else if (tokens != nullptr) {
    for (const Json& token : *tokens) {
      int32_t id = 0;
      const std::string text = token.is_string() ? token.get<std::string>() : "";
      if (!absl::StartsWith(text, "token_id:") || !absl::SimpleAtoi(text.substr(9), &id)) {
        return Lacks("no token ids (vLLM: a version with return_token_ids; llama.cpp: one with logprobs.content[].id)");
      }
      piece.ids.push_back(id);
    }
  } else if (has_text) {
    return Lacks("neither token ids nor log-probs came with the text");
  }
  const auto add = [&](const Json& value) {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() > 1e-3) return false;
    piece.log_probs.push_back(std::min(0.0f, value.get<float>()));
    return true;
  };
  if (content != nullptr) {
    for (const Json& token : *content) {
      if (!token.is_object() || !token.contains("logprob") || !add(token["logprob"])) return Lacks(absl::StrCat("a log-prob that is missing or not at most 0: ", token.dump()));
    }
  } else if (log_probs != nullptr && log_probs->contains("token_logprobs") && (*log_probs)["token_logprobs"].is_array()) {
    for (const Json& value : (*log_probs)["token_logprobs"]) {
      if (!add(value)) return Lacks(absl::StrCat("a log-prob that is missing or not at most 0: ", value.dump()));
    }
  }
  if (piece.log_probs.size() != piece.ids.size()) {
    return Lacks(absl::StrCat(piece.log_probs.size(), " log-probs for ", piece.ids.size(), " tokens"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Piece> ReadChoice(const Json& choice, size_t samples) {
  Piece piece;
  const bool indexed = choice.is_object() && choice.contains("index") && choice["index"].is_number_integer();
  if (!indexed || choice["index"].get<int64_t>() < 0 || choice["index"].get<size_t>() >= samples) {
    return absl::InternalError("the server answered with a choice that was not asked for");
  }
  piece.sample = choice["index"].get<size_t>();
  HONE_RETURN_IF_ERROR(ReadTokens(choice, piece));
  if (choice.contains("finish_reason") && choice["finish_reason"].is_string()) piece.finish = choice["finish_reason"].get<std::string>();
  if (choice.contains("policy_versions") && choice["policy_versions"].is_array()) {
    for (const Json& span : choice["policy_versions"]) {
      if (span.is_array() && span.size() == 3 && span[0].is_number_integer() && span[1].is_number_integer() && span[2].is_number_integer()) {
        piece.versions.push_back({span[0].get<int64_t>(), span[1].get<int64_t>(), span[2].get<int64_t>()});
      }
    }
  }
  return piece;
}

// Splits a body of server-sent events into their data as it arrives.
class EventStream {
 public:
  /// Returns the data of the events that `bytes` completes.
  std::vector<std::string> Push(absl::string_view bytes) {
    buffer_.append(bytes.data(), bytes.size());
    std::vector<std::string> out;
    size_t end;
    while ((end = buffer_.find('\n')) != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      absl::string_view data = line;
      if (absl::ConsumePrefix(&data, "data:")) out.emplace_back(absl::StripAsciiWhitespace(data));
    }
    return out;
  }

 private:
  std::string buffer_;
};

std::string ErrorText(const std::string& body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("error")) {
    const Json& error = json["error"];
    if (error.is_object() && error.contains("message") && error["message"].is_string()) return error["message"].get<std::string>();
    if (error.is_string()) return error.get<std::string>();
  }
  if (json.is_object() && json.contains("message") && json["message"].is_string()) return json["message"].get<std::string>();
  return body.substr(0, 200);
}

// An answer that says that the same request may succeed later.
bool Passing(int code) { return code == 408 || code == 425 || code == 429 || code >= 500; }

}  // namespace

struct OpenAiEngine::State {
  OpenAiEngineOptions options;
  Address address;
  std::string model;
  bool knows_stop_ids = false;  // vLLM's stop_token_ids and ignore_eos
  int64_t version = 0;

  httplib::Client MakeClient() const {
    httplib::Client client(address.host);
    client.set_read_timeout(options.idle_timeout_s, 0);
    client.set_connection_timeout(10, 0);
    client.set_tcp_nodelay(true);
    if (!options.api_key.empty()) client.set_bearer_token_auth(options.api_key);
    return client;
  }

  std::string Body(const GenerationRequest& request) const {
    const SamplingOptions& s = request.sampling;
    Json body{{"model", model}, {"prompt", request.prompt_ids}, {"n", request.samples}, {"max_tokens", s.max_tokens},
              {"temperature", s.temperature}, {"top_p", s.top_p}, {"seed", static_cast<int64_t>(request.seed & INT64_MAX)},
              {"logprobs", 1}, {"stream", true}, {"return_token_ids", true},
              {"top_k", s.top_k}, {"min_p", s.min_p}};  // said even when off: llama.cpp's defaults are on
    if (knows_stop_ids) {
      body["stop_token_ids"] = s.stop_ids;
      body["ignore_eos"] = true;
    }
    return body.dump();
  }
};

namespace {

// One call of Generate: workers talk to the server, the caller's thread puts the pieces together.
class Exchange {
 public:
  struct News {
    size_t request;
    bool restarted = false;  // the request begins again
    bool over = false;       // nothing more of it comes
    absl::Status status;     // with over
    Piece piece;
  };
  struct Call {
    const GenerationRequest* wanted;
    std::string body;
    int64_t version;
    std::atomic<bool> unwanted = false;  // all its samples have ended
  };

  void Tell(News news) {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(news));
    changed_.notify_one();
  }
  std::optional<News> Hear(std::chrono::milliseconds wait) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, wait, [&] { return !news_.empty(); })) return std::nullopt;
    News news = std::move(news_.front());
    news_.pop_front();
    return news;
  }

  std::deque<Call> calls;
  std::atomic<size_t> next = 0;
  std::atomic<bool> give_up = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<News> news_;
};

struct Attempt {
  absl::Status status;
  bool again = false;
};

// One HTTP request, its answer told piece by piece.
Attempt Ask(httplib::Client& client, const std::string& path, Exchange& exchange, size_t index) {
  Exchange::Call& call = exchange.calls[index];
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.headers = {{"Content-Type", "application/json"}, {"Accept", "text/event-stream"}};
  request.body = call.body;
  EventStream events;
  std::string error_body;
  absl::Status status;
  int code = 0;
  bool ended = false;
  request.response_handler = [&](const httplib::Response& response) {
    code = response.status;
    return true;
  };
  request.content_receiver = [&](const char* bytes, size_t size, uint64_t, uint64_t) {
    if (exchange.give_up || call.unwanted) return false;
    if (code != 200) {
      error_body.append(bytes, std::min<size_t>(size, 4096));
      return error_body.size() < 65536;
    }
    for (const std::string& data : events.Push({bytes, size})) {
      if (data == "[DONE]") {
        ended = true;
        continue;
      }
      const Json json = Json::parse(data, nullptr, /*allow_exceptions=*/false);
      if (!json.is_object() || json.contains("error")) {
        status = absl::UnavailableError(absl::StrCat("the server broke off: ", ErrorText(data)));
        return false;
      }
      if (!json.contains("choices") || !json["choices"].is_array()) continue;
      for (const Json& choice : json["choices"]) {
        absl::StatusOr<Piece> piece = ReadChoice(choice, static_cast<size_t>(call.wanted->samples));
        if (!piece.ok()) {
          status = piece.status();
          return false;
        }
        exchange.Tell({index, false, false, {}, std::move(*piece)});
      }
    }
    return true;
  };
  const httplib::Result result = client.send(request);
  if (exchange.give_up || call.unwanted) return {};
  if (!status.ok()) return {status, absl::IsUnavailable(status)};
  if (!result) return {absl::UnavailableError(absl::StrCat("no answer: ", httplib::to_string(result.error()))), true};
  if (result->status != 200) {
    const std::string text = absl::StrCat("HTTP ", result->status, ": ", ErrorText(error_body));
    return {Passing(result->status) ? absl::UnavailableError(text) : absl::InvalidArgumentError(text), Passing(result->status)};
  }
  if (!ended) return {absl::UnavailableError("the answer was cut off"), true};
  return {};
}

}  // namespace

OpenAiEngine::OpenAiEngine(std::unique_ptr<State> state) : state_(std::move(state)) {}
OpenAiEngine::~OpenAiEngine() = default;

absl::StatusOr<std::unique_ptr<OpenAiEngine>> OpenAiEngine::Create(const OpenAiEngineOptions& options) {
  auto state = std::make_unique<State>();
  state->options = options;
  HONE_ASSIGN_OR_RETURN(state->address, ParseUrl(options.url));
  if (options.max_requests < 1) return absl::InvalidArgumentError(absl::StrCat("max_requests = ", options.max_requests, ", allowed >= 1"));
  httplib::Client client = state->MakeClient();
  const httplib::Result answer = client.Get(state->address.path + "/models");
  if (!answer) return absl::UnavailableError(absl::StrCat(options.url, ": no answer: ", httplib::to_string(answer.error())));
  if (answer->status != 200) return absl::UnavailableError(absl::StrCat(options.url, "/models: HTTP ", answer->status, ": ", ErrorText(answer->body)));
  const Json json = Json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> names;
  if (json.is_object() && json.contains("data") && json["data"].is_array()) {
    for (const Json& model : json["data"]) {
      if (!model.is_object() || !model.contains("id") || !model["id"].is_string()) continue;
      names.push_back(model["id"].get<std::string>());
      const std::string owner = model.contains("owned_by") && model["owned_by"].is_string() ? model["owned_by"].get<std::string>() : "";
      if (names.back() == options.model || (options.model.empty() && names.size() == 1)) state->knows_stop_ids = owner == "vllm" || owner == "hone" || owner == "sglang";
    }
  }
  if (names.empty()) return absl::NotFoundError(absl::StrCat(options.url, " lists no model"));
  state->model = options.model.empty() ? names[0] : options.model;
  if (std::find(names.begin(), names.end(), state->model) == names.end()) {
    return absl::NotFoundError(absl::StrCat(options.url, " has no model \"", state->model, "\"; it lists ", absl::StrJoin(names, ", ")));
  }
  return std::unique_ptr<OpenAiEngine>(new OpenAiEngine(std::move(state)));
}

absl::StatusOr<std::vector<std::vector<Sample>>> OpenAiEngine::Generate(absl::Span<const GenerationRequest> requests, const GenerateOptions& options) {
  State& s = *state_;
  Exchange exchange;
  std::vector<std::vector<Sample>> results(requests.size());
  std::vector<std::vector<bool>> ended(requests.size());
  std::vector<int64_t> open(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const GenerationRequest& request = requests[i];
    const auto bad = [&](absl::string_view text) { return absl::InvalidArgumentError(absl::StrCat("request ", i, ": ", text)); };
    if (const absl::Status status = Validate(request.sampling); !status.ok()) return bad(std::string(status.message()));
    if (request.samples < 1) return bad(absl::StrCat("samples = ", request.samples, ", allowed >= 1"));
    if (request.prompt_ids.empty()) return bad("the prompt is empty");
    const SamplingOptions& o = request.sampling;
    const bool plain = o.temperature == 0 || (o.temperature == 1 && o.top_k == 0 && o.top_p == 1 && o.min_p == 0);
    if (s.options.log_probs == ServerLogProbs::kPlain && !plain) {
      return bad("the server's log-probs are of the plain softmax: temperature must be 1, top_k, top_p and min_p off (or say that they are of the sampled distribution)");
    }
    exchange.calls.emplace_back();
    exchange.calls.back().wanted = &request;
    exchange.calls.back().body = s.Body(request);
    exchange.calls.back().version = s.version;
    results[i].resize(request.samples);
    ended[i].resize(request.samples, false);
    open[i] = request.samples;
  }

  const auto work = [&] {
    httplib::Client client = s.MakeClient();
    client.set_keep_alive(true);
    for (size_t i = exchange.next++; i < exchange.calls.size() && !exchange.give_up; i = exchange.next++) {
      Attempt attempt;
      int64_t wait_ms = s.options.retry_wait_ms;
      for (int64_t tries = 0; !exchange.give_up; ++tries) {
        attempt = Ask(client, s.address.path + "/completions", exchange, i);
        if (!attempt.again || tries >= s.options.retries) break;
        exchange.Tell({i, true, false, {}, {}});
        for (int64_t slept = 0; slept < wait_ms && !exchange.give_up; slept += 10) std::this_thread::sleep_for(std::chrono::milliseconds(std::min<int64_t>(10, wait_ms)));
        wait_ms = std::min<int64_t>(2 * wait_ms, 30000);
      }
      exchange.Tell({i, false, true, attempt.status, {}});
    }
  };
  std::vector<std::thread> workers;
  for (int64_t w = 0; w < std::min<int64_t>(s.options.max_requests, static_cast<int64_t>(requests.size())); ++w) workers.emplace_back(work);

  absl::Status status;
  const auto finish = [&](size_t i, size_t j, FinishReason reason) {
    if (ended[i][j]) return;
    ended[i][j] = true;
    results[i][j].finish = reason;
    if (--open[i] == 0) exchange.calls[i].unwanted = true;
    if (options.on_sample) options.on_sample(i, j, results[i][j]);
  };
  const auto take = [&](size_t i, const Piece& piece) -> absl::Status {
    const size_t j = piece.sample;
    if (ended[i][j]) return absl::OkStatus();
    Sample& sample = results[i][j];
    const std::vector<int32_t>& stops = requests[i].sampling.stop_ids;
    const auto is_stop = [&](int32_t id) { return std::find(stops.begin(), stops.end(), id) != stops.end(); };
    for (size_t t = 0; t < piece.ids.size() && !ended[i][j]; ++t) {
      sample.ids.push_back(piece.ids[t]);
      sample.log_probs.push_back(piece.log_probs[t]);
      sample.versions = {{0, static_cast<int64_t>(sample.ids.size()), exchange.calls[i].version}};
      // A server that knows the stop ids says itself that the sample has ended, and with which versions.
      const bool cut = !s.knows_stop_ids && is_stop(piece.ids[t]);
      if (cut || (options.stop && options.stop(i, j, sample))) finish(i, j, FinishReason::kStop);
    }
    if (ended[i][j] || piece.finish.empty()) return absl::OkStatus();
    if (!piece.versions.empty()) sample.versions = piece.versions;
    if (!sample.ids.empty() && is_stop(sample.ids.back())) {
      finish(i, j, FinishReason::kStop);
    } else if (piece.finish == "length") {
      finish(i, j, FinishReason::kLength);
    } else if (piece.finish == "abort") {
      finish(i, j, FinishReason::kAborted);
    } else {
      return Lacks(absl::StrCat("a sample ended (\"", piece.finish, "\") without the token that ended it; stop_ids has ", stops.size(), " ids"));
    }
    return absl::OkStatus();
  };

  size_t running = requests.size();
  bool aborted = false;
  while (running > 0 && status.ok() && !aborted) {
    aborted = options.abort != nullptr && options.abort->load();
    const std::optional<Exchange::News> news = exchange.Hear(std::chrono::milliseconds(20));
    if (!news) continue;
    const size_t i = news->request;
    if (news->restarted) {
      for (size_t j = 0; j < results[i].size(); ++j) {
        if (!ended[i][j]) results[i][j] = Sample{};
      }
    } else if (news->over) {
      --running;
      status = news->status;
      if (status.ok() && open[i] > 0) status = absl::UnavailableError("the answer ended before its samples");
    } else {
      status = take(i, news->piece);
    }
    if (!status.ok()) status = absl::Status(status.code(), absl::StrCat("request ", i, ": ", status.message()));
  }
  exchange.give_up = true;
  for (std::thread& worker : workers) worker.join();
  HONE_RETURN_IF_ERROR(status);
  for (size_t i = 0; i < results.size(); ++i) {
    for (size_t j = 0; j < results[i].size(); ++j) finish(i, j, FinishReason::kAborted);
  }
  return results;
}

absl::Status OpenAiEngine::SetPolicyVersion(int64_t version) {
  if (version < state_->version) {
    return absl::InvalidArgumentError(absl::StrCat("policy version ", version, " is older than ", state_->version));
  }
  state_->version = version;
  return absl::OkStatus();
}

int64_t OpenAiEngine::policy_version() const { return state_->version; }
const std::string& OpenAiEngine::model() const { return state_->model; }

}  // namespace hone::rollout
