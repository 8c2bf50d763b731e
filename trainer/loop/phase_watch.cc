#include "trainer/loop/phase_watch.h"

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/file.h"

namespace hone::trainer {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

std::string OneLine(const fs::path& path) {
  absl::StatusOr<std::string> text = ReadFile(path.string());
  if (!text.ok()) return "";
  return text->substr(0, text->find('\n'));
}

}  // namespace

struct PhaseWatch::State {
  PhaseWatchOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::string what;  // empty: at rest
  Clock::time_point since;
  std::chrono::milliseconds patience;
  bool ending = false;
  std::thread thread;

  void Run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (!ending) {
      if (what.empty()) {
        changed.wait(lock);
        continue;
      }
      const Clock::time_point limit = since + patience;
      if (Clock::now() < limit) {
        changed.wait_until(lock, limit);
        continue;
      }
      const double seconds = std::chrono::duration<double>(Clock::now() - since).count();
      const std::string text = absl::StrFormat("no progress for %.0f s, waiting for: %s\n%s", seconds, what, ThreadsOfProcess());
      patience *= 2;
      lock.unlock();
      options.on_stuck(text);
      lock.lock();
    }
  }
};

PhaseWatch::PhaseWatch(PhaseWatchOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->patience = state_->options.patience;
  state_->thread = std::thread([state = state_.get()] { state->Run(); });
}

PhaseWatch::~PhaseWatch() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

void PhaseWatch::Enter(std::string what) {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->what = std::move(what);
    state_->since = Clock::now();
    state_->patience = state_->options.patience;
  }
  state_->changed.notify_all();
}

void PhaseWatch::Rest() { Enter(""); }

std::string ThreadsOfProcess() {
  std::string text;
  std::error_code error;
  std::vector<fs::path> threads;
  for (fs::directory_iterator it("/proc/self/task", error), end; !error && it != end; it.increment(error)) threads.push_back(it->path());
  std::sort(threads.begin(), threads.end());
  for (const fs::path& thread : threads) {
    const std::string stat = OneLine(thread / "stat");
    const size_t name_end = stat.rfind(')');  // "123 (name) S ..."
    const std::string state = name_end == std::string::npos || name_end + 2 >= stat.size() ? "?" : stat.substr(name_end + 2, 1);
    const std::string sleeps_in = OneLine(thread / "wchan");
    absl::StrAppend(&text, "  thread ", thread.filename().string(), " ", OneLine(thread / "comm"), " ", state,
                    sleeps_in.empty() || sleeps_in == "0" ? "" : absl::StrCat(" in ", sleeps_in), "\n");
  }
  return text;
}

}  // namespace hone::trainer
