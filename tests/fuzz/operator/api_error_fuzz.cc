// What an API server, or a proxy in between, may answer instead of success. The first byte chooses
// the HTTP status.
#include <string_view>

#include "operator/kube/error.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const int http = 300 + data[0] % 250;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto error = ddp::kube::ParseApiError(http, body, std::nullopt);
  DDP_CHECK(error.http == http, "the status is kept");
  DDP_CHECK(!error.message.empty() || !body.empty(), "it says something");
  DDP_CHECK(!error.retry_after || error.retry_after->count() > 0, "a wait is positive");
  (void)ddp::kube::IsNamespaceTerminating(error);
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  return {
      R"(x{"kind":"Status","status":"Failure","reason":"Invalid","message":"m","code":422,)"
      R"("details":{"name":"n","causes":[{"reason":"FieldValueInvalid","message":"m",)"
      R"("field":"spec.replicas"}],"retryAfterSeconds":3}})",
      "o<html>\n<body>502 Bad Gateway</body></html>",
      R"(d{"kind":"Status","reason":"Forbidden","details":{"causes":[{"reason":"NamespaceTerminating"}]}})"};
}
