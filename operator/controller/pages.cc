#include "operator/controller/pages.h"

#include <openssl/crypto.h>

namespace ddp::controller {
namespace {

HttpAnswer FromCheck(const Check& check) {
  const std::string trouble = check();
  return {trouble.empty() ? 200 : 503, "text/plain", trouble.empty() ? "ok\n" : trouble + "\n"};
}

// In a time that says nothing about where they differ.
bool Matches(std::string_view authorization, const std::string& token) {
  constexpr std::string_view kScheme = "Bearer ";
  if (token.empty() || !authorization.starts_with(kScheme)) {
    return false;
  }
  authorization.remove_prefix(kScheme.size());
  return authorization.size() == token.size() &&
         CRYPTO_memcmp(authorization.data(), token.data(), token.size()) == 0;
}

HttpAnswer MetricsPage(const Pages& pages, std::string_view authorization) {
  if (pages.token && !Matches(authorization, pages.token())) {
    return {401, "text/plain", "the bearer token is missing or wrong\n", true};
  }
  return {200, "text/plain; version=0.0.4; charset=utf-8", pages.metrics->Text()};
}

}  // namespace

HttpServer::Handler Serve(Pages pages) {
  return [pages = std::move(pages)](const HttpQuestion& question) -> HttpAnswer {
    if (question.path == "/healthz" && pages.healthy) {
      return FromCheck(pages.healthy);
    }
    if (question.path == "/readyz" && pages.ready) {
      return FromCheck(pages.ready);
    }
    if (question.path == "/metrics" && pages.metrics != nullptr) {
      return MetricsPage(pages, question.authorization);
    }
    return {404, "text/plain", "no such page\n"};
  };
}

}  // namespace ddp::controller
