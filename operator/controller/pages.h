// What the health and metrics ports answer: /healthz, /readyz and /metrics. Pure but for what they
// are given.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "operator/controller/http_server.h"
#include "operator/controller/metrics.h"

namespace ddp::controller {

// Empty: well. Otherwise a sentence that says what is not.
using Check = std::function<std::string()>;

struct Pages {
  Check healthy;                     // null: no such page
  Check ready;                       // null: no such page
  const Metrics* metrics = nullptr;  // null: no such page; outlives the server
  // The token that /metrics wants; null: none is wanted. An empty one (its file can't be read) lets
  // nobody in.
  std::function<std::string()> token;
};

HttpServer::Handler Serve(Pages pages);

}  // namespace ddp::controller
