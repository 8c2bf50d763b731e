#include "rollout/serve/openai_server.h"

#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/address.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "rollout/serve/openai_api.h"

namespace hone::rollout {
namespace {

constexpr char kJson[] = "application/json";
constexpr int64_t kDefaultCompletionTokens = 16;  // as the API documents

int64_t Now() { return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count(); }

void Answer(httplib::Response& response, const absl::Status& status) {
  response.status = HttpCode(status);
  response.set_content(ErrorBody(status), kJson);
}

}  // namespace

struct OpenAiServer::State {
  State(const OpenAiServerOptions& o, TextService& s, const policy::Tokenizer& t, const policy::ChatTemplate& c)
      : options(o), service(s), tokenizer(t), chat(c) {}

  OpenAiServerOptions options;
  TextService& service;
  const policy::Tokenizer& tokenizer;
  const policy::ChatTemplate& chat;
  httplib::Server http;
  std::thread listener;
  std::atomic<uint64_t> served = 0;
  std::atomic<uint64_t> unseeded = std::random_device{}();  // seeds of calls that name none
  int port = 0;

  // A call on its way: its events as pieces of the answer.
  struct Running {
    CompletionCall call;
    AnswerHead head;
    Usage usage;
    std::unique_ptr<TextService::Stream> stream;
    std::vector<bool> begun;
  };

  absl::StatusOr<std::shared_ptr<Running>> Begin(const std::string& body, bool is_chat) {
    auto running = std::make_shared<Running>();
    HONE_ASSIGN_OR_RETURN(running->call, ParseCompletionCall(body, is_chat));
    CompletionCall& call = running->call;
    if (!call.model.empty() && call.model != options.model_name) {
      return absl::NotFoundError(absl::StrCat("model \"", call.model, "\" is not served here; \"", options.model_name, "\" is"));
    }
    HONE_ASSIGN_OR_RETURN(TextRequest request, Request(call));
    running->usage.prompt_tokens = static_cast<int64_t>(request.generation.prompt_ids.size());
    running->head = {is_chat, absl::StrCat(is_chat ? "chatcmpl-" : "cmpl-", served.fetch_add(1) + 1), options.model_name, Now()};
    running->begun.resize(call.samples, false);
    HONE_ASSIGN_OR_RETURN(running->stream, service.Submit(std::move(request)));
    return running;
  }

  absl::StatusOr<TextRequest> Request(const CompletionCall& call) {
    TextRequest request;
    GenerationRequest& generation = request.generation;
    generation.prompt_ids = call.prompt_ids;
    if (call.chat) {
      policy::ChatOptions chat_options;
      chat_options.variables_json = call.template_variables_json;
      HONE_ASSIGN_OR_RETURN(const std::string text, chat.Render(call.messages, chat_options));
      HONE_ASSIGN_OR_RETURN(generation.prompt_ids, tokenizer.Encode(text));
    } else if (generation.prompt_ids.empty()) {
      HONE_ASSIGN_OR_RETURN(generation.prompt_ids, tokenizer.Encode(call.prompt, {.add_special = true}));
    }
    generation.samples = call.samples;
    generation.seed = call.seed.value_or(unseeded.fetch_add(1));
    generation.sampling = call.sampling;
    if (!call.ignore_eos) generation.sampling.stop_ids.insert(generation.sampling.stop_ids.end(), options.end_ids.begin(), options.end_ids.end());
    const int64_t left = options.context - static_cast<int64_t>(generation.prompt_ids.size());
    if (left < 1) {
      return absl::InvalidArgumentError(absl::StrCat("the prompt has ", generation.prompt_ids.size(), " tokens, the context is ", options.context));
    }
    int64_t& tokens = generation.sampling.max_tokens;
    if (tokens == 0) tokens = call.chat ? left : std::min(left, kDefaultCompletionTokens);
    request.stop = call.stop;
    return request;
  }

  AnswerChoice Piece(const Running& running, const TextEvent& event) const {
    AnswerChoice piece;
    piece.index = event.sample;
    piece.text = event.text;
    piece.finish = event.finish;
    piece.with_log_probs = running.call.log_probs;
    piece.with_token_ids = running.call.token_ids;
    if (running.call.token_ids) piece.versions = event.versions;
    if (event.has_token) piece.tokens.push_back({event.token_text, event.id, event.log_prob});
    return piece;
  }

