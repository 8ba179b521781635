#include "operator/kube/error.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/json/json.h"

namespace ddp::kube {
namespace {

using base::ErrorCode;

struct ReasonRow {
  std::string_view reason;
  ErrorCode code;
};

// metav1.StatusReason values that say more than the HTTP status does: 409 is a conflict or a taken
// name, 410 comes as Gone and as Expired.
constexpr ReasonRow kReasons[] = {
    {"AlreadyExists", ErrorCode::kAlreadyExists},
    {"Conflict", ErrorCode::kConflict},
    {"Expired", ErrorCode::kGone},
    {"Gone", ErrorCode::kGone},
    {"Invalid", ErrorCode::kInvalid},
    {"NotFound", ErrorCode::kNotFound},
    {"Timeout", ErrorCode::kUnavailable},
    {"ServerTimeout", ErrorCode::kUnavailable},
    {"TooManyRequests", ErrorCode::kTooManyRequests},
};

ErrorCode FromHttp(int http) {
  switch (http) {
    case 400:
    case 405:
    case 406:
    case 413:
    case 415:
    case 422:
      return ErrorCode::kInvalid;
    case 401:
      return ErrorCode::kUnauthorized;
    case 403:
      return ErrorCode::kForbidden;
    case 404:
      return ErrorCode::kNotFound;
    case 408:
      return ErrorCode::kUnavailable;
    case 409:
      return ErrorCode::kConflict;
    case 410:
      return ErrorCode::kGone;
    case 429:
      return ErrorCode::kTooManyRequests;
    default:
      return http >= 500 ? ErrorCode::kUnavailable : ErrorCode::kInternal;
  }
}

std::vector<Cause> ParseCauses(const json::Json& status) {
  std::vector<Cause> causes;
  const json::Json* list = json::Find(status, {"details", "causes"});
  if (list == nullptr || !list->is_array()) {
    return causes;
  }
  for (const json::Json& item : *list) {
    causes.push_back({json::GetString(item, {"reason"}), json::GetString(item, {"message"}),
                      json::GetString(item, {"field"})});
  }
  return causes;
}

// An answer that is no Status (a proxy's page): enough of it to recognise who spoke.
std::string Excerpt(std::string_view body) {
  constexpr size_t kMost = 200;
  std::string text(body.substr(0, kMost));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  return text;
}

}  // namespace

ApiError ParseApiError(int http, std::string_view body,
                       std::optional<std::chrono::seconds> retry_after) {
  ApiError error;
  error.http = http;
  error.code = FromHttp(http);
  error.retry_after = retry_after;
  const auto status = json::Parse(body);
  if (!status || json::GetString(*status, {"kind"}) != "Status") {
    error.message = http >= 300 && http < 400
                        ? fmt::format(
                              "the server answered {} (a redirect): not followed, because "
                              "it would carry the credentials elsewhere",
                              http)
                        : fmt::format("the server answered {}: {}", http, Excerpt(body));
    return error;
  }
  error.reason = json::GetString(*status, {"reason"});
  error.message = json::GetString(*status, {"message"}, "the server gave no message");
  error.causes = ParseCauses(*status);
  const int64_t seconds = json::GetInt(*status, {"details", "retryAfterSeconds"});
  if (!error.retry_after && seconds > 0) {
    error.retry_after = std::chrono::seconds(seconds);
  }
  const auto* row =
      std::find_if(std::begin(kReasons), std::end(kReasons),
                   [&](const ReasonRow& candidate) { return candidate.reason == error.reason; });
  if (row != std::end(kReasons)) {
    error.code = row->code;
  }
  return error;
}

ApiError NoAnswer(base::Error error) {
  ApiError result;
  result.code = error.code;
  result.message = std::move(error.message);
  return result;
}

bool IsNamespaceTerminating(const ApiError& error) {
  return error.code == base::ErrorCode::kForbidden &&
         std::any_of(error.causes.begin(), error.causes.end(),
                     [](const Cause& cause) { return cause.reason == "NamespaceTerminating"; });
}

}  // namespace ddp::kube
