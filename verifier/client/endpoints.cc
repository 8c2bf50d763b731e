#include "verifier/client/endpoints.h"

#include <cstdlib>
#include <string>

#include "absl/strings/str_split.h"

namespace hone::verifier {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

ClientOptions OptionsFor(absl::string_view endpoints, ClientOptions options) {
  options.endpoints = absl::StrSplit(endpoints, ',');
  options.token = Environment("HONE_TOKEN");
  options.tls_ca = Environment("HONE_TLS_CA");
  options.tls_certificate = Environment("HONE_TLS_CERTIFICATE");
  options.tls_key = Environment("HONE_TLS_KEY");
  return options;
}

}  // namespace hone::verifier
