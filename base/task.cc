#include "base/task.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/names.h"

namespace hone {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 40;

constexpr NameTable<Split, 2> kSplits = {{{Split::kTrain, "train"}, {Split::kHeldOut, "held_out"}}};

constexpr NameTable<ValueProfile, 7> kProfiles = {{
    {ValueProfile::kAsGiven, "as_given"},
    {ValueProfile::kUniform, "uniform"},
    {ValueProfile::kSignedNormal, "signed_normal"},
    {ValueProfile::kLarge, "large"},
    {ValueProfile::kSmall, "small"},
    {ValueProfile::kSparse, "sparse"},
    {ValueProfile::kSpecial, "special"},
}};

}  // namespace

Tolerance DefaultTolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return {1e-4, 1e-4};
    case DType::kFloat16:
    case DType::kBFloat16:
      return {1e-2, 1e-2};
    case DType::kFloat64:
      return {1e-7, 1e-7};
    case DType::kInt32:
    case DType::kInt64:
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool:
      return {0, 0};
  }
  HONE_CHECK(!"unknown element type");
}

std::string FormatSizes(const Sizes& sizes) { return absl::StrJoin(sizes, " ", absl::PairFormatter("=")); }

absl::StatusOr<Sizes> ParseSizes(absl::string_view text) {
  Sizes sizes;
  for (absl::string_view part : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    int64_t value = 0;
    if (pair.first.empty() || !absl::SimpleAtoi(pair.second, &value) || value < 1 || value > kLargestSize) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", part, "\" is not a size: write name=number with a number from 1 to ", kLargestSize));
    }
    if (!sizes.emplace(std::string(pair.first), value).second) {
      return absl::InvalidArgumentError(absl::StrCat("the size ", pair.first, " is given twice"));
    }
  }
  return sizes;
}

absl::string_view Name(Split split) { return NameIn(kSplits, split); }
absl::string_view Name(ValueProfile profile) { return NameIn(kProfiles, profile); }
std::optional<Split> ParseSplit(absl::string_view name) { return ParseIn(kSplits, name); }
std::optional<ValueProfile> ParseValueProfile(absl::string_view name) { return ParseIn(kProfiles, name); }

}  // namespace hone
