#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace hone::policy {

/// Told when a decoder is about to need weights and when it has used them: how weights that are spread over ranks come
/// and go. Layers are numbered from 0; the weights outside of layers (embedding, final norm, head) are needed during a
/// whole pass. A failure throws c10::Error out of the hook.
class LayerHooks {
 public:
  virtual ~LayerHooks() = default;
  /// `with_gradients`: a backward pass follows.
  virtual void BeforePass(bool with_gradients) = 0;
  virtual void BeforeLayer(int64_t layer, bool backward) = 0;
  virtual void AfterLayer(int64_t layer, bool backward) = 0;
};

}  // namespace hone::policy
