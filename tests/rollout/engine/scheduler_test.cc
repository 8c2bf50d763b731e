#include "rollout/engine/scheduler.h"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <random>
#include <set>
#include <vector>

#include "rollout/engine/philox.h"

namespace hone::rollout {
namespace {

// What a "model" says next after a sequence: any function of all its ids and of what decides the draw.
TokenDraw Next(const std::vector<int32_t>& ids, const DrawSpec& spec) {
  uint64_t hash = 1469598103934665603u;
  for (int32_t id : ids) hash = (hash ^ static_cast<uint64_t>(id)) * 1099511628211u;
  const double u = UniformAt(spec.seed ^ hash, spec.stream, spec.index);
  return {static_cast<int32_t>(u * 1000), static_cast<float>(-u)};
}

// Keeps the ids themselves in its pages and reads every sequence back through its table: a page that is shared, copied or
// freed wrongly changes what comes next.
class PageReader : public Runner {
 public:
  PageReader(int64_t pages, int64_t rows, int64_t prefill, int64_t lookahead)
      : pages_(pages), rows_(rows), prefill_(prefill), lookahead_(lookahead) {}

  int64_t pages() const override { return static_cast<int64_t>(pages_.size()); }
  int64_t max_rows() const override { return rows_; }
  int64_t max_prefill_tokens() const override { return prefill_; }
  int64_t lookahead() const override { return lookahead_; }

