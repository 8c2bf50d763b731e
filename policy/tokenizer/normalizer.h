#pragma once

// What a tokenizer does to text before it splits it.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone::policy {

/// Unicode normalisation form C, as Unicode Standard Annex #15 defines it. Immutable.
class Nfc {
 public:
  Nfc();
  ~Nfc();
  Nfc(const Nfc&) = delete;
  Nfc& operator=(const Nfc&) = delete;

  /// False only if `text` (valid UTF-8) is certainly in form C already; a fast scan.
  bool MayChange(absl::string_view text) const;
  std::string Apply(absl::string_view text) const;

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

/// One step of tokenizer.json's "normalizer".
struct NormalizerStep {
  enum class Kind { kNfc, kReplace, kPrepend };
  Kind kind = Kind::kNfc;
  std::string from;  // kReplace: every occurrence of this
  std::string to;    // kReplace, kPrepend
};

/// The steps in order. Immutable.
class Normalizer {
 public:
  explicit Normalizer(std::vector<NormalizerStep> steps);

  bool empty() const { return steps_.empty(); }
  /// `text` itself where nothing changes, else a view of `storage`.
  absl::string_view Apply(absl::string_view text, std::string& storage) const;

 private:
  std::vector<NormalizerStep> steps_;
  std::shared_ptr<const Nfc> nfc_;  // shared by copies of this Normalizer; null without an NFC step
};

}  // namespace hone::policy
