// What moves the bytes. A transport executes one call at a time, on the group's thread or on one
// that waits for it, and knows nothing of queues. Interrupt may come from any thread.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/comm/call.h"
#include "runtime/comm/control.h"
#include "runtime/comm/process_group.h"

namespace ddp::rt::comm {

class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual std::string_view name() const = 0;
  // Returns when this rank's part of the call is done and its memory may be used again. Throws
  // Error, after which the group is broken. Adds the time until the last rank had arrived to
  // `waiting`.
  virtual void Run(const Call& call, std::chrono::nanoseconds& waiting) = 0;
  // Memory of call.count bytes; a collective like Run.
  virtual std::unique_ptr<Buffer> Allocate(const Call& call) = 0;
  // Called on the caller's thread before the call is queued: a mark of what the caller's GPU stream
  // has to do first. Nothing for transports that work on host memory.
  virtual std::shared_ptr<void> MarkReady(void* /*stream*/) { return nullptr; }
  // Whether any thread may run its calls; else only the group's own does.
  virtual bool AnyThread() const { return true; }
  // Its calls are all computation and this host has no core to spare for it: beside a training
  // thread that still computes they would only take turns with it, so they run when somebody waits.
  virtual bool PrefersWaiter() const { return false; }
  // Makes a waiting Run look at the control state again.
  virtual void Interrupt() = 0;
};

}  // namespace ddp::rt::comm
