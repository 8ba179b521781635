// Test data of every element type, and the reduction in plain scalar code to compare with.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/comm/types.h"

namespace ddp::rt::comm {

inline constexpr DataType kAllTypes[] = {DataType::kF32, DataType::kF64, DataType::kBF16,
                                         DataType::kF16, DataType::kI32, DataType::kI64};
inline constexpr ReduceOp kAllOps[] = {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax};

inline float Bf16ToFloat(std::uint16_t x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Round to nearest even by trying both neighbours. Finite values only.
inline std::uint16_t FloatToBf16(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  const auto below = static_cast<std::uint16_t>(bits >> 16);
  const std::uint32_t rest = bits & 0xffff;
  const bool up = rest > 0x8000 || (rest == 0x8000 && (below & 1) != 0);
  return static_cast<std::uint16_t>(below + (up ? 1 : 0));
}

// A number that depends on rank and position, with fractions that make the order of sums matter.
inline double ValueOf(int rank, std::size_t i) {
  const std::uint64_t mixed =
      (i + 1) * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(rank) * 0xbf58476d1ce4e5b9ULL;
  return static_cast<double>(static_cast<std::int64_t>(mixed >> 40) - (1 << 23)) / 8192.0;
}

inline void StoreAs(DataType type, double value, void* array, std::size_t i) {
  switch (type) {
    case DataType::kF32:
      static_cast<float*>(array)[i] = static_cast<float>(value);
      return;
    case DataType::kF64:
      static_cast<double*>(array)[i] = value;
      return;
    case DataType::kBF16:
      static_cast<std::uint16_t*>(array)[i] = FloatToBf16(static_cast<float>(value));
      return;
    case DataType::kF16:
      static_cast<_Float16*>(array)[i] = static_cast<_Float16>(static_cast<float>(value));
      return;
    case DataType::kI32:
      static_cast<std::int32_t*>(array)[i] = static_cast<std::int32_t>(value * 1000);
      return;
    case DataType::kI64:
      static_cast<std::int64_t*>(array)[i] = static_cast<std::int64_t>(value * 1e12);
      return;
  }
}

inline void Fill(DataType type, int rank, void* array, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    StoreAs(type, ValueOf(rank, i), array, i);
  }
}

template <typename Element, typename Sum, typename Load, typename Store>
void ReferenceAs(ReduceOp op, int world, std::vector<char>& out, std::size_t count,
                 const std::vector<std::vector<char>>& inputs, const Load& load,
                 const Store& store) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto of = [&](int r) {
      return load(reinterpret_cast<const Element*>(inputs[static_cast<std::size_t>(r)].data())[i]);
    };
    Sum sum = of(0);
    for (int r = 1; r < world; ++r) {
      sum = op == ReduceOp::kMax ? std::max<Sum>(sum, of(r)) : static_cast<Sum>(sum + of(r));
    }
    if (op == ReduceOp::kMean) {
      sum = std::is_integral_v<Sum> ? sum / static_cast<Sum>(world)
                                    : sum * (static_cast<Sum>(1) / static_cast<Sum>(world));
    }
    reinterpret_cast<Element*>(out.data())[i] = store(sum);
  }
}

// What every rank must get if rank r has Fill(type, r, …).
inline std::vector<char> Reference(DataType type, ReduceOp op, int world, std::size_t count) {
  std::vector<std::vector<char>> inputs(static_cast<std::size_t>(world));
  for (int r = 0; r < world; ++r) {
    auto& input = inputs[static_cast<std::size_t>(r)];
    input.resize(count * SizeOf(type));
    Fill(type, r, input.data(), count);
  }
  std::vector<char> out(count * SizeOf(type));
  const auto same = [](auto x) { return x; };
  switch (type) {
    case DataType::kF32:
      ReferenceAs<float, float>(op, world, out, count, inputs, same, same);
      break;
    case DataType::kF64:
      ReferenceAs<double, double>(op, world, out, count, inputs, same, same);
      break;
    case DataType::kBF16:
      ReferenceAs<std::uint16_t, float>(op, world, out, count, inputs, Bf16ToFloat, FloatToBf16);
      break;
    case DataType::kF16:
      ReferenceAs<_Float16, float>(
          op, world, out, count, inputs, [](_Float16 x) { return static_cast<float>(x); },
          [](float x) { return static_cast<_Float16>(x); });
      break;
    case DataType::kI32:
      ReferenceAs<std::int32_t, std::int32_t>(op, world, out, count, inputs, same, same);
      break;
    case DataType::kI64:
      ReferenceAs<std::int64_t, std::int64_t>(op, world, out, count, inputs, same, same);
      break;
  }
  return out;
}

}  // namespace ddp::rt::comm
