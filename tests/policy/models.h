#pragma once

// Real models for tests that skip without them: deploy/setup/fetch_models.sh brings them.

#include <cstdlib>
#include <optional>
#include <string>

#include "base/file.h"

namespace hone::policy {

/// `name` below $HONE_MODELS, or ~/.cache/hone/models.
inline std::optional<std::string> FindModel(const std::string& name) {
  const char* models = std::getenv("HONE_MODELS");
  const char* home = std::getenv("HOME");
  const std::string folder = models != nullptr ? models : std::string(home != nullptr ? home : "") + "/.cache/hone/models";
  const std::string path = folder + "/" + name;
  return FileExists(path) ? std::make_optional(path) : std::nullopt;
}

inline std::string MissingModel(const std::string& name) {
  return name + " is not there; deploy/setup/fetch_models.sh brings it";
}

}  // namespace hone::policy
