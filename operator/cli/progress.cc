#include "operator/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ddp::cli {
namespace {

constexpr size_t kBarWidth = 24;

std::string Duration(int64_t seconds) {
  return seconds >= 3600
             ? fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
             : fmt::format("{}:{:02}", seconds / 60, seconds % 60);
}

}  // namespace

std::string Describe(const api::Progress& progress, const std::optional<int64_t>& epochs) {
  std::string text = progress.total_steps.value_or(0) > 0
                         ? fmt::format("step {}/{}", progress.step, *progress.total_steps)
                         : fmt::format("step {}", progress.step);
  if (progress.epoch) {
    text += epochs ? fmt::format("  epoch {}/{}", *progress.epoch, *epochs)
                   : fmt::format("  epoch {}", *progress.epoch);
  }
  if (progress.loss) {
    text += fmt::format("  loss {:.4f}", *progress.loss);
  }
  if (progress.samples_per_second) {
    text += fmt::format("  {:.0f} samples/s", *progress.samples_per_second);
  }
  if (progress.eta_seconds) {
    text += fmt::format("  {} left", Duration(*progress.eta_seconds));
  }
  return text;
}

std::string Bar(const api::Progress& progress, const std::optional<int64_t>& epochs,
                size_t columns) {
  const double fraction = std::clamp(progress.percent.value_or(0) / 100, 0.0, 1.0);
  const auto filled = static_cast<size_t>(fraction * kBarWidth);
  std::string bar(filled, '=');
  if (filled < kBarWidth) {
    bar += '>';
  }
  bar.resize(kBarWidth, ' ');
  std::string text =
      fmt::format("[{}] {:3.0f}%  {}", bar, std::floor(fraction * 100), Describe(progress, epochs));
  text.resize(std::min(text.size(), columns));
  return text;
}

}  // namespace ddp::cli
