#include "verifier/service/json_body.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strings.h"
#include "hone/v1/verifier.pb.h"

namespace hone::verifier {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 64;

/// Deepest nesting of a JSON text, known before anything is built from it.
int DepthOf(absl::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

/// Source texts are plain strings in our JSON; protobuf's own form of bytes is base64.
void EncodeSource(Json& request, const char* message, const char* field) {
  if (!request.contains(message) || !request[message].is_object()) return;
  Json& owner = request[message];
  if (owner.contains(field) && owner[field].is_string()) owner[field] = absl::Base64Escape(owner[field].get<std::string>());
}

}  // namespace

absl::StatusOr<Json> ParseBody(const std::string& body) {
  if (const int depth = DepthOf(body); depth > kMaxDepth) {
    return absl::InvalidArgumentError(absl::StrCat("the body nests ", depth, " levels deep; at most ", kMaxDepth, " are read"));
  }
  try {
    return Json::parse(body);
  } catch (const Json::exception& error) {  // a number beyond a double is no parse_error
    absl::string_view what = error.what();
    if (const size_t end = what.find("] "); end != absl::string_view::npos) what.remove_prefix(end + 2);  // of the library's own code
    return absl::InvalidArgumentError(absl::StrCat("the body is not JSON: ", ToUtf8(what.substr(0, 200))));
  }
}

absl::Status ParseVerifyRequest(const std::string& body, v1::VerifyRequest* message) {
  HONE_ASSIGN_OR_RETURN(Json json, ParseBody(body));
  if (!json.is_object()) return absl::InvalidArgumentError("the body is not an object");
  for (const char* field : {"reference", "scalar_baseline", "scalarBaseline"}) EncodeSource(json, "task", field);
  EncodeSource(json, "candidate", "source");
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      json.dump(-1, ' ', false, Json::error_handler_t::replace), message);
  if (parsed.ok()) return absl::OkStatus();
  const auto why = parsed.message();
  return absl::InvalidArgumentError(absl::StrCat("not a hone.v1.VerifyRequest as hone ", HONE_VERSION, " knows it: ",
                                                 ToUtf8(absl::string_view(why.data(), std::min<size_t>(why.size(), 300)))));
}

}  // namespace hone::verifier
