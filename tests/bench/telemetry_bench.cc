// What watching a run costs: prints, as JSON in seconds,
//   telemetry.cost  per step: all updates of the board, and the share of a heartbeat, a scrape of
//                   /metrics and a look at /progress a second that falls on a step
//   telemetry.step  a step of a 1.86 M-parameter MLP, 64 samples, one thread: the matrix products
//                   of forward and backward alone
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdint>

#include "runtime/health/metrics.h"
#include "runtime/health/progress.h"
#include "runtime/train/board.h"

namespace ddp::rt {
namespace {

using Clock = std::chrono::steady_clock;

template <typename Work>
double SecondsEach(int repetitions, Work work) {
  const auto start = Clock::now();
  for (int i = 0; i < repetitions; ++i) {
    work();
  }
  return std::chrono::duration<double>(Clock::now() - start).count() / repetitions;
}

// As much as the training loop does, and as many looks at the clock.
void Update(train::Board& board) {
  const auto lap = [last = Clock::now()]() mutable {
    const auto now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(last, now)).count();
  };
  auto timer = lap;
  for (train::AtomicHistogram* histogram :
       {&board.data_wait_seconds, &board.forward_seconds, &board.backward_seconds,
        &board.exposed_communication_seconds, &board.optimizer_seconds, &board.step_seconds}) {
    histogram->Observe(timer());
  }
  board.loss = 1;
  board.step = board.step + 1;
  board.learning_rate = 0.1;
  board.gradient_norm = 2;
  board.samples_per_second = 3;
  board.wait_seconds = 4;
  board.reduced_bytes = 5;
  board.samples.fetch_add(64, std::memory_order_relaxed);
  board.last_step_time = train::UnixTime();
}

double Step() {
  at::set_num_threads(1);
  const auto product = [](int64_t rows, int64_t inner, int64_t columns) {
    return [a = at::randn({rows, inner}), b = at::randn({inner, columns})] { at::mm(a, b); };
  };
  constexpr int64_t kBatch = 64;
  constexpr int64_t kWidths[] = {784, 1024, 1024, 10};
  double seconds = 0;
  for (int layer = 0; layer < 3; ++layer) {
    const int64_t in = kWidths[layer];
    const int64_t out = kWidths[layer + 1];
    seconds += SecondsEach(50, product(kBatch, in, out));  // forward
    seconds += SecondsEach(50, product(in, kBatch, out));  // gradient of the weights
    seconds += SecondsEach(50, product(kBatch, out, in));  // gradient of the input
  }
  return seconds;
}

int Main() {
  train::Board board;
  const double update = SecondsEach(200'000, [&] { Update(board); });
  const health::Heartbeat::Ranks ranks{.beats = {health::Beat{1, 2, 3}, health::Beat{1, 2, 3}}};
  const double looks = SecondsEach(500, [&] {
    health::FormatMetrics(board, &ranks);
    health::FormatProgress(board, &ranks);
    health::ParseBeat(health::FormatBeat({.step = 1, .time = 2, .wait_seconds = 3}));
  });
  const double step = Step();
  fmt::print("{{\"telemetry.cost\": {:.9f}, \"telemetry.step\": {:.9f}}}\n", update + looks * step,
             step);
  return 0;
}

}  // namespace
}  // namespace ddp::rt

int main() { return ddp::rt::Main(); }
