#include "runtime/data/open.h"

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/data/cifar.h"
#include "runtime/data/idx.h"
#include "runtime/data/text.h"

namespace ddp::rt::data {
namespace {

constexpr int kDigits = 10;

Datasets OpenIdx(const std::filesystem::path& folder, const Augmentation& augment) {
  ImageSet train = ReadImageSet(folder, "train", kDigits);
  ImageSet test = ReadImageSet(folder, "t10k", kDigits);
  if (train.rows != test.rows || train.columns != test.columns) {
    throw Error(
        ExitCode::kData,
        fmt::format("training images in {} are {} × {}, test images {} × {}; they must be alike",
                    folder.string(), train.rows, train.columns, test.rows, test.columns));
  }
  return {.train = std::make_unique<ImageDataset>(std::move(train), kDigits, augment),
          .test = std::make_unique<ImageDataset>(std::move(test), kDigits, augment),
          .alphabet = {}};
}

Datasets OpenCifar(const std::filesystem::path& folder, const Augmentation& augment) {
  const auto read = [&](bool training) {
    return std::make_unique<ImageDataset>(ReadCifarSet(folder, training), kCifarClasses, augment);
  };
  return {.train = read(true), .test = read(false), .alphabet = {}};
}

Datasets OpenTokens(const std::filesystem::path& folder, const OpenOptions& options) {
  const auto map = [&](const char* part) {
    return std::make_unique<TokenDataset>(MapShards(folder, part, options.raw_tokens),
                                          options.length, options.vocabulary);
  };
  return {.train = map("train"), .test = map("val"), .alphabet = {}};
}

}  // namespace

std::string DetectFormat(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) {
    return path.extension() == ".txt" ? "text" : "";
  }
  if (!FilesOf(path, "-idx3-ubyte", "").empty()) {
    return "idx";
  }
  if (!FilesOf(path, "data_batch_", ".bin").empty()) {
    return "cifar10";
  }
  if (!FilesOf(path, "train", ".bin").empty()) {
    return "tokens";
  }
  return FilesOf(path, "", ".txt").empty() ? "" : "text";
}

Datasets OpenDatasets(const std::filesystem::path& path, const OpenOptions& options) {
  const std::string format = options.format == "auto" ? DetectFormat(path) : options.format;
  if (format.empty()) {
    throw Error(ExitCode::kNoInput,
                fmt::format("{} has no data that is known: expected train-images-idx3-ubyte and so "
                            "on (IDX), data_batch_*.bin (CIFAR-10), *train*.bin (tokens) or *.txt",
                            path.string()));
  }
  const bool tokens = format == "tokens" || format == "text";
  if (tokens != (options.length > 0)) {
    throw Error(ExitCode::kConfig,
                fmt::format("{} is {}, but model.name says a model of {}: use {}", path.string(),
                            format == "text" ? "text"
                            : tokens         ? "tokens"
                                             : "images",
                            tokens ? "images" : "tokens",
                            tokens ? "model gpt" : "mlp, convnet or resnet18"));
  }
  if (format == "idx") {
    return OpenIdx(path, options.augment);
  }
  if (format == "cifar10") {
    return OpenCifar(path, options.augment);
  }
  return format == "tokens" ? OpenTokens(path, options)
                            : ReadText(path, options.evaluation_part, options.length);
}

}  // namespace ddp::rt::data
