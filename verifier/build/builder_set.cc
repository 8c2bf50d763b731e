#include "verifier/build/builder_set.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hone::verifier {

void BuilderSet::Add(Format format, Backend backend, std::unique_ptr<Builder> builder) {
  builders_[{format, backend}] = std::move(builder);
}

Builder* BuilderSet::Find(Format format, Backend backend) const {
  const auto found = builders_.find({format, backend});
  return found == builders_.end() ? nullptr : found->second.get();
}

absl::StatusOr<Builder*> BuilderSet::Of(const Candidate& candidate) const {
  if (Builder* builder = Find(candidate.format, candidate.backend)) return builder;
  return absl::InvalidArgumentError(absl::StrCat("this verifier does not build ", std::string(Name(candidate.format)),
                                                 " candidates for ", std::string(Name(candidate.backend))));
}

absl::StatusOr<BuildResult> BuilderSet::Build(const BuildRequest& request) {
  HONE_ASSIGN_OR_RETURN(Builder* const builder, Of(request.candidate));
  return builder->Build(request);
}

absl::StatusOr<std::optional<BuildResult>> BuilderSet::RejectUnbuilt(const BuildRequest& request) {
  HONE_ASSIGN_OR_RETURN(Builder* const builder, Of(request.candidate));
  return builder->RejectUnbuilt(request);
}

std::string BuilderSet::Toolchain(Backend backend) const {
  std::string all;
  for (const auto& [key, builder] : builders_) {
    if (key.second == backend) absl::StrAppend(&all, all.empty() ? "" : "; ", builder->Toolchain(backend));
  }
  return all;
}

}  // namespace hone::verifier
