#pragma once

// One builder for all that a verifier builds: the one that takes a candidate's format and backend.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "verifier/build/builder.h"

namespace hone::verifier {

class BuilderSet final : public Builder {
 public:
  /// Replaces an earlier one of the same format and backend.
  void Add(Format format, Backend backend, std::unique_ptr<Builder> builder);
  /// Null: there is none.
  Builder* Find(Format format, Backend backend) const;

  /// kInvalidArgument also when nothing here builds such a candidate.
  absl::StatusOr<BuildResult> Build(const BuildRequest& request) override;
  absl::StatusOr<std::optional<BuildResult>> RejectUnbuilt(const BuildRequest& request) override;
  /// Of all formats of the backend.
  std::string Toolchain(Backend backend) const override;

 private:
  absl::StatusOr<Builder*> Of(const Candidate& candidate) const;

  std::map<std::pair<Format, Backend>, std::unique_ptr<Builder>> builders_;
};

}  // namespace hone::verifier
