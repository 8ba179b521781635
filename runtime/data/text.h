// Plain text as tokens: each different character (code point of UTF-8) is one, numbered in the
// order of code points. Plain functions and data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/dataset.h"

namespace ddp::rt::data {

// The code points of a text. Error(kData) names the first byte that is not UTF-8.
std::vector<int32_t> DecodeUtf8(const std::string& name, std::string_view text);
std::string EncodeUtf8(int32_t code_point);

// The different code points, in order. Error(kData) if there are more than 65,536.
std::vector<int32_t> AlphabetOf(const std::vector<int32_t>& text);

// Tokens of characters. Error(kData) names one that is not in the alphabet.
std::vector<uint16_t> ToTokens(const std::vector<int32_t>& text,
                               const std::vector<int32_t>& alphabet);

// One .txt file, or all of a folder, in the order of their names, as one text: its end, so large a
// part, is for evaluation.
Datasets ReadText(const std::filesystem::path& path, double evaluation_part, int64_t length);

}  // namespace ddp::rt::data
