// GET /metrics, /healthz and /readyz on a port of their own. Owned by main(); stops when destroyed.
// The functions are called on the server's threads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "operator/base/result.h"
#include "operator/controller/metrics.h"

namespace ddp::controller {

class HealthServer {
 public:
  // Empty: well. Otherwise a sentence that says what is not.
  using Check = std::function<std::string()>;

  // Port 0: a free one. Listens on every address, IPv6 too where the machine has it.
  static base::Result<std::unique_ptr<HealthServer>> Start(int port, const Metrics& metrics,
                                                           Check healthy, Check ready);
  HealthServer(const HealthServer&) = delete;
  HealthServer& operator=(const HealthServer&) = delete;
  ~HealthServer();
  int port() const;

 private:
  struct Impl;
  explicit HealthServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ddp::controller
