// Reads IDX files, the format of MNIST: a four-byte magic (0, 0, element type, number of
// dimensions), one big-endian 32-bit size per dimension, then the elements. Only unsigned bytes
// (type 8) are read, as images and labels of the usual sets are.
// Plain functions and data; nothing is read after start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::rt::data {

// A parsed file: the elements are a view into the bytes that were parsed.
struct IdxView {
  std::vector<int64_t> sizes;
  std::span<const uint8_t> elements;
};

// Checks magic, sizes and that exactly the announced elements follow. `dimensions` is how many the
// caller expects. Error(kData) says what was expected, what was found, and what to do; `name` is
// the file's name in it.
IdxView ParseIdx(std::string_view name, std::span<const uint8_t> bytes, int dimensions);

// Images with one label each, as read.
struct ImageSet {
  int64_t count = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<uint8_t> pixels;  // count × rows × columns
  std::vector<uint8_t> labels;  // count, each below `classes`

  std::span<const uint8_t> image(int64_t index) const {
    const auto size = static_cast<size_t>(rows * columns);
    return std::span(pixels).subspan(static_cast<size_t>(index) * size, size);
  }
};

// Reads `<prefix>-images-idx3-ubyte` and `<prefix>-labels-idx1-ubyte` of a folder and checks that
// they belong together. Error: kNoInput for a missing file, kData for a damaged one.
ImageSet ReadImageSet(const std::filesystem::path& folder, const std::string& prefix, int classes);

}  // namespace ddp::rt::data
