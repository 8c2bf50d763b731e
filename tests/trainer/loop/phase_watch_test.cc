#include "tests/support/catch_torch.h"

#include <condition_variable>
#include <mutex>
#include <vector>

#include "absl/strings/match.h"
#include "trainer/loop/phase_watch.h"

namespace hone::trainer {
namespace {

struct Heard {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> texts;

  PhaseWatchOptions Options(std::chrono::milliseconds patience) {
    return {patience, [this](const std::string& text) {
              const std::lock_guard<std::mutex> lock(mutex);
              texts.push_back(text);
              changed.notify_all();
            }};
  }
  bool Await(size_t count) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(30), [&] { return texts.size() >= count; });
  }
};

TEST_CASE("A phase that does not end is named again and again, with the process's threads", "[trainer][loop]") {
  Heard heard;
  PhaseWatch watch(heard.Options(std::chrono::milliseconds(1)));
  watch.Enter("31 verdicts of turn 1");
  REQUIRE(heard.Await(2));
  const std::lock_guard<std::mutex> lock(heard.mutex);
  CHECK(absl::StrContains(heard.texts[0], "waiting for: 31 verdicts of turn 1\n"));
  CHECK(absl::StrContains(heard.texts[0], "  thread "));
}

TEST_CASE("A run that rests, moves on or ends is not called stuck", "[trainer][loop]") {
  Heard heard;
  {
    PhaseWatch watch(heard.Options(std::chrono::hours(1)));
    for (int i = 0; i < 100; ++i) watch.Enter("a forward pass");
    watch.Rest();
  }
  CHECK(heard.texts.empty());
  PhaseWatch impatient(heard.Options(std::chrono::milliseconds(1)));
  impatient.Enter("the old phase");
  REQUIRE(heard.Await(1));
  impatient.Enter("the new phase");
  bool named = false;
  for (size_t count = 2; count < 100 && !named; ++count) {
    REQUIRE(heard.Await(count));
    const std::lock_guard<std::mutex> lock(heard.mutex);
    named = absl::StrContains(heard.texts.back(), "the new phase");
  }
  CHECK(named);
}

}  // namespace
}  // namespace hone::trainer
