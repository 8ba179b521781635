#include "runtime/data/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/data/file.h"

namespace ddp::rt::data {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr size_t kMagicBytes = 4;
constexpr size_t kSizeBytes = 4;
// Far above any set that fits in memory; keeps the product of the sizes from overflowing.
constexpr int64_t kMaxElements = int64_t{1} << 40;

uint32_t BigEndian(std::span<const uint8_t> bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 |
         uint32_t{bytes[3]};
}

void CheckMagic(const std::string& name, std::span<const uint8_t> bytes, int dimensions) {
  if (bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
    Damaged(name, "it is compressed; unpack it first with gunzip");
  }
  if (bytes.size() < kMagicBytes) {
    Damaged(name,
            fmt::format("found {} bytes, too few for an IDX file: {}", bytes.size(), kCopyAgain));
  }
  if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != kUnsignedByte || bytes[3] != dimensions) {
    Damaged(name, fmt::format("it starts with {:#010x} instead of {:#010x}, so it is not an IDX "
                              "file of unsigned bytes with {} dimension(s)",
                              BigEndian(bytes), kUnsignedByte << 8 | dimensions, dimensions));
  }
}

}  // namespace

IdxView ParseIdx(const std::string& name, std::span<const uint8_t> bytes, int dimensions) {
  CheckMagic(name, bytes, dimensions);
  const size_t header = kMagicBytes + kSizeBytes * static_cast<size_t>(dimensions);
  if (bytes.size() < header) {
    Damaged(name, fmt::format("expected a header of {} bytes, found {}: {}", header, bytes.size(),
                              kCopyAgain));
  }
  IdxView view;
  int64_t elements = 1;
  for (int i = 0; i < dimensions; ++i) {
    const int64_t size =
        BigEndian(bytes.subspan(kMagicBytes + kSizeBytes * static_cast<size_t>(i)));
    view.sizes.push_back(size);
    if (size == 0 || elements > kMaxElements / size) {
      Damaged(name, fmt::format("its header announces the sizes {}, which can't be",
                                fmt::join(view.sizes, " × ")));
    }
    elements *= size;
  }
  const size_t expected = header + static_cast<size_t>(elements);
  if (bytes.size() != expected) {
    Damaged(name, fmt::format("expected {} bytes ({} elements), found {}: {}", expected,
                              fmt::join(view.sizes, " × "), bytes.size(), kCopyAgain));
  }
  view.elements = bytes.subspan(header);
  return view;
}

ImageSet ReadImageSet(const std::filesystem::path& folder, const std::string& prefix, int classes) {
  const auto images_path = folder / (prefix + "-images-idx3-ubyte");
  const auto labels_path = folder / (prefix + "-labels-idx1-ubyte");
  const auto image_bytes = ReadFile(images_path);
  const auto label_bytes = ReadFile(labels_path);
  const IdxView images = ParseIdx(images_path.string(), image_bytes, 3);
  const IdxView labels = ParseIdx(labels_path.string(), label_bytes, 1);
  if (images.sizes[0] != labels.sizes[0]) {
    Damaged(labels_path.string(),
            fmt::format("it has {} labels, but {} has {} images", labels.sizes[0],
                        images_path.string(), images.sizes[0]));
  }
  for (size_t i = 0; i < labels.elements.size(); ++i) {
    if (labels.elements[i] >= classes) {
      Damaged(labels_path.string(), fmt::format("label {} is {}, above the largest class {}", i,
                                                labels.elements[i], classes - 1));
    }
  }
  return {.count = images.sizes[0],
          .rows = images.sizes[1],
          .columns = images.sizes[2],
          .pixels = {images.elements.begin(), images.elements.end()},
          .labels = {labels.elements.begin(), labels.elements.end()}};
}

}  // namespace ddp::rt::data
