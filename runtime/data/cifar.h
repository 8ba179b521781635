// Reads the binary version of CIFAR-10: files of records of 3,073 bytes, a label (0 to 9), then the
// red, green and blue plane of an image of 32 × 32. Plain functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "runtime/data/images.h"

namespace ddp::rt::data {

inline constexpr int kCifarClasses = 10;

// Appends the records of one file. Error(kData) says what is wrong and what to do; `name` is the
// file's name in it.
void AppendCifar(const std::string& name, std::span<const uint8_t> bytes, ImageSet& set);

// `data_batch_*.bin` (training) or `test_batch.bin` of a folder.
ImageSet ReadCifarSet(const std::filesystem::path& folder, bool training);

}  // namespace ddp::rt::data
