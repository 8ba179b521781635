#include "operator/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "operator/json/json.h"

namespace ddp::cli {
namespace {

using json::Json;

constexpr size_t kBarWidth = 24;
constexpr double kLongestEta = 365.0 * 24 * 3600;

std::optional<double> NumberAt(const Json& object, std::string_view field) {
  const Json* value = json::Find(object, {field});
  if (value == nullptr || !value->is_number() || !std::isfinite(value->get<double>())) {
    return std::nullopt;
  }
  return value->get<double>();
}

std::string Duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, kLongestEta));
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

double Fraction(const Progress& progress) {
  return progress.total_steps > 0 ? std::clamp(static_cast<double>(progress.step) /
                                                   static_cast<double>(progress.total_steps),
                                               0.0, 1.0)
                                  : 0.0;
}

}  // namespace

std::optional<Progress> ParseProgress(std::string_view text) {
  const auto json = json::Parse(text);
  if (!json || !json->is_object() || !json->contains("step")) {
    return std::nullopt;
  }
  Progress progress;
  progress.step = std::max<int64_t>(0, json::GetInt(*json, {"step"}));
  progress.total_steps = std::max<int64_t>(0, json::GetInt(*json, {"totalSteps"}));
  progress.epoch = json::GetInt(*json, {"epoch"});
  progress.epochs = json::GetInt(*json, {"epochs"});
  progress.loss = NumberAt(*json, "loss");
  progress.samples_per_second = NumberAt(*json, "samplesPerSecond");
  progress.eta_seconds = NumberAt(*json, "etaSeconds");
  return progress;
}

std::string Describe(const Progress& progress) {
  std::string text = progress.total_steps > 0
                         ? fmt::format("step {}/{}", progress.step, progress.total_steps)
                         : fmt::format("step {}", progress.step);
  if (progress.epochs > 0) {
    text += fmt::format("  epoch {}/{}", progress.epoch, progress.epochs);
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

std::string Bar(const Progress& progress, size_t columns) {
  const double fraction = Fraction(progress);
  const auto filled = static_cast<size_t>(fraction * kBarWidth);
  std::string bar(filled, '=');
  if (filled < kBarWidth) {
    bar += '>';
  }
  bar.resize(kBarWidth, ' ');
  std::string text =
      fmt::format("[{}] {:3.0f}%  {}", bar, std::floor(fraction * 100), Describe(progress));
  text.resize(std::min(text.size(), columns));
  return text;
}

}  // namespace ddp::cli
