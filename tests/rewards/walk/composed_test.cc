// The end of docs/add_a_reward.md: the new term in a pipeline of its own YAML.

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include "base/config.h"
#include "rewards/compose/pipeline.h"
#include "tests/rewards/outcomes.h"

namespace hone::rewards {
namespace {

struct File {
  PipelineConfig rewards;
};
template <class F>
void Describe(F& f, File& c) {
  f.Section("rewards", c.rewards, "");
}

TEST_CASE("The term that the walk adds composes from the walk's YAML", "[rewards]") {
  const absl::StatusOr<ConfigFile> yaml = ConfigFile::Load(HONE_WALK_FOLDER "/mine.yaml");
  REQUIRE(yaml.ok());
  File file;
  const absl::Status read = yaml->Read(file);
  INFO(read);
  REQUIRE(read.ok());
  const Pipeline pipeline = *Pipeline::Create(file.rewards);
  // MusaCoder 1 + 0.5 * (1.5 - 1), and a tenth of 1.5 / 2.
  CHECK_THAT(*pipeline.Score({GroupOutcomes{{Passed(2, 1.5, 2.5)}}}).groups[0].episodes[0].turns[0].score,
             Catch::Matchers::WithinAbs(1.325, 1e-12));
}

}  // namespace
}  // namespace hone::rewards
