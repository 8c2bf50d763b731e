#include "verifier/build/source_dialect.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "verifier/build/cuda_source.h"
#include "verifier/build/glue.h"
#include "verifier/musify/musify.h"

namespace hone::verifier {

std::string SourceDialect::Of(absl::string_view cuda) const {
  return musa_ ? Musify(cuda, Language::kCxx, Direction::kToMusa).text : std::string(cuda);
}

std::string SourceDialect::Unit(const Signature& signature, absl::string_view text, absl::string_view before) const {
  const Glue glue = MakeGlue(signature);
  // nvcc and the emulation bring the runtime's names along; MUSA's come from a header wherever it is compiled.
  return absl::StrCat(before, musa_ ? "#include <musa_runtime.h>\n" : "", "#line 1 \"launch\"\n", Of(glue.before),
                      "#line 1 \"", candidate_file(), "\"\n", text, "\n#line 1 \"glue\"", Of(glue.after));
}

std::vector<RuleHit> SourceDialect::CheckRules(absl::string_view text, Assembly assembly,
                                               const RulePolicy& policy) const {
  std::vector<RuleHit> hits = CheckSource(CudaSource(text), assembly, policy);
  if (!musa_) return hits;
  const Musified cuda = Musify(text, Language::kCxx, Direction::kToCuda);
  for (RuleHit& hit : CheckSource(CudaSource(cuda.text), assembly, policy)) {
    const auto same_place = [&](const RuleHit& other) {
      return other.rule == hit.rule &&
             other.evidence.substr(0, other.evidence.find(':')) == hit.evidence.substr(0, hit.evidence.find(':'));
    };
    hit.evidence = Of(hit.evidence);
    if (std::none_of(hits.begin(), hits.end(), same_place)) hits.push_back(std::move(hit));
  }
  return hits;
}

}  // namespace hone::verifier
