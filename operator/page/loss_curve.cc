#include "operator/page/loss_curve.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddp::page {
namespace {

// Of the drawing, in its own units; the margins hold the labels.
constexpr double kWidth = 640;
constexpr double kHeight = 200;
constexpr double kLeft = 64;
constexpr double kRight = 12;
constexpr double kTop = 12;
constexpr double kBottom = 28;

}  // namespace

std::string LossCurve(const std::vector<LossPoint>& points) {
  if (points.size() < 2) {
    return "";
  }
  const auto [least, most] = std::minmax_element(
      points.begin(), points.end(), [](const auto& a, const auto& b) { return a.loss < b.loss; });
  const double low = least->loss;
  const double span = most->loss > low ? most->loss - low : 1;
  const auto first = static_cast<double>(points.front().step);
  const double steps = static_cast<double>(points.back().step) - first;
  std::string line;
  for (const LossPoint& point : points) {
    const double x =
        kLeft + (kWidth - kLeft - kRight) * (static_cast<double>(point.step) - first) / steps;
    const double y = kTop + (kHeight - kTop - kBottom) * (1 - (point.loss - low) / span);
    line += fmt::format("{:.1f},{:.1f} ", x, y);
  }
  const double base = kHeight - kBottom;
  std::string svg = fmt::format(
      R"(<svg class="curve" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="Loss by step">)",
      kWidth, kHeight);
  for (const auto& [y, loss] : {std::pair(kTop, low + span), std::pair(base, low)}) {
    svg +=
        fmt::format(R"(<line class="grid" x1="{0:.0f}" x2="{1:.0f}" y1="{2:.0f}" y2="{2:.0f}"/>)",
                    kLeft, kWidth - kRight, y);
    svg += fmt::format(R"(<text x="{:.0f}" y="{:.0f}" text-anchor="end">{:.4g}</text>)", kLeft - 8,
                       y + 4, loss);
  }
  svg += fmt::format(R"(<text x="{:.0f}" y="{:.0f}">step {}</text>)", kLeft, kHeight - 8,
                     points.front().step);
  svg += fmt::format(R"(<text x="{:.0f}" y="{:.0f}" text-anchor="end">step {}</text>)",
                     kWidth - kRight, kHeight - 8, points.back().step);
  return svg + fmt::format(R"(<polyline points="{}"/></svg>)", line);
}

}  // namespace ddp::page
