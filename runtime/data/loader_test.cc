#include "runtime/data/loader.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "runtime/base/error.h"

namespace ddp::rt::data {
namespace {

// Sample i is the number i; sample 13 is damaged.
class Numbers final : public Dataset {
 public:
  int64_t size() const override { return 100; }
  int64_t labels_per_sample() const override { return 1; }
  DataShape shape() const override { return {.classes = 100}; }
  Batch Make(std::span<const int64_t> samples, const Draw* draw) const override {
    ++made;
    for (const int64_t sample : samples) {
      if (sample == 13) {
        throw Error(ExitCode::kData, "sample 13 is damaged");
      }
      if (sample == 50) {
        gate.wait();
      }
    }
    const auto count = static_cast<int64_t>(samples.size());
    return {.inputs = at::full({count}, samples.empty() ? -1 : samples[0], at::kLong),
            .labels = at::full({count}, draw == nullptr ? -1 : draw->epoch, at::kLong)};
  }
  mutable std::atomic<int> made = 0;
  std::shared_future<void> gate;
};

// Steps of one sample each, from `first` up to `end`.
std::function<std::optional<StepPlan>()> Plan(int64_t first, int64_t end) {
  return [next = first, end]() mutable -> std::optional<StepPlan> {
    if (next == end) {
      return std::nullopt;
    }
    StepPlan plan{.step = next, .samples = {next}, .total = 1, .part = 1, .draw = {.epoch = 7}};
    ++next;
    return plan;
  };
}

TEST(Loader, GivesTheSameInOrderForAnyNumberOfThreads) {
  const Numbers data;
  for (const int threads : {0, 1, 3}) {
    Loader loader(data, Plan(20, 45), {.threads = threads, .ahead = 5});
    for (int64_t i = 20; i < 45; ++i) {
      const LoadedStep step = loader.Next();
      EXPECT_EQ(step.plan.step, i);
      ASSERT_EQ(step.parts.size(), 1U);
      EXPECT_EQ(step.parts[0].inputs.item<int64_t>(), i);
      EXPECT_EQ(step.parts[0].labels.item<int64_t>(), 7);
    }
  }
}

TEST(Loader, CutsAStepIntoParts) {
  const Numbers data;
  Loader loader(data,
                [done = false]() mutable -> std::optional<StepPlan> {
                  if (std::exchange(done, true)) {
                    return std::nullopt;
                  }
                  return StepPlan{.samples = {4, 5, 6}, .total = 3, .part = 2, .parts = 3};
                },
                {});
  const LoadedStep step = loader.Next();
  ASSERT_EQ(step.parts.size(), 3U);
  EXPECT_EQ(step.parts[0].inputs.numel(), 2);
  EXPECT_EQ(step.parts[1].inputs.item<int64_t>(), 6);
  EXPECT_EQ(step.parts[2].inputs.numel(), 0);
}

TEST(Loader, MakesNoMoreThanItMay) {
  Numbers data;
  std::promise<void> open;
  data.gate = open.get_future().share();
  {
    Loader loader(data, Plan(49, 90), {.threads = 1, .ahead = 3});
    EXPECT_EQ(loader.Next().plan.step, 49);
    open.set_value();
    EXPECT_EQ(loader.Next().plan.step, 50);
  }  // ends although steps are ready that nobody has taken
  EXPECT_LE(data.made, 2 + 3);
}

TEST(Loader, ThrowsWhatAThreadThrewInItsPlace) {
  const Numbers data;
  for (const int threads : {0, 2}) {
    Loader loader(data, Plan(12, 20), {.threads = threads});
    EXPECT_EQ(loader.Next().plan.step, 12);
    EXPECT_THROW(loader.Next(), Error);
    EXPECT_EQ(loader.Next().plan.step, 14);
  }
}

TEST(Loader, WaitingHasAnEnd) {
  Numbers data;
  std::promise<void> open;
  data.gate = open.get_future().share();
  Loader loader(data, Plan(50, 60), {.timeout = std::chrono::milliseconds(20)});
  try {
    loader.Next();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kSoftware);
    EXPECT_NE(std::string(e.what()).find("no batch came within 0.02 s"), std::string::npos)
        << e.what();
  }
  open.set_value();
}

}  // namespace
}  // namespace ddp::rt::data
