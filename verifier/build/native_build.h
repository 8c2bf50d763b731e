#pragma once

// What all builders share: looking at the text, and putting outcomes into a BuildResult and a record.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "verifier/build/builder.h"
#include "verifier/build/compiler_output.h"
#include "verifier/build/source_dialect.h"
#include "verifier/cache/artefact_store.h"

namespace hone::verifier {

// Names of an entry's files.
inline constexpr char kTimedFile[] = "artefact.so";
inline constexpr char kCheckedFile[] = "checked.so";

/// Why a source is not worth a compiler, or nothing.
std::string UnusableText(absl::string_view source);

/// What the store remembers of a build, and the build again out of an entry.
std::string RecordOf(const BuildResult& result);
absl::StatusOr<BuildResult> ResultOf(const Artefact& artefact);

/// What `build(&result, &contents)`, which returns a Status, makes: timed, with its record. An outcome that another try
/// may change is told and not kept.
template <class Build>
absl::StatusOr<ArtefactContents> Recorded(std::string toolchain, Build build) {
  const SteadyTime start = SteadyTime::Now();
  BuildResult result;
  result.toolchain = std::move(toolchain);
  ArtefactContents contents;
  HONE_RETURN_IF_ERROR(build(&result, &contents));
  result.seconds = absl::ToDoubleSeconds(SteadyTime::Now() - start);
  contents.record = RecordOf(result);
  contents.keep = result.status != VerdictStatus::kCompileTimeout;
  return contents;
}

/// Ends a build with a verdict of the candidate's own.
void Reject(VerdictStatus status, std::string message, BuildResult* result);
/// kForbidden, by the first of the result's rules.
void Forbid(BuildResult* result);
/// kCompile, with the errors trimmed to what a model can use.
void ReportErrors(std::vector<CompilerError> errors, const BuildRequest& request, const SourceDialect& dialect,
                  BuildResult* result);
/// kParse: no `launch` in the source.
void RejectWithoutLaunch(const BuildRequest& request, const SourceDialect& dialect, BuildResult* result);

}  // namespace hone::verifier
