#include "runtime/data/cifar.h"

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/data/file.h"

namespace ddp::rt::data {
namespace {

constexpr int64_t kSide = 32;
constexpr int64_t kChannels = 3;
constexpr size_t kRecord = 1 + kChannels * kSide * kSide;

// Of the training images, as everybody uses them.
const std::vector<float> kMean = {0.4914F, 0.4822F, 0.4465F};
const std::vector<float> kDeviation = {0.2470F, 0.2435F, 0.2616F};

ImageSet Empty() {
  return {.rows = kSide,
          .columns = kSide,
          .channels = kChannels,
          .mean = kMean,
          .deviation = kDeviation};
}

}  // namespace

void AppendCifar(const std::string& name, std::span<const uint8_t> bytes, ImageSet& set) {
  if (bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b) {
    Damaged(name, "it is compressed; unpack it first with tar -xzf");
  }
  if (bytes.empty() || bytes.size() % kRecord != 0) {
    Damaged(name, fmt::format("found {} bytes, which is no multiple of a record's {} (a label and "
                              "3 × 32 × 32 pixels): {}. data.path wants the binary version of "
                              "CIFAR-10",
                              bytes.size(), kRecord, kCopyAgain));
  }
  for (size_t at = 0; at < bytes.size(); at += kRecord) {
    if (bytes[at] >= kCifarClasses) {
      Damaged(name, fmt::format("the label of record {} is {}, above the largest class {}; is this "
                                "CIFAR-10's binary version?",
                                at / kRecord, bytes[at], kCifarClasses - 1));
    }
    set.labels.push_back(bytes[at]);
    const auto pixels = bytes.subspan(at + 1, kRecord - 1);
    set.pixels.insert(set.pixels.end(), pixels.begin(), pixels.end());
  }
  set.count = static_cast<int64_t>(set.labels.size());
}

ImageSet ReadCifarSet(const std::filesystem::path& folder, bool training) {
  const std::string part = training ? "data_batch_" : "test_batch";
  const auto files = FilesOf(folder, part, ".bin");
  if (files.empty()) {
    throw Error(ExitCode::kNoInput,
                fmt::format("data folder {} has no {}{}.bin of CIFAR-10's binary version",
                            folder.string(), part, training ? "*" : ""));
  }
  ImageSet set = Empty();
  for (const auto& file : files) {
    AppendCifar(file.string(), ReadFile(file), set);
  }
  return set;
}

}  // namespace ddp::rt::data
