// Opens the data that a config names, whatever its format, and checks every file.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/data/augment.h"
#include "runtime/data/dataset.h"
#include "runtime/data/tokens.h"

namespace ddp::rt::data {

struct OpenOptions {
  // auto, idx, cifar10, tokens, text; auto looks at the names of the files.
  std::string format = "auto";
  Augmentation augment = {};               // images
  TokenType raw_tokens = TokenType::kU16;  // tokens in files without a header
  double evaluation_part = 0.1;            // text: its end
  int64_t length = 0;                      // tokens and text: of a sample; 0 = the model takes none
  int64_t vocabulary = 0;                  // tokens
};

// Error: kNoInput for a missing file, kData for a damaged one, kConfig if model and data don't go
// together. Logs nothing.
Datasets OpenDatasets(const std::filesystem::path& path, const OpenOptions& options);

// What OpenDatasets takes a path for; "" = nothing that it knows.
std::string DetectFormat(const std::filesystem::path& path);

}  // namespace ddp::rt::data
