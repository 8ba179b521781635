// The safetensors format, as Python's `safetensors` reads and writes it: the header's length (64
// bits, little-endian), a JSON header that gives each tensor's type, shape and place, then the
// elements without gaps. Pure: bytes in, bytes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::rt::checkpoint {

enum class DType { kU8, kI32, kI64, kF16, kBF16, kF32, kF64 };

// Bytes of one element, and the name in the header.
size_t ElementSize(DType type);
std::string_view TypeName(DType type);

// A tensor in the memory of the host. Not owned: whoever makes one keeps the elements alive.
struct TensorView {
  std::string name;
  DType type = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> elements;
};

// Length and header of a file that holds these tensors; their elements follow in this order.
// `metadata` are free texts in the header.
std::string SafetensorsHeader(std::span<const TensorView> tensors,
                              const std::map<std::string, std::string>& metadata = {});

// Views into `file`, in the order of their places. Checks everything a reader relies on: lengths,
// types, shapes against places, no gap, no overlap, nothing after the last one. Error(kData) says
// what is wrong.
std::vector<TensorView> ParseSafetensors(std::span<const std::byte> file);

}  // namespace ddp::rt::checkpoint
