#include "rollout/engine/stop_strings.h"

#include <algorithm>

namespace hone::rollout {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopStrings::Push(absl::string_view text) {
  if (found_) return "";
  held_.append(text.data(), text.size());
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    found_ = true;
    return held_.substr(0, first);
  }
  // The longest end of the text that is the beginning of a stop string.
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) keep = length;
    }
  }
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopStrings::Finish() {
  if (found_) return "";
  std::string rest;
  rest.swap(held_);
  return rest;
}

}  // namespace hone::rollout
