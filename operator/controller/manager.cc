#include "operator/controller/manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "operator/base/log.h"
#include "operator/base/memory.h"

namespace ddp::controller {
namespace {

constexpr std::chrono::seconds kTrimPeriod{10};

}  // namespace

void Manager::StartSources() {
  for (Source* source : sources_) {
    threads_.emplace_back([source](std::stop_token stop) {
      // The root of a watching thread. An exception here is a bug; a source that has ended would
      // leave the operator blind, so the whole program ends and is started again.
      try {
        source->Run(std::move(stop));
      } catch (const std::exception& e) {
        base::Die(__FILE__, __LINE__, fmt::format("source {}: {}", source->name(), e.what()));
      }
    });
  }
}

bool Manager::synced() const {
  return std::all_of(sources_.begin(), sources_.end(),
                     [](const Source* source) { return source->synced(); });
}

base::Result<base::Done> Manager::Run(const std::stop_token& stop) {
  const auto deadline = std::chrono::steady_clock::now() + options_.sync_deadline;
  for (const Source* source : sources_) {
    if (!source->WaitForSync(stop, deadline) && !stop.stop_requested()) {
      StopSources();
      return base::Error{
          base::ErrorCode::kDeadline,
          fmt::format("could not list {} within {} s: see the log for the server's answers",
                      source->name(), options_.sync_deadline.count() / 1000)};
    }
  }
  base::TrimHeap();  // of what the lists took
  base::UnmapStartupCode();
  if (!stop.stop_requested()) {
    base::Log(base::Level::kInfo, "caches are filled, starting workers");
    for (Controller* controller : controllers_) {
      controller->Start();
    }
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      never.wait_for(lock, stop, kTrimPeriod, [] { return false; });
      base::TrimHeap();
    }
  }
  for (Controller* controller : controllers_) {
    controller->Stop(options_.patience);
  }
  StopSources();
  return base::Done{};
}

void Manager::StopSources() {
  for (std::jthread& thread : threads_) {
    thread.request_stop();
  }
  threads_.clear();
}

}  // namespace ddp::controller
