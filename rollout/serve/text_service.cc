#include "rollout/serve/text_service.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rollout/engine/stop_strings.h"

namespace hone::rollout {

struct TextService::Stream::Queue {
  Scheduler::RequestId id = 0;
  std::deque<TextEvent> events;
  absl::Status status;
  size_t open = 0;  // samples
};

struct TextService::State {
  Options options;
  Scheduler& scheduler;
  const policy::Tokenizer& tokenizer;
  Check check;
  std::mutex mutex;  // of all below, of the scheduler and of the streams' queues
  std::condition_variable work, news;
  std::vector<std::shared_ptr<Stream::Queue>> open;
  std::vector<Scheduler::RequestId> dropped;
  std::atomic<int> callers = 0;  // that want the mutex: the loop, which would win it again each time, lets them in
  bool stop = false;
  std::thread loop;

  void Run();
  std::unique_lock<std::mutex> Lock() {
    ++callers;
    std::unique_lock<std::mutex> lock(mutex);
    --callers;
    return lock;
  }
};

namespace {

// One sample's text as it grows.
struct SampleText {
  policy::StreamDecoder decoder;
  StopStrings stops;
};

}  // namespace

// Steps while there is work. The mutex is held for a step and given up between two.
void TextService::State::Run() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    work.wait(lock, [&] { return stop || !scheduler.idle() || !dropped.empty(); });
    if (stop) break;
    for (Scheduler::RequestId id : dropped) scheduler.Abort(id).IgnoreError();
    dropped.clear();
    if (scheduler.idle()) continue;
    const absl::Status status = scheduler.Step();
    if (!status.ok()) {
      scheduler.Forget();
      for (const auto& queue : open) {
        queue->status = status;
        queue->open = 0;
      }
      open.clear();
    }
    news.notify_all();
    lock.unlock();
    while (callers.load() > 0) std::this_thread::yield();
    lock.lock();
  }
  scheduler.AbortAll().IgnoreError();
  news.notify_all();
}

TextService::TextService(const Options& options, Scheduler& scheduler, const policy::Tokenizer& tokenizer, Check check)
    : state_(new State{options, scheduler, tokenizer, std::move(check)}) {
  state_->loop = std::thread([this] { state_->Run(); });
}

TextService::~TextService() { Stop(); }

void TextService::Stop() {
  if (!state_->loop.joinable()) return;
  {
    const auto lock = state_->Lock();
    state_->stop = true;
  }
  state_->work.notify_all();
  state_->loop.join();
}

absl::StatusOr<std::unique_ptr<TextService::Stream>> TextService::Submit(TextRequest request) {
  State& s = *state_;
  if (s.check) HONE_RETURN_IF_ERROR(s.check(request.generation));
  auto queue = std::make_shared<Stream::Queue>();
  queue->open = static_cast<size_t>(std::max<int64_t>(0, request.generation.samples));
  auto texts = std::make_shared<std::vector<SampleText>>();
  for (size_t i = 0; i < queue->open; ++i) {
    texts->push_back({policy::StreamDecoder(s.tokenizer, request.skip_special), StopStrings(request.stop)});
  }
  RequestEvents events;
  events.on_token = [&s, texts, queue, skip = request.skip_special](size_t sample, const Sample& so_far) {
    SampleText& text = (*texts)[sample];
    TextEvent event;
    event.sample = sample;
    event.has_token = true;
    event.id = so_far.ids.back();
    event.log_prob = so_far.log_probs.back();
    event.token_text = s.tokenizer.Decode({event.id}, skip);
    event.text = text.stops.Push(text.decoder.Push(event.id));
    queue->events.push_back(std::move(event));
    return text.stops.found();
  };
  events.on_sample = [texts, queue](size_t sample, const Sample& result) {
    SampleText& text = (*texts)[sample];
    TextEvent event;
    event.sample = sample;
    event.text = text.stops.Push(text.decoder.Finish()) + text.stops.Finish();
    event.finish = result.finish;
    event.versions = result.versions;
    queue->events.push_back(std::move(event));
    --queue->open;
  };
  const auto lock = s.Lock();
  if (s.stop) return absl::UnavailableError("the server is stopping");
  const SchedulerStats stats = s.scheduler.stats();
  if (request.generation.samples > s.options.max_waiting) {  // no later time is better
    return absl::InvalidArgumentError(absl::StrCat("n = ", request.generation.samples, ", allowed at most ", s.options.max_waiting, " here"));
  }
  if (stats.waiting + request.generation.samples > s.options.max_waiting) {
    return absl::UnavailableError(absl::StrCat(stats.waiting, " samples wait already, at most ", s.options.max_waiting, " may: try again later"));
  }
  HONE_ASSIGN_OR_RETURN(queue->id, s.scheduler.Submit(std::move(request.generation), std::move(events)));
  std::erase_if(s.open, [](const auto& other) { return other->open == 0; });
  s.open.push_back(queue);
  s.work.notify_all();
  return std::unique_ptr<Stream>(new Stream(*this, std::move(queue)));
}

SchedulerStats TextService::stats() const {
  const auto lock = state_->Lock();
  return state_->scheduler.stats();
}

TextService::Stream::Stream(TextService& service, std::shared_ptr<Queue> queue) : service_(service), queue_(std::move(queue)) {}

TextService::Stream::~Stream() {
  State& s = *service_.state_;
  const auto lock = s.Lock();
  if (queue_->open == 0) return;
  s.dropped.push_back(queue_->id);
  s.work.notify_all();
}

absl::StatusOr<std::optional<TextEvent>> TextService::Stream::Next() {
  State& s = *service_.state_;
  auto lock = s.Lock();
  s.news.wait(lock, [&] { return !queue_->events.empty() || queue_->open == 0; });
  if (queue_->events.empty()) {
    if (!queue_->status.ok()) return queue_->status;
    return std::optional<TextEvent>();
  }
  TextEvent event = std::move(queue_->events.front());
  queue_->events.pop_front();
  return std::optional<TextEvent>(std::move(event));
}

}  // namespace hone::rollout
