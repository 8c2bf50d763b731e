#pragma once

// What all builders of native candidates share: looking at the text, and putting outcomes into a BuildResult and a record.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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