  absl::StatusOr<std::vector<TokenDraw>> Prefill(absl::Span<const PrefillPiece> pieces) override {
    std::vector<TokenDraw> draws;
    int64_t tokens = 0;
    for (const PrefillPiece& piece : pieces) {
      tokens += static_cast<int64_t>(piece.ids.size());
      for (size_t t = 0; t < piece.ids.size(); ++t) Write(piece.table, piece.first_position + static_cast<int64_t>(t), piece.ids[t]);
      const std::vector<int32_t> ids = ReadBack(piece.table, piece.first_position + static_cast<int64_t>(piece.ids.size()));
      for (const DrawSpec& spec : piece.draws) draws.push_back(Next(ids, spec));
    }
    REQUIRE(tokens <= prefill_);
    prefilled += tokens;
    return draws;
  }
  absl::Status LaunchDecode(absl::Span<const DecodeRow> rows) override {
    REQUIRE(static_cast<int64_t>(rows.size()) <= rows_);
    std::vector<TokenDraw> draws;
    for (const DecodeRow& row : rows) {
      const int32_t id = row.id >= 0 ? row.id : last_.at(row.after_row).id;
      Write(row.table, row.position, id);
      draws.push_back(Next(ReadBack(row.table, row.position + 1), row.draw));
    }
    last_ = draws;
    launched_.push_back(std::move(draws));
    REQUIRE(static_cast<int64_t>(launched_.size()) <= lookahead_ + 1);
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<TokenDraw>> CollectDecode() override {
    std::vector<TokenDraw> draws = std::move(launched_.front());
    launched_.pop_front();
    return draws;
  }
  absl::Status CopyPages(absl::Span<const std::pair<int32_t, int32_t>> pages) override {
    for (const auto& [from, to] : pages) pages_[to] = pages_[from];
    return absl::OkStatus();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::StatusOr<std::string> FirstNonFinite(absl::Span<const int32_t>) override { return std::string("model.layers.5"); }

  int64_t prefilled = 0;

 private:
  void Write(absl::Span<const int32_t> table, int64_t position, int32_t id) {
    pages_.at(table.at(position / kPagePositions))[position % kPagePositions] = id;
  }
  std::vector<int32_t> ReadBack(absl::Span<const int32_t> table, int64_t length) const {
    std::vector<int32_t> ids;
    for (int64_t p = 0; p < length; ++p) ids.push_back(pages_.at(table.at(p / kPagePositions))[p % kPagePositions]);
    return ids;
  }

  std::vector<std::array<int32_t, kPagePositions>> pages_;
  int64_t rows_, prefill_, lookahead_;
  std::vector<TokenDraw> last_;
  std::deque<std::vector<TokenDraw>> launched_;
};

// One sample written down token by token.
std::vector<int32_t> Expected(const GenerationRequest& request, size_t sample) {
  std::vector<int32_t> ids = request.prompt_ids, out;
  while (static_cast<int64_t>(out.size()) < request.sampling.max_tokens) {
    const TokenDraw draw = Next(ids, {&request.sampling, request.seed, sample, out.size()});
    ids.push_back(draw.id);
    out.push_back(draw.id);
    const auto& stops = request.sampling.stop_ids;
    if (std::find(stops.begin(), stops.end(), draw.id) != stops.end()) break;
  }
  return out;
}

GenerationRequest RandomRequest(std::mt19937& random, int64_t longest) {
  GenerationRequest request;
  request.prompt_ids.resize(1 + random() % longest);
  for (int32_t& id : request.prompt_ids) id = static_cast<int32_t>(random() % 1000);
  request.samples = 1 + static_cast<int64_t>(random() % 6);
  request.seed = random();
  request.sampling.max_tokens = 1 + static_cast<int64_t>(random() % longest);
  for (int i = 0; i < 30; ++i) request.sampling.stop_ids.push_back(static_cast<int32_t>(random() % 1000));
  return request;
}

TEST_CASE("Whatever the cache, the batch and the lookahead, every sample gets the tokens that its sequence and seed decide",
          "[rollout][scheduler]") {
  std::mt19937 random(5);
  int64_t preempted = 0;
  for (int round = 0; round < 150; ++round) {
    const int64_t pages = 8 + static_cast<int64_t>(random() % 40), rows = 1 + static_cast<int64_t>(random() % 12);
    const int64_t prefill = 10 + static_cast<int64_t>(random() % 90), lookahead = static_cast<int64_t>(random() % 2);
    PageReader runner(pages, rows, prefill, lookahead);
    Scheduler scheduler(runner);
    std::vector<GenerationRequest> requests;
    std::vector<std::vector<Sample>> results;
    for (int i = 0; i < 8; ++i) {
      requests.push_back(RandomRequest(random, 60));
      results.emplace_back(requests.back().samples);
    }
    int64_t told = 0;
    const auto submit = [&](size_t i) {
      RequestEvents events;
      events.on_sample = [&, i](size_t sample, const Sample& result) {
        ++told;
        results[i][sample] = result;
      };
      REQUIRE(scheduler.Submit(requests[i], std::move(events)).ok());
    };
    for (size_t i = 0; i < 5; ++i) submit(i);
    for (int step = 0; step < 7; ++step) REQUIRE(scheduler.Step().ok());
    for (size_t i = 5; i < 8; ++i) submit(i);
    for (int steps = 0; !scheduler.idle(); ++steps) {
      REQUIRE(steps < 100000);
      REQUIRE(scheduler.Step().ok());
    }
    int64_t samples = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      for (size_t j = 0; j < results[i].size(); ++j) {
        ++samples;
        INFO("round " << round << " request " << i << " sample " << j);
        REQUIRE(results[i][j].ids == Expected(requests[i], j));
        REQUIRE(results[i][j].log_probs.size() == results[i][j].ids.size());
      }
    }
    CHECK(told == samples);
    CHECK(scheduler.stats().free_pages == pages);
    preempted += scheduler.stats().preempted;
  }
  CHECK(preempted > 20);  // the small caches did run out
}

TEST_CASE("A prompt is read once for all samples of its request", "[rollout][scheduler]") {
  PageReader runner(200, 16, 64, 1);
  Scheduler scheduler(runner);
  std::mt19937 random(6);
  GenerationRequest request = RandomRequest(random, 60);
  request.prompt_ids.resize(50, 7);
  request.samples = 8;
  int told = 0;
  RequestEvents events;
  events.on_sample = [&](size_t, const Sample&) { ++told; };
  REQUIRE(scheduler.Submit(request, events).ok());
  while (!scheduler.idle()) REQUIRE(scheduler.Step().ok());
  CHECK(told == 8);
  CHECK(runner.prefilled == 50);
}

TEST_CASE("An aborted request ends at once, gives its pages back and leaves the others alone", "[rollout][scheduler]") {
  for (const int64_t lookahead : {0, 1}) {
    PageReader runner(40, 6, 20, lookahead);
    Scheduler scheduler(runner);
    std::vector<std::vector<Sample>> results(2);
    GenerationRequest requests[2];
    Scheduler::RequestId ids[2];
    for (int i = 0; i < 2; ++i) {
      requests[i].prompt_ids.assign(30, i + 1);
      requests[i].samples = 5;
      requests[i].sampling.max_tokens = 40;
      RequestEvents events;
      events.on_sample = [&results, i](size_t, const Sample& sample) { results[i].push_back(sample); };
      ids[i] = scheduler.Submit(requests[i], events).value();
    }
    for (int step = 0; step < 9; ++step) REQUIRE(scheduler.Step().ok());
    REQUIRE(scheduler.Abort(ids[0]).ok());
    CHECK(results[0].size() == 5);
    for (const Sample& sample : results[0]) CHECK(sample.finish == FinishReason::kAborted);
    while (!scheduler.idle()) REQUIRE(scheduler.Step().ok());
    REQUIRE(results[1].size() == 5);
    std::set<std::vector<int32_t>> got, wanted;
    for (size_t j = 0; j < 5; ++j) {
      got.insert(results[1][j].ids);
      wanted.insert(Expected(requests[1], j));
    }
    CHECK(got == wanted);
    CHECK(scheduler.stats().free_pages == 40);
  }
}

TEST_CASE("What can never fit is refused with the sizes", "[rollout][scheduler]") {
  PageReader runner(4, 2, 100, 0);
  Scheduler scheduler(runner);
  GenerationRequest request;
  request.prompt_ids.assign(60, 1);
  request.sampling.max_tokens = 5;
  const absl::Status status = scheduler.Submit(request, {}).status();
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(status.message() == "a sample needs up to 5 cache pages of 16 tokens, the cache has 4: shorten max_tokens or give the cache more memory");
}

TEST_CASE("Asking for an end after a token ends the sample with that token", "[rollout][scheduler]") {
  PageReader runner(40, 6, 20, 1);
  Scheduler scheduler(runner);
  GenerationRequest request;
  request.prompt_ids = {1, 2, 3};
  request.samples = 3;
  request.sampling.max_tokens = 30;
  std::vector<Sample> results(3);
  RequestEvents events;
  events.on_token = [](size_t sample, const Sample& so_far) { return sample == 1 && so_far.ids.size() == 4; };
  events.on_sample = [&](size_t sample, const Sample& result) { results[sample] = result; };
  REQUIRE(scheduler.Submit(request, events).ok());
  while (!scheduler.idle()) REQUIRE(scheduler.Step().ok());
  CHECK(results[0].ids.size() == 30);
  CHECK(results[1].ids.size() == 4);
  CHECK(results[1].finish == FinishReason::kStop);
  CHECK(results[2].finish == FinishReason::kLength);
}

}  // namespace
}  // namespace hone::rollout
