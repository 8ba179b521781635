#include "operator/kube/error.h"

#include <gtest/gtest.h>

namespace ddp::kube {
namespace {

using base::ErrorCode;

std::string Status(const std::string& reason) {
  return R"({"kind":"Status","status":"Failure","message":"m","reason":")" + reason + "\"}";
}

TEST(ApiError, MapsToWhatTheCallerMustDo) {
  struct Row {
    int http;
    std::string body;
    ErrorCode code;
  };
  const Row rows[] = {
      {400, Status("BadRequest"), ErrorCode::kInvalid},
      {401, Status("Unauthorized"), ErrorCode::kUnauthorized},
      {403, Status("Forbidden"), ErrorCode::kForbidden},
      {404, Status("NotFound"), ErrorCode::kNotFound},
      {409, Status("Conflict"), ErrorCode::kConflict},
      {409, Status("AlreadyExists"), ErrorCode::kAlreadyExists},
      {410, Status("Expired"), ErrorCode::kGone},
      {410, Status("Gone"), ErrorCode::kGone},
      {422, Status("Invalid"), ErrorCode::kInvalid},
      {429, Status("TooManyRequests"), ErrorCode::kTooManyRequests},
      {500, Status("InternalError"), ErrorCode::kUnavailable},
      {503, "<html>upstream is down</html>", ErrorCode::kUnavailable},
      {504, Status("Timeout"), ErrorCode::kUnavailable},
      {307, "", ErrorCode::kInternal},
  };
  for (const Row& row : rows) {
    const ApiError error = ParseApiError(row.http, row.body, std::nullopt);
    EXPECT_EQ(error.code, row.code) << row.http << " " << row.body;
    EXPECT_EQ(error.http, row.http);
    EXPECT_FALSE(error.message.empty());
  }
}

TEST(ApiError, KeepsTheServersSentenceAndCauses) {
  const ApiError error = ParseApiError(
      422,
      R"({"kind":"Status","reason":"Invalid","message":"DDPJob \"x\" is invalid","details":{
         "causes":[{"reason":"FieldValueInvalid","message":"must be at least 1","field":"spec.replicas"}],
         "retryAfterSeconds":7}})",
      std::nullopt);
  EXPECT_EQ(error.message, "DDPJob \"x\" is invalid");
  ASSERT_EQ(error.causes.size(), 1U);
  EXPECT_EQ(error.causes[0].field, "spec.replicas");
  EXPECT_EQ(error.retry_after, std::chrono::seconds(7));
}

TEST(ApiError, TheHeaderBeatsTheBody) {
  const ApiError error = ParseApiError(
      429, R"({"kind":"Status","details":{"retryAfterSeconds":7}})", std::chrono::seconds(2));
  EXPECT_EQ(error.retry_after, std::chrono::seconds(2));
}

TEST(ApiError, KnowsATerminatingNamespace) {
  const char* body = R"({"kind":"Status","reason":"Forbidden","message":"m","details":{
      "causes":[{"reason":"NamespaceTerminating"}]}})";
  EXPECT_TRUE(IsNamespaceTerminating(ParseApiError(403, body, std::nullopt)));
  EXPECT_FALSE(IsNamespaceTerminating(ParseApiError(403, Status("Forbidden"), std::nullopt)));
}

TEST(ApiError, ShowsAProxysPageShortAndOnOneLine) {
  const ApiError error = ParseApiError(502, std::string("a\nb") + std::string(5000, 'x'), {});
  EXPECT_EQ(error.message.find('\n'), std::string::npos);
  EXPECT_LT(error.message.size(), 300U);
}

}  // namespace
}  // namespace ddp::kube
