// Starts what an operator consists of in the right order and ends it in bounded time: sources
// first, workers once every source has listed, on stop the workers before the sources. Used by one
// thread.
#pragma once

#include <chrono>
#include <stop_token>
#include <thread>
#include <vector>

#include "operator/base/result.h"
#include "operator/controller/controller.h"
#include "operator/controller/informer.h"

namespace ddp::controller {

class Manager {
 public:
  struct Options {
    std::chrono::milliseconds sync_deadline{120'000};  // controller-runtime's CacheSyncTimeout
    std::chrono::milliseconds patience{10'000};        // for reconciles under way at the end
  };

  Manager() : Manager(Options{}) {}
  explicit Manager(Options options) : options_(options) {}

  // Borrowed; they outlive Run.
  void Add(Source& source) { sources_.push_back(&source); }
  void Add(Controller& controller) { controllers_.push_back(&controller); }

  // Watches before it leads: a standby then takes over with a warm cache.
  void StartSources();
  // Blocks until stopped; kDeadline, naming the source, if one has not listed in time.
  base::Result<base::Done> Run(const std::stop_token& stop);
  bool synced() const;

 private:
  void StopSources();

  const Options options_;
  std::vector<Source*> sources_;
  std::vector<Controller*> controllers_;
  std::vector<std::jthread> threads_;
};

}  // namespace ddp::controller