  void Complete(const std::string& body, bool is_chat, httplib::Response& response) {
    absl::StatusOr<std::shared_ptr<Running>> begun = Begin(body, is_chat);
    if (!begun.ok()) return Answer(response, begun.status());
    if ((*begun)->call.stream) return Stream(*begun, response);
    Running& running = **begun;
    std::vector<AnswerChoice> choices(running.call.samples);
    while (true) {
      const absl::StatusOr<std::optional<TextEvent>> event = running.stream->Next();
      if (!event.ok()) return Answer(response, event.status());
      if (!event->has_value()) break;
      AnswerChoice piece = Piece(running, **event);
      AnswerChoice& whole = choices[piece.index];
      piece.text = whole.text + piece.text;
      piece.tokens.insert(piece.tokens.begin(), whole.tokens.begin(), whole.tokens.end());
      whole = std::move(piece);
      running.usage.completion_tokens += (*event)->has_token;
    }
    response.set_content(WholeAnswer(running.head, choices, running.usage), kJson);
  }

  void Stream(std::shared_ptr<Running> running, httplib::Response& response) {
    const auto provide = [this, running](size_t, httplib::DataSink& sink) {
      const auto write = [&](const std::string& text) { return sink.write(text.data(), text.size()); };
      const absl::StatusOr<std::optional<TextEvent>> event = running->stream->Next();
      if (!event.ok()) {
        write(absl::StrCat("data: ", ErrorBody(event.status()), "\n\n"));
        sink.done();
        return true;
      }
      if (event->has_value()) {
        const AnswerChoice piece = Piece(*running, **event);
        running->usage.completion_tokens += (*event)->has_token;
        const bool first = !running->begun[piece.index];
        running->begun[piece.index] = true;
        // Without log-probs or ids a piece without text says nothing.
        if (!first && piece.text.empty() && !piece.finish && !piece.with_log_probs && !piece.with_token_ids) return true;
        return write(ChunkEvent(running->head, piece, first));
      }
      if (running->call.stream_usage && !write(UsageEvent(running->head, running->usage))) return false;
      if (!write("data: [DONE]\n\n")) return false;
      sink.done();
      return true;
    };
    response.set_chunked_content_provider("text/event-stream", provide);
  }

  void Route() {
    http.new_task_queue = [this] { return new httplib::ThreadPool(static_cast<size_t>(options.threads)); };
    http.set_payload_max_length(size_t{64} << 20);
    http.set_tcp_nodelay(true);
    http.Post("/v1/completions", [this](const httplib::Request& request, httplib::Response& response) { Complete(request.body, false, response); });
    http.Post("/v1/chat/completions", [this](const httplib::Request& request, httplib::Response& response) { Complete(request.body, true, response); });
    http.Get("/v1/models", [this](const httplib::Request&, httplib::Response& response) {
      const nlohmann::json model{{"id", options.model_name}, {"object", "model"}, {"created", 0}, {"owned_by", "hone"}, {"max_model_len", options.context}};
      response.set_content(nlohmann::json{{"object", "list"}, {"data", {model}}}.dump(), kJson);
    });
    http.Get("/health", [this](const httplib::Request&, httplib::Response& response) {
      const SchedulerStats stats = service.stats();
      response.set_content(nlohmann::json{{"running", stats.running}, {"waiting", stats.waiting}, {"free_pages", stats.free_pages},
                                          {"preempted", stats.preempted}, {"prompt_tokens", stats.prompt_tokens}, {"tokens", stats.tokens}}
                               .dump(),
                           kJson);
    });
    http.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
      if (!response.body.empty()) return;
      const absl::Status status = response.status == 404 ? absl::NotFoundError(absl::StrCat(request.method, " ", request.path, " is not served here"))
                                                         : absl::InvalidArgumentError(absl::StrCat("HTTP ", response.status));
      response.set_content(ErrorBody(status), kJson);
    });
  }
};

OpenAiServer::OpenAiServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<OpenAiServer>> OpenAiServer::Start(const OpenAiServerOptions& options, TextService& service,
                                                                  const policy::Tokenizer& tokenizer, const policy::ChatTemplate& chat) {
  auto state = std::make_unique<State>(options, service, tokenizer, chat);
  state->Route();
  state->http.set_socket_options(TakePortAlone);  // by default two servers would share a port, and its requests
  state->port = options.port;
  const bool bound = options.port == 0 ? (state->port = state->http.bind_to_any_port(options.host)) > 0
                                       : state->http.bind_to_port(options.host, options.port);
  if (!bound) return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", options.host, ":", options.port, ": ", std::strerror(errno)));
  State* raw = state.get();
  state->listener = std::thread([raw] { raw->http.listen_after_bind(); });
  while (!raw->http.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return std::unique_ptr<OpenAiServer>(new OpenAiServer(std::move(state)));
}

OpenAiServer::~OpenAiServer() {
  state_->http.stop();
  state_->listener.join();
}

int OpenAiServer::port() const { return state_->port; }

}  // namespace hone::rollout
