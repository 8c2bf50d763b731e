#pragma once

// Who may use the service: bearer tokens with an end, a quota of open requests each. The file holds hashes, not tokens:
//
//   # client   SHA-256 of the token (printf %s "$token" | sha256sum)   expires, UTC            open requests at a time
//   trainer    5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8   2027-01-31T00:00:00Z    512
//   grafana    ...                                                      never                   4
//
// It is read again when it changes; a change that does not parse is told to the log and the earlier state stays.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/log.h"

namespace hone::verifier {

/// One open request of a client; dropping it makes room for the next.
class Permit {
 public:
  virtual ~Permit() = default;
  virtual const std::string& client() const = 0;
};

/// Thread-safe.
class AccessControl {
 public:
  /// kInvalidArgument: names file, line and what is wrong with it.
  static absl::StatusOr<std::unique_ptr<AccessControl>> Load(const std::string& path, Logger log);
  virtual ~AccessControl() = default;

  /// `authorization` is the header's value, "Bearer <token>". kUnauthenticated: none, unknown or expired (says which);
  /// kResourceExhausted: the client's quota is spent (names it).
  virtual absl::StatusOr<std::shared_ptr<Permit>> Admit(absl::string_view authorization, absl::Time now = absl::Now()) = 0;
};

}  // namespace hone::verifier
