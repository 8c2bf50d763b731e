#pragma once

// Filters that keep or reject whole sequences.

#include <string>

#include "trainer/loss/filters/filter.h"

namespace hone::trainer {

/// Decides by one sequence's ratios; a sequence with a delta that is not finite is rejected, one without masked-in
/// tokens kept.
class SequenceMask : public Filter {
 public:
  void Narrow(const FilterBatch& batch, FilterDecision& decision) const final;

 protected:
  using Filter::Filter;

 private:
  virtual bool Keeps(const FilterBatch& batch, int64_t sequence, const SequenceRatios& ratios) const = 0;
};

/// Keeps a sequence iff the mean of |delta| over its response is at most `delta`: exp of it is the geometric mean of
/// max(rho, 1/rho). Deviations of either sign add up, where a signed mean lets them cancel.
/// Denominators stay as they were. The threshold of the paper is not published; 0.05 is ours and must lie above the
/// engine's own noise: `hone lab noise-floor`. Source: MirrorPop, MusaCoder, arXiv:2606.04847, eq. 20-21.
class MirrorPop final : public SequenceMask {
 public:
  static constexpr const char* kName = "mirrorpop";
  static constexpr const char* kSummary = "Keep a sequence iff the mean of |log rho| is at most delta";
  static constexpr const char* kSource = "MusaCoder, arXiv:2606.04847, eq. 20-21; delta is ours";
  MirrorPop() : SequenceMask(/*shrink=*/false) {}
  double delta = 0.05;
  void Describe(Fields& fields) override;
  std::string Formula() const override;

 private:
  bool Keeps(const FilterBatch& batch, int64_t sequence, const SequenceRatios& ratios) const override;
};

/// Keeps a sequence iff low <= exp(sum of delta) <= high. Source: sequence-level masked importance sampling, verl's
/// preset.
class SequenceMis final : public SequenceMask {
 public:
  static constexpr const char* kName = "sequence_mis";
  static constexpr const char* kSummary = "Keep a sequence iff low <= product of rho <= high";
  static constexpr const char* kSource = "verl, sequence-level rejection preset";
  SequenceMis() : SequenceMask(/*shrink=*/true) {}
  double low = 0.5;
  double high = 2.0;
  void Describe(Fields& fields) override;
  std::string Formula() const override;

 private:
  bool Keeps(const FilterBatch& batch, int64_t sequence, const SequenceRatios& ratios) const override;
};

/// Keeps a sequence iff low <= exp(mean of delta) <= high: a signed mean, which alternating deviations pass.
/// Source: geometric rejection of Dr.Kernel and verl's preset, 0.999 to 1.001.
class GeometricMask final : public SequenceMask {
 public:
  static constexpr const char* kName = "geometric";
  static constexpr const char* kSummary = "Keep a sequence iff low <= geometric mean of rho <= high (signed)";
  static constexpr const char* kSource = "Dr.Kernel; verl's preset";
  GeometricMask() : SequenceMask(/*shrink=*/true) {}
  double low = 0.999;
  double high = 1.001;
  void Describe(Fields& fields) override;
  std::string Formula() const override;

 private:
  bool Keeps(const FilterBatch& batch, int64_t sequence, const SequenceRatios& ratios) const override;
};

/// Rejects a sequence with any rho_t below `limit`. Source: slime's example and Dr.Kernel, 1e-4.
class Veto final : public SequenceMask {
 public:
  static constexpr const char* kName = "veto";
  static constexpr const char* kSummary = "Reject a sequence with any rho below limit";
  static constexpr const char* kSource = "slime; Dr.Kernel";
  Veto() : SequenceMask(/*shrink=*/true) {}
  double limit = 1e-4;
  void Describe(Fields& fields) override;
  std::string Formula() const override;

 private:
  bool Keeps(const FilterBatch& batch, int64_t sequence, const SequenceRatios& ratios) const override;
};

/// Off-policy sequence masking: rejects a sequence of negative advantage whose mean of -delta is above `delta`.
/// Source: slime's OPSM, 1e-4.
class Opsm final : public SequenceMask {
 public:
  static constexpr const char* kName = "opsm";
  static constexpr const char* kSummary =
      "Reject a sequence of negative advantage whose mean of -log rho is above delta";
  static constexpr const char* kSource = "slime, off-policy sequence masking";
  Opsm() : SequenceMask(/*shrink=*/false) {}
  double delta = 1e-4;
  void Describe(Fields& fields) override;
  std::string Formula() const override;

 private:
  bool Keeps(const FilterBatch& batch, int64_t sequence, const SequenceRatios& ratios) const override;
};

/// Rejects by an estimator of the divergence between sampler and learner: k2 = delta^2 / 2, or k3 = rho - delta - 1,
/// both never negative. `reduce: token` rejects single tokens above the limit; sum, mean and max judge the sequence.
/// Source: verl's rejection family. Registered twice: k3 (mean, 0.01: their preset) and k2 (mean, 2: their typical
/// value).
class DivergenceMask : public Filter {
 public:
  void Describe(Fields& fields) override;
  std::string Formula() const override;
  void Narrow(const FilterBatch& batch, FilterDecision& decision) const override;
  std::string reduce = "mean";
  double limit;

 protected:
  DivergenceMask(bool k3, double default_limit) : Filter(/*shrink=*/true), limit(default_limit), k3_(k3) {}

 private:
  double Of(double log_ratio) const;
  bool k3_;
};
class K2Mask final : public DivergenceMask {
 public:
  static constexpr const char* kName = "k2";
  static constexpr const char* kSummary = "Reject where (log rho)^2 / 2 is above limit, by token or over the sequence";
  static constexpr const char* kSource = "verl; 2 is a typical value of theirs, not a preset";
  K2Mask() : DivergenceMask(/*k3=*/false, 2.0) {}
};
class K3Mask final : public DivergenceMask {
 public:
  static constexpr const char* kName = "k3";
  static constexpr const char* kSummary =
      "Reject where rho - log rho - 1 is above limit, by token or over the sequence";
  static constexpr const char* kSource = "verl's preset";
  K3Mask() : DivergenceMask(/*k3=*/true, 0.01) {}
};

}  // namespace hone::trainer
