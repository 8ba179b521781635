// What an API server answers when it refuses, as one typed value, and what the caller should do
// about it (base::ErrorCode). The one place that maps HTTP statuses and Status reasons to actions.
// Plain data.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/result.h"

namespace ddp::kube {

struct Cause {
  std::string reason;   // "FieldValueInvalid"
  std::string message;  // the server's sentence
  std::string field;    // "spec.replicas"
};

struct ApiError {
  base::ErrorCode code = base::ErrorCode::kInternal;
  int http = 0;  // 0: no answer came (network, deadline, stop)
  std::string reason;
  std::string message;
  std::optional<std::chrono::seconds> retry_after;
  std::vector<Cause> causes;

  base::Error ToError() const { return {code, message}; }
};

template <typename T>
using ApiResult = base::Result<T, ApiError>;

// From an answer's status line, its body (a Status object, or any text) and its Retry-After header.
ApiError ParseApiError(int http, std::string_view body,
                       std::optional<std::chrono::seconds> retry_after);

// No answer at all.
ApiError NoAnswer(base::Error error);

// The namespace is going away: nothing can be created in it, and nothing needs to be.
bool IsNamespaceTerminating(const ApiError& error);

}  // namespace ddp::kube
