#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "tests/trainer/loss/filters/batch.h"
#include "trainer/loss/filters/sequence_masks.h"
#include "trainer/loss/filters/token_weights.h"

namespace hone::trainer {
namespace {

using Catch::Matchers::WithinRel;
using Floats = std::vector<float>;

const Floats kAlternating = {0.5f, -0.5f, 0.5f, -0.5f};  // signed mean 0, mean of absolutes 0.5

TEST_CASE("A signed mean passes alternating log-ratios of half that MirrorPop rejects", "[filters]") {
  CHECK(Weights(GeometricMask(), kAlternating) == Floats(4, 1));
  CHECK(Weights(SequenceMis(), kAlternating) == Floats(4, 1));
  CHECK(Weights(Opsm(), kAlternating, /*advantage=*/-1) == Floats(4, 1));
  CHECK(Weights(MirrorPop(), kAlternating) == Floats(4, 0));
}

TEST_CASE("MirrorPop keeps a sequence iff its mean of |log rho| is at most delta", "[filters]") {
  MirrorPop filter;
  filter.delta = 0.25;
  CHECK(Weights(filter, {0.5f, 0.0f, -0.25f, 0.25f}) == Floats(4, 1));   // mean exactly 0.25
  CHECK(Weights(filter, {0.5f, 0.0f, -0.375f, 0.25f}) == Floats(4, 0));  // 0.28125
}

TEST_CASE("MirrorPop treats rho and its reciprocal alike and ignores the sign of the advantage", "[filters]") {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 0.07f);
  int kept = 0;
  for (int i = 0; i < 200; ++i) {
    Floats deltas(32), mirrored(32);
    for (size_t t = 0; t < deltas.size(); ++t) mirrored[t] = -(deltas[t] = normal(random));
    const Floats weights = Weights(MirrorPop(), deltas);
    kept += weights[0] == 1;
    CHECK(Weights(MirrorPop(), mirrored) == weights);
    CHECK(Weights(MirrorPop(), deltas, -1) == weights);
  }
  CHECK((kept > 0 && kept < 200));  // the threshold cuts through these cases
}

TEST_CASE("MirrorPop masks the whole sequence, leaves the others and, as published, the denominators alone",
          "[filters]") {
  TestBatch batch;
  batch.Add({0.01f, -0.01f});
  batch.Add({0.0f, 0.9f});
  FilterDecision decision = Apply(MirrorPop(), batch);
  CHECK(decision.weight == Floats{1, 1, 0, 0});
  CHECK(decision.counted == std::vector<uint8_t>{1, 1, 1, 1});
}

TEST_CASE("Truncated importance sampling caps the ratio above, the two-sided one below as well", "[filters]") {
  const float log4 = std::log(4.0f);
  const Floats tis = Weights(Tis(), {0, log4, -log4, 3 * log4});
  CHECK(tis[0] == 1);
  CHECK(tis[1] == 2);  // 4 capped at 2
  CHECK_THAT(tis[2], WithinRel(0.25, 1e-6));
  const Floats two_sided = Weights(TwoSidedTis(), {log4, -log4, 3 * log4, -3 * log4});
  CHECK_THAT(two_sided[0], WithinRel(4.0, 1e-6));
  CHECK_THAT(two_sided[1], WithinRel(0.25, 1e-6));
  CHECK(two_sided[2] == 5);     // 64 capped at 5
  CHECK(two_sided[3] == 0.2f);  // 1/64 raised to 0.2
}

TEST_CASE("Sequence TIS weighs by the product of ratios; TRL's default drops what is above the cap", "[filters]") {
  const float log2 = std::log(2.0f);
  SequenceTis filter;
  CHECK_THAT(Weights(filter, {log2, -2 * log2})[0], WithinRel(0.5, 1e-6));
  CHECK(Weights(filter, {log2, log2}) == Floats{2, 2});  // 4 capped at 2
  filter.mask_above = true;
  filter.high = 3;
  CHECK(Weights(filter, {log2, log2}) == Floats{0, 0});  // 4 > 3
  CHECK_THAT(Weights(filter, {log2, 0})[1], WithinRel(2.0, 1e-6));
}

TEST_CASE("Token MIS and IcePop drop tokens outside their band; MIS also from the denominator", "[filters]") {
  TestBatch batch;
  batch.Add({0.0f, std::log(1.9f), std::log(2.1f), std::log(0.4f), std::log(5.1f)});
  const FilterDecision mis = Apply(TokenMis(), batch);
  CHECK(mis.weight == Floats{1, 1, 0, 0, 0});
  CHECK(mis.counted == std::vector<uint8_t>{1, 1, 0, 0, 0});
  const FilterDecision icepop = Apply(IcePop(), batch);
  CHECK_THAT(icepop.weight[1], WithinRel(1.9, 1e-6));
  CHECK_THAT(icepop.weight[2], WithinRel(2.1, 1e-6));
  CHECK(icepop.weight[3] == 0);
  CHECK(icepop.weight[4] == 0);
  CHECK(icepop.counted == std::vector<uint8_t>(5, 1));
}

TEST_CASE("Sequence MIS bounds the product, the geometric mask the geometric mean", "[filters]") {
  const float log2 = std::log(2.0f);
  CHECK(Weights(SequenceMis(), {0.6f, 0.0f}) == Floats{1, 1});       // e^0.6 = 1.82
  CHECK(Weights(SequenceMis(), {log2, 0.01f}) == Floats{0, 0});      // 2.02
  CHECK(Weights(SequenceMis(), {-log2, -0.01f}) == Floats{0, 0});    // 0.495
  CHECK(Weights(GeometricMask(), {0.0018f, 0.0f}) == Floats{1, 1});  // exp(0.0009)
  CHECK(Weights(GeometricMask(), {0.0022f, 0.0f}) == Floats{0, 0});  // exp(0.0011)
  CHECK(Weights(GeometricMask(), {-0.0022f, 0.0f}) == Floats{0, 0});
}

TEST_CASE("k2 and k3 reject by their mean, sum, largest or single token", "[filters]") {
  K3Mask k3;  // of delta = ln 2: 2 - 0.6931 - 1 = 0.3069
  const float log2 = std::log(2.0f);
  CHECK(Weights(k3, {log2, 0, 0, 0}) == Floats(4, 0));     // mean 0.0767 > 0.01
  CHECK(Weights(k3, {0.1f, 0.1f, 0, 0}) == Floats(4, 1));  // mean 0.0026
  k3.limit = 0.3;
  k3.reduce = "sum";
  CHECK(Weights(k3, {log2, 0}) == Floats{0, 0});
  k3.reduce = "max";
  CHECK(Weights(k3, {0.5f, 0.5f, 0.5f}) == Floats{1, 1, 1});  // each 0.1487
  k3.reduce = "token";
  CHECK(Weights(k3, {log2, 0}) == Floats{0, 1});
  K2Mask k2;  // of 2: 2; of 2.5: 3.125
  CHECK(Weights(k2, {2.0f, -2.0f}) == Floats{1, 1});
  CHECK(Weights(k2, {2.5f, -2.5f}) == Floats{0, 0});
}

TEST_CASE("A single token below the veto's limit drops its sequence", "[filters]") {
  CHECK(Weights(Veto(), {0, 0, -9.2f}) == Floats(3, 1));  // 1.01e-4
  CHECK(Weights(Veto(), {0, 0, -9.3f}) == Floats(3, 0));  // 0.91e-4
  CHECK(Weights(Veto(), {0, 0, 15.0f}) == Floats(3, 1));
}

TEST_CASE("OPSM rejects only sequences of negative advantage that the learner likes less", "[filters]") {
  CHECK(Weights(Opsm(), {-0.01f, 0}, -1) == Floats{0, 0});  // mean of -log rho 0.005 > 1e-4
  CHECK(Weights(Opsm(), {-0.01f, 0}, +1) == Floats{1, 1});
  CHECK(Weights(Opsm(), {+0.01f, 0}, -1) == Floats{1, 1});
}

TEST_CASE("A sequence mask by geometric mean weighs what it keeps with the untruncated ratio", "[filters]") {
  const float log8 = std::log(8.0f);
  const Floats kept = Weights(SequenceMaskTis(), {log8, -log8});
  CHECK_THAT(kept[0], WithinRel(8.0, 1e-6));
  CHECK_THAT(kept[1], WithinRel(0.125, 1e-6));
  CHECK(Weights(SequenceMaskTis(), {0.006f, 0}) == Floats{0, 0});  // exp(0.003) > 1.002
}

TEST_CASE("DPPO drops a token whose probability moved too far along its advantage", "[filters]") {
  // mu = 0.5. pi = 0.75 moved by +0.25, pi = 0.25 by -0.25, pi = 0.6 by +0.1.
  const Floats deltas = {std::log(1.5f), std::log(0.5f), std::log(1.2f)};
  TestBatch up, down;
  up.Add(deltas, +1, std::log(0.5f));
  down.Add(deltas, -1, std::log(0.5f));
  const Floats a = Apply(Dppo(), up).weight;
  CHECK(a[0] == 0);
  CHECK_THAT(a[1], WithinRel(0.5, 1e-6));  // moved against the advantage: kept, weighed with rho
  CHECK_THAT(a[2], WithinRel(1.2, 1e-6));
  const Floats b = Apply(Dppo(), down).weight;
  CHECK_THAT(b[0], WithinRel(1.5, 1e-6));
  CHECK(b[1] == 0);
  Dppo ipo;
  ipo.both_sides = true;
  CHECK(Apply(ipo, up).weight[1] == 0);
}

TEST_CASE("Every filter keeps an on-policy batch whole", "[filters]") {
  for (const auto& entry : Filter::Registry()) {
    INFO(entry.name);
    TestBatch batch;
    batch.Add(Floats(5, 0), +1);
    batch.Add(Floats(3, 0), -1);
    const FilterDecision decision = Apply(*entry.make(), batch);
    CHECK(decision.weight == Floats(8, 1));
    CHECK(decision.counted == std::vector<uint8_t>(8, 1));
  }
}

TEST_CASE("No filter keeps a token whose log-ratio is not finite, and none reads tokens outside the mask",
          "[filters]") {
  const float odd[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (const auto& entry : Filter::Registry()) {
    INFO(entry.name);
    for (const float value : odd) {
      TestBatch batch;
      batch.Add({0, value, 0}, -1);
      batch.Add({0, 0}, -1);
      FilterDecision decision = Apply(*entry.make(), batch);
      CHECK(decision.weight[1] == 0);
      CHECK(decision.weight[3] == 1);  // the neighbour is untouched
      CHECK(decision.weight[4] == 1);
      batch.mask[1] = 0;
      decision = Apply(*entry.make(), batch);
      CHECK(decision.weight == Floats(5, 1));
    }
  }
}

TEST_CASE("Weights are finite, never negative and independent of the other sequences, for any filter", "[filters]") {
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0, 1);
  for (const auto& entry : Filter::Registry()) {
    INFO(entry.name);
    const auto filter = entry.make();
    for (int round = 0; round < 50; ++round) {
      TestBatch batch;
      std::vector<Floats> sequences(4);
      for (Floats& deltas : sequences) {
        const float scale = std::pow(10.0f, static_cast<float>(random() % 5) - 3);
        for (size_t t = random() % 6; t > 0; --t) deltas.push_back(scale * normal(random));
        batch.Add(deltas, normal(random));
      }
      const FilterDecision together = Apply(*filter, batch);
      for (size_t i = 0; i < sequences.size(); ++i) {
        TestBatch alone;
        alone.Add(sequences[i], batch.advantages[i]);
        const FilterDecision decision = Apply(*filter, alone);
        CHECK(std::equal(decision.weight.begin(), decision.weight.end(), together.weight.begin() + batch.offsets[i]));
        for (const float weight : decision.weight) CHECK((std::isfinite(weight) && weight >= 0));
      }
    }
  }
}

}  // namespace
}  // namespace hone::trainer
