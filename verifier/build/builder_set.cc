#include "verifier/build/builder_set.h"

#include "absl/strings/str_cat.h"

namespace hone::verifier {

void BuilderSet::Add(Format format, Backend backend, std::unique_ptr<Builder> builder) {
  builders_[{format, backend}] = std::move(builder);
}

Builder* BuilderSet::Find(Format format, Backend backend) const {
  const auto found = builders_.find({format, backend});
  return found == builders_.end() ? nullptr : found->second.get();
}

absl::StatusOr<BuildResult> BuilderSet::Build(const BuildRequest& request) {
  Builder* builder = Find(request.candidate.format, request.candidate.backend);
  if (builder != nullptr) return builder->Build(request);
  return absl::InvalidArgumentError(absl::StrCat("this verifier does not build ", std::string(Name(request.candidate.format)),
                                                 " candidates for ", std::string(Name(request.candidate.backend))));
}

std::string BuilderSet::Toolchain(Backend backend) const {
  std::string all;
  for (const auto& [key, builder] : builders_) {
    if (key.second == backend) absl::StrAppend(&all, all.empty() ? "" : "; ", builder->Toolchain(backend));
  }
  return all;
}

}  // namespace hone::verifier
