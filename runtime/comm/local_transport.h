// The transport of a world of one: nothing moves.
#pragma once

#include "runtime/comm/transport.h"

namespace ddp::rt::comm {

class LocalTransport final : public Transport {
 public:
  explicit LocalTransport(Control& control) : control_(control) {}
  std::string_view name() const override { return "none"; }
  void Run(const Call& call, std::chrono::nanoseconds& waiting) override;
  std::unique_ptr<Buffer> Allocate(const Call& call) override;
  void Interrupt() override {}

 private:
  Control& control_;
};

}  // namespace ddp::rt::comm
