#include "rollout/engine/scheduler.h"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <set>
#include <vector>

#include "tests/support/page_reader.h"

namespace hone::rollout {
namespace {

using testing::PageReader;

std::vector<int32_t> Expected(const GenerationRequest& request, size_t sample) {
  std::vector<int32_t> ids;
  for (const TokenDraw& draw : testing::ExpectedTokens(request, sample)) ids.push_back(draw.id);
  return ids;
}

GenerationRequest RandomRequest(std::mt19937& random, int64_t longest) {
  GenerationRequest request;
  request.prompt_ids.resize(1 + random() % longest);
  for (int32_t& id : request.prompt_ids) id = static_cast<int32_t>(random() % 1000);
  const size_t common = std::min<size_t>(request.prompt_ids.size(), random() % 3 * 20);  // some begin alike
  for (size_t i = 0; i < common; ++i) request.prompt_ids[i] = static_cast<int32_t>(i);
  request.samples = 1 + static_cast<int64_t>(random() % 6);
  request.seed = random();
  request.sampling.max_tokens = 1 + static_cast<int64_t>(random() % longest);
  for (int i = 0; i < 30; ++i) request.sampling.stop_ids.push_back(static_cast<int32_t>(random() % 1000));
  return request;
}

TEST_CASE("Whatever the cache, the batch and the lookahead, every sample gets the tokens that its sequence and seed decide",
          "[rollout][scheduler]") {
  std::mt19937 random(5);
  int64_t preempted = 0, reused = 0;
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
    reused += scheduler.stats().reused_tokens;
  }
  CHECK(reused > 1000);
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

TEST_CASE("The next turn of a conversation reads only what is new, until the weights change", "[rollout][scheduler]") {
  PageReader runner(60, 4, 64, 1);
  Scheduler scheduler(runner);
  const auto ask = [&](std::vector<int32_t> prompt) {
    GenerationRequest request{std::move(prompt), 1, 3, {}};
    request.sampling.max_tokens = 40;
    Sample result;
    RequestEvents events;
    events.on_sample = [&](size_t, const Sample& sample) { result = sample; };
    REQUIRE(scheduler.Submit(request, events).ok());
    const int64_t before = runner.prefilled;
    while (!scheduler.idle()) REQUIRE(scheduler.Step().ok());
    CHECK(result.ids == Expected(request, 0));
    request.prompt_ids.insert(request.prompt_ids.end(), result.ids.begin(), result.ids.end());
    return std::pair(request.prompt_ids, runner.prefilled - before);
  };
  const auto [first, first_read] = ask(std::vector<int32_t>(30, 5));
  CHECK(first_read == 30);
  std::vector<int32_t> turn = first;  // 70 tokens, 69 of them in pages, 64 in whole ones
  turn.insert(turn.end(), {1, 2, 3});
  const auto [second, second_read] = ask(turn);
  CHECK(second_read == 73 - 64);
  scheduler.set_version(1);
  CHECK(ask(turn).second == 73);
  CHECK(scheduler.stats().free_pages == 60);
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
