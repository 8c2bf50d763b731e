#include "base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"

namespace hone {
namespace {

constexpr absl::Duration kLiveInterval = absl::Milliseconds(100);
constexpr absl::Duration kPlainInterval = absl::Seconds(10);
constexpr int kBarColumns = 20;

bool IsLive(std::FILE* stream) {
  const char* terminal = std::getenv("TERM");
  return isatty(fileno(stream)) && terminal != nullptr && absl::string_view(terminal) != "dumb";
}

int Columns(std::FILE* stream) {
  winsize size = {};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

std::string Bar(double share) {
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * kBarColumns);
  return absl::StrCat("[", std::string(static_cast<size_t>(filled), '#'),
                      std::string(static_cast<size_t>(kBarColumns - filled), '-'), "]");
}

/// The first `columns` characters, never half of a UTF-8 one.
absl::string_view Clip(absl::string_view text, int columns) {
  size_t at = 0;
  while (at < text.size()) {
    const bool starts = (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
    if (starts && columns-- == 0) break;
    ++at;
  }
  return text.substr(0, at);
}

}  // namespace

struct Progress::State {
  std::string phase;
  int64_t total;
  std::FILE* stream;
  bool live;
  int width;
  RealClock real_clock;
  const Clock* clock;

  absl::Mutex mutex;
  absl::Time start ABSL_GUARDED_BY(mutex);
  absl::Time last_print ABSL_GUARDED_BY(mutex);
  bool line_open ABSL_GUARDED_BY(mutex) = false;  // the live line stands without its newline
  bool finished ABSL_GUARDED_BY(mutex) = false;

  double Elapsed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return absl::ToDoubleSeconds(clock->Now() - start); }

  std::string Text(int64_t done, absl::string_view detail) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::string text = absl::StrCat(phase, " ", done);
    if (total > 0) {
      absl::StrAppend(&text, "/", total);
      if (live) absl::StrAppend(&text, " ", Bar(static_cast<double>(done) / static_cast<double>(total)));
    }
    if (total > 0 && done > 0) {
      const double left =
          Elapsed() / static_cast<double>(done) * static_cast<double>(std::max<int64_t>(0, total - done));
      absl::StrAppend(&text, " ", HumanSeconds(left), " left");
    } else {
      absl::StrAppend(&text, " ", HumanSeconds(Elapsed()));
    }
    if (!detail.empty()) absl::StrAppend(&text, ", ", detail);
    return text;
  }

  void Print(absl::string_view text, bool last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (live) {
      const absl::string_view clipped = Clip(text, (width > 0 ? width : Columns(stream)) - 1);
      // The cursor is left at the start of the line, so that a log line of somebody else begins there.
      absl::FPrintF(stream, "\r\x1b[K%s%s", clipped, last ? "\n" : "\r");
    } else {
      absl::FPrintF(stream, "%s\n", text);
    }
    std::fflush(stream);
    line_open = live && !last;
  }
};

Progress::Progress(std::string phase, int64_t total, ProgressOptions options) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.phase = std::move(phase);
  state.total = total;
  state.stream = options.stream;
  state.live = options.live.value_or(IsLive(options.stream));
  state.width = options.width;
  state.clock = options.clock != nullptr ? options.clock : &state.real_clock;
  absl::MutexLock lock(&state.mutex);
  state.start = state.clock->Now();
  state.last_print = state.live ? absl::InfinitePast() : state.start;
}

Progress::~Progress() {
  absl::MutexLock lock(&state_->mutex);
  if (!state_->line_open) return;
  std::fputc('\n', state_->stream);
  std::fflush(state_->stream);
}

void Progress::Update(int64_t done, absl::string_view detail) {
  State& state = *state_;
  absl::MutexLock lock(&state.mutex);
  const absl::Time now = state.clock->Now();
  if (state.finished || now - state.last_print < (state.live ? kLiveInterval : kPlainInterval)) return;
  state.last_print = now;
  state.Print(state.Text(done, detail), /*last=*/false);
}

void Progress::Finish(absl::string_view summary) {
  State& state = *state_;
  absl::MutexLock lock(&state.mutex);
  if (std::exchange(state.finished, true)) return;
  state.Print(
      absl::StrCat(state.phase, " done in ", HumanSeconds(state.Elapsed()), summary.empty() ? "" : ", ", summary),
      /*last=*/true);
}

std::string HumanSeconds(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  seconds = std::max(seconds, 0.0);
  if (seconds < 9.95) return absl::StrFormat("%.1fs", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return absl::StrFormat("%ds", whole);
  if (whole < 3600) return absl::StrFormat("%dm %02ds", whole / 60, whole % 60);
  if (whole < 86'400) return absl::StrFormat("%dh %02dm", whole / 3600, whole % 3600 / 60);
  return absl::StrFormat("%dd %02dh", whole / 86'400, whole % 86'400 / 3600);
}

}  // namespace hone
