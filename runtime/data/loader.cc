#include "runtime/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "runtime/base/error.h"

namespace ddp::rt::data {

Loader::Loader(const Dataset& data, std::function<std::optional<StepPlan>()> plan,
               const LoaderOptions& options)
    : data_(data), plan_(std::move(plan)), options_(options) {
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

LoadedStep Loader::Make(StepPlan plan) const {
  LoadedStep step;
  const std::span<const int64_t> samples(plan.samples);
  for (int64_t part = 0; part < plan.parts; ++part) {
    const auto begin = std::min(samples.size(), static_cast<size_t>(part * plan.part));
    const auto size = std::min(samples.size() - begin, static_cast<size_t>(plan.part));
    Batch batch = data_.Make(samples.subspan(begin, size), &plan.draw);
    if (options_.pinned) {
      batch = {.inputs = batch.inputs.pin_memory(), .labels = batch.labels.pin_memory()};
    }
    step.parts.push_back(std::move(batch));
  }
  step.plan = std::move(plan);
  return step;
}

void Loader::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || ended_ || planned_ < taken_ + options_.ahead; });
    if (stop_ || ended_) {
      return;
    }
    const int64_t number = planned_++;
    Outcome outcome;
    try {
      auto plan = plan_();
      if (!plan) {
        ended_ = true;
        changed_.notify_all();
        return;
      }
      lock.unlock();
      outcome.step = Make(std::move(*plan));
    } catch (...) {
      outcome.failure = std::current_exception();
    }
    if (!lock.owns_lock()) {
      lock.lock();
    }
    ready_.emplace(number, std::move(outcome));
    changed_.notify_all();
  }
}

LoadedStep Loader::Next() {
  if (threads_.empty()) {
    auto plan = plan_();
    DDP_RT_CHECK(plan, "a step after the last");
    return Make(std::move(*plan));
  }
  std::unique_lock lock(mutex_);
  const bool came =
      changed_.wait_for(lock, options_.timeout, [&] { return ready_.contains(taken_); });
  if (!came) {
    throw Error(ExitCode::kSoftware,
                fmt::format("no batch came within {} s (batch {} of this process, {} loader "
                            "thread(s)): is the storage of data.path reachable?",
                            std::chrono::duration<double>(options_.timeout).count(), taken_ + 1,
                            options_.threads));
  }
  Outcome outcome = std::move(ready_.extract(taken_).mapped());
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  if (outcome.failure) {
    std::rethrow_exception(outcome.failure);
  }
  return std::move(*outcome.step);
}

}  // namespace ddp::rt::data
