#pragma once

// Filters that weigh or mask single tokens by their ratio.

#include <string>

#include "trainer/loss/filters/filter.h"

namespace hone::trainer {

/// Truncated importance sampling: w = clamp(rho, low, high) for each token; a delta that is not finite rejects the
/// token. Registered twice: tis (0 to 2: verl's cap, slime's bounds) and tis_two_sided (0.2 to 5: NeMo's recipe).
class TruncatedWeights : public Filter {
 public:
  void Describe(Fields& fields) override;
  std::string Formula() const override;
  void Narrow(const FilterBatch& batch, FilterDecision& decision) const override;
  double low;
  double high;

 protected:
  TruncatedWeights(double default_low, double default_high)
      : Filter(/*shrink=*/false), low(default_low), high(default_high) {}
};
class Tis final : public TruncatedWeights {
 public:
  static constexpr const char* kName = "tis";
  static constexpr const char* kSummary = "Weigh each token with min(rho, high)";
  static constexpr const char* kSource = "verl and slime, cap 2";
  Tis() : TruncatedWeights(0, 2) {}
};
class TwoSidedTis final : public TruncatedWeights {
 public:
  static constexpr const char* kName = "tis_two_sided";
  static constexpr const char* kSummary = "Weigh each token with clamp(rho, low, high)";
  static constexpr const char* kSource = "NeMo RL recipe, 0.2 to 5";
  TwoSidedTis() : TruncatedWeights(0.2, 5) {}
};

/// Weighs every token of a sequence with min(product of rho, high); a delta that is not finite rejects the sequence.
/// `mask_above` drops a sequence above `high` in place of truncating it: that with high 3 is TRL's default.
/// Source: verl's preset, 2.
class SequenceTis final : public Filter {
 public:
  static constexpr const char* kName = "sequence_tis";
  static constexpr const char* kSummary = "Weigh a sequence with min(product of rho, high), or drop it above";
  static constexpr const char* kSource = "verl's preset; with mask_above and 3: TRL's default";
  SequenceTis() : Filter(/*shrink=*/false) {}
  double high = 2;
  bool mask_above = false;
  void Describe(Fields& fields) override;
  std::string Formula() const override;
  void Narrow(const FilterBatch& batch, FilterDecision& decision) const override;
};

/// Keeps a token iff low <= rho <= high; a rejected token leaves the denominator too.
/// Source: token-level masked importance sampling of verl; 0.5 to 2 is their typical range.
class TokenMis final : public Filter {
 public:
  static constexpr const char* kName = "token_mis";
  static constexpr const char* kSummary = "Keep a token iff low <= rho <= high";
  static constexpr const char* kSource = "verl, typical range";
  TokenMis() : Filter(/*shrink=*/true) {}
  double low = 0.5;
  double high = 2;
  void Describe(Fields& fields) override;
  std::string Formula() const override;
  void Narrow(const FilterBatch& batch, FilterDecision& decision) const override;
};

/// w = rho where low <= rho <= high, else 0: dropped, not clipped. Source: IcePop as in NeMo's ProRL recipe, 0.5 to 5.
class IcePop final : public Filter {
 public:
  static constexpr const char* kName = "icepop";
  static constexpr const char* kSummary = "Weigh a token with rho inside [low, high], drop it outside";
  static constexpr const char* kSource = "IcePop; NeMo RL's ProRL recipe";
  IcePop() : Filter(/*shrink=*/false) {}
  double low = 0.5;
  double high = 5;
  void Describe(Fields& fields) override;
  std::string Formula() const override;
  void Narrow(const FilterBatch& batch, FilterDecision& decision) const override;
};

/// Keeps a sequence iff low <= exp(mean delta) <= high and weighs its tokens with rho, untruncated.
/// Source: NeMo RL's mixture-of-experts recipe, 0.999 to 1.002.
class SequenceMaskTis final : public Filter {
 public:
  static constexpr const char* kName = "seq_mask_tis";
  static constexpr const char* kSummary = "Keep a sequence by its geometric mean, weigh its tokens with rho";
  static constexpr const char* kSource = "NeMo RL's mixture-of-experts recipe";
  SequenceMaskTis() : Filter(/*shrink=*/true) {}
  double low = 0.999;
  double high = 1.002;
  void Describe(Fields& fields) override;
  std::string Formula() const override;
  void Narrow(const FilterBatch& batch, FilterDecision& decision) const override;
};

/// Drops a token that the learner already moved too far in the direction of its advantage: A > 0 and pi - mu > delta,
/// or A < 0 and pi - mu < -delta, with pi and mu the probabilities themselves (binary total variation); kept tokens are
/// weighed with rho. The divergence penalty of the same loss (kappa) is the loss's business.
/// `both_sides` drops by |pi - mu| > delta whatever the advantage: prime-rl's IPO, with delta 0.1.
/// Source: DPPO as in prime-rl, delta 0.2.
class Dppo final : public Filter {
 public:
  static constexpr const char* kName = "dppo";
  static constexpr const char* kSummary = "Drop a token whose probability moved more than delta along its advantage";
  static constexpr const char* kSource = "DPPO in prime-rl; with both_sides and 0.1: its IPO";
  Dppo() : Filter(/*shrink=*/false) {}
  double delta = 0.2;
  bool both_sides = false;
  void Describe(Fields& fields) override;
  std::string Formula() const override;
  void Narrow(const FilterBatch& batch, FilterDecision& decision) const override;
};

}  // namespace hone::trainer
