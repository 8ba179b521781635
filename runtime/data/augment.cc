#include "runtime/data/augment.h"

#include <cmath>
#include <numbers>

#include "runtime/data/seed.h"

namespace ddp::rt::data {
namespace {

// A counter-based generator: no state to save or to share.
class Draws {
 public:
  Draws(uint64_t seed, int64_t epoch, int64_t sample)
      : key_(Mix(Mix(Mix(seed) ^ static_cast<uint64_t>(epoch)) ^ static_cast<uint64_t>(sample))) {}

  // From -limit to limit.
  double Next(double limit) {
    constexpr double kUnit = 1.0 / 9007199254740992.0;  // 2^-53: the bits of a double
    const double unit = static_cast<double>(Mix(key_ + ++counter_) >> 11) * kUnit;
    return (2 * unit - 1) * limit;
  }

 private:
  uint64_t key_;
  uint64_t counter_ = 0;
};

// From a place in the result to the place in the source image.
struct Affine {
  double xx, xy, x0;
  double yx, yy, y0;
};

Affine DrawMap(const Augmentation& how, Draws draws, ImageShape shape) {
  const double angle = draws.Next(how.rotate_degrees) * std::numbers::pi / 180;
  const double factor = 1 / (1 + draws.Next(how.scale));
  const double shift_x = draws.Next(how.shift_pixels);
  const double shift_y = draws.Next(how.shift_pixels);
  const double c = std::cos(angle) * factor;
  const double s = std::sin(angle) * factor;
  const bool flip = draws.Next(1) > 0 && how.flip;
  const double center_x = static_cast<double>(shape.columns - 1) / 2;
  const double center_y = static_cast<double>(shape.rows - 1) / 2;
  const double from_x = center_x + shift_x;
  const double from_y = center_y + shift_y;
  Affine map{.xx = c,
             .xy = -s,
             .x0 = center_x - c * from_x + s * from_y,
             .yx = s,
             .yy = c,
             .y0 = center_y - s * from_x - c * from_y};
  if (flip) {  // the source's columns count from the other side
    map.xx = -map.xx;
    map.xy = -map.xy;
    map.x0 = 2 * center_x - map.x0;
  }
  return map;
}

// The value at a place between pixels.
float Sample(std::span<const uint8_t> plane, ImageShape shape, double x, double y) {
  const auto pixel = [&](int64_t row, int64_t column) -> float {
    const bool inside = row >= 0 && row < shape.rows && column >= 0 && column < shape.columns;
    return inside ? static_cast<float>(plane[static_cast<size_t>(row * shape.columns + column)])
                  : 0;
  };
  const double left = std::floor(x);
  const double top = std::floor(y);
  const auto x_part = static_cast<float>(x - left);
  const auto y_part = static_cast<float>(y - top);
  const auto c = static_cast<int64_t>(left);
  const auto r = static_cast<int64_t>(top);
  const float upper = pixel(r, c) * (1 - x_part) + pixel(r, c + 1) * x_part;
  const float lower = pixel(r + 1, c) * (1 - x_part) + pixel(r + 1, c + 1) * x_part;
  return upper * (1 - y_part) + lower * y_part;
}

}  // namespace

void Augment(const Augmentation& how, uint64_t seed, int64_t epoch, int64_t sample,
             ImageShape shape, std::span<const uint8_t> in, std::span<float> out) {
  const Affine map = DrawMap(how, Draws(seed, epoch, sample), shape);
  const auto plane = static_cast<size_t>(shape.rows * shape.columns);
  size_t next = 0;
  for (size_t channel = 0; channel < static_cast<size_t>(shape.channels); ++channel) {
    const auto from = in.subspan(channel * plane, plane);
    for (int64_t row = 0; row < shape.rows; ++row) {
      for (int64_t column = 0; column < shape.columns; ++column) {
        const auto to_x = static_cast<double>(column);
        const auto to_y = static_cast<double>(row);
        out[next++] = Sample(from, shape, map.xx * to_x + map.xy * to_y + map.x0,
                             map.yx * to_x + map.yy * to_y + map.y0);
      }
    }
  }
}

}  // namespace ddp::rt::data
