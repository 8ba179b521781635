// Reads IDX files, the format of MNIST: a four-byte magic (0, 0, element type, number of
// dimensions), one big-endian 32-bit size per dimension, then the elements. Only unsigned bytes
// (type 8) are read, as images and labels of the usual sets are.
// Plain functions and data; nothing is read after start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/images.h"

namespace ddp::rt::data {

// A parsed file: the elements are a view into the bytes that were parsed.
struct IdxView {
  std::vector<int64_t> sizes;
  std::span<const uint8_t> elements;
};

// Checks magic, sizes and that exactly the announced elements follow. `dimensions` is how many the
// caller expects. Error(kData) says what was expected, what was found, and what to do; `name` is
// the file's name in it.
IdxView ParseIdx(const std::string& name, std::span<const uint8_t> bytes, int dimensions);

// Reads `<prefix>-images-idx3-ubyte` and `<prefix>-labels-idx1-ubyte` of a folder and checks that
// they belong together. Error: kNoInput for a missing file, kData for a damaged one.
ImageSet ReadImageSet(const std::filesystem::path& folder, const std::string& prefix, int classes);

}  // namespace ddp::rt::data
