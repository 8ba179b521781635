#include "runtime/data/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/data/file.h"
#include "runtime/data/tokens.h"

namespace ddp::rt::data {
namespace {

constexpr size_t kMostCharacters = 65'536;  // of 16 bits
constexpr int32_t kLargestCodePoint = 0x10ffff;

// How many bytes a character has, told by its first; 0 = it can't be one.
size_t LengthOf(uint8_t first) {
  if (first < 0x80) {
    return 1;
  }
  if (first < 0xc2 || first > 0xf4) {
    return 0;
  }
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

// The character at the start of `text`, or -1.
int32_t FirstOf(std::string_view text, size_t length) {
  constexpr uint8_t kFirstBits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  constexpr int32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (length == 0 || length > text.size()) {
    return -1;
  }
  int32_t value = static_cast<uint8_t>(text[0]) & kFirstBits[length];
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xc0) != 0x80) {
      return -1;
    }
    value = value << 6 | (byte & 0x3f);
  }
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  return value < kSmallest[length] || value > kLargestCodePoint || surrogate ? -1 : value;
}

TokenDataset::Shard Part(const std::string& name,
                         const std::shared_ptr<std::vector<uint16_t>>& tokens, size_t begin,
                         size_t end) {
  const auto part = std::span(*tokens).subspan(begin, end - begin);
  return {name,
          {TokenType::kU16, {reinterpret_cast<const uint8_t*>(part.data()), part.size_bytes()}},
          tokens};
}

}  // namespace

std::vector<int32_t> DecodeUtf8(const std::string& name, std::string_view text) {
  std::vector<int32_t> all;
  all.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = LengthOf(static_cast<uint8_t>(text[at]));
    const int32_t value = FirstOf(text.substr(at), length);
    if (value < 0) {
      Damaged(name, fmt::format("byte {} is {:#04x}, which is not UTF-8 there; convert the text "
                                "with iconv -t UTF-8",
                                at, static_cast<uint8_t>(text[at])));
    }
    all.push_back(value);
    at += length;
  }
  return all;
}

std::string EncodeUtf8(int32_t code_point) {
  const auto value = static_cast<uint32_t>(code_point);
  const auto rest = [&](int shift) { return static_cast<char>(0x80 | (value >> shift & 0x3f)); };
  if (value < 0x80) {
    return {static_cast<char>(value)};
  }
  if (value < 0x800) {
    return {static_cast<char>(0xc0 | value >> 6), rest(0)};
  }
  if (value < 0x10000) {
    return {static_cast<char>(0xe0 | value >> 12), rest(6), rest(0)};
  }
  return {static_cast<char>(0xf0 | value >> 18), rest(12), rest(6), rest(0)};
}

std::vector<int32_t> AlphabetOf(const std::vector<int32_t>& text) {
  std::vector<bool> seen(kLargestCodePoint + 1);
  for (const int32_t character : text) {
    seen[static_cast<size_t>(character)] = true;
  }
  std::vector<int32_t> alphabet;
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i]) {
      alphabet.push_back(static_cast<int32_t>(i));
    }
  }
  if (alphabet.size() > kMostCharacters) {
    throw Error(ExitCode::kData,
                fmt::format("the text has {} different characters, more than {}: cut it into "
                            "tokens with a tokenizer, and use data.format tokens",
                            alphabet.size(), kMostCharacters));
  }
  return alphabet;
}

std::vector<uint16_t> ToTokens(const std::vector<int32_t>& text,
                               const std::vector<int32_t>& alphabet) {
  std::vector<uint16_t> tokens;
  tokens.reserve(text.size());
  for (const int32_t character : text) {
    const auto found = std::lower_bound(alphabet.begin(), alphabet.end(), character);
    if (found == alphabet.end() || *found != character) {
      throw Error(ExitCode::kData, fmt::format("the character '{}' is not in the model's alphabet",
                                               EncodeUtf8(character)));
    }
    tokens.push_back(static_cast<uint16_t>(found - alphabet.begin()));
  }
  return tokens;
}

Datasets ReadText(const std::filesystem::path& path, double evaluation_part, int64_t length) {
  std::vector<std::filesystem::path> files = {path};
  if (std::filesystem::is_directory(path)) {
    files = FilesOf(path, "", ".txt");
  }
  if (files.empty()) {
    throw Error(ExitCode::kNoInput, fmt::format("data folder {} has no *.txt file", path.string()));
  }
  std::vector<int32_t> text;
  for (const auto& file : files) {
    const auto bytes = ReadFile(file);
    const auto more =
        DecodeUtf8(file.string(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    text.insert(text.end(), more.begin(), more.end());
  }
  Datasets sets{.train = nullptr, .test = nullptr, .alphabet = AlphabetOf(text)};
  const auto tokens = std::make_shared<std::vector<uint16_t>>(ToTokens(text, sets.alphabet));
  const auto cut = static_cast<size_t>(static_cast<double>(tokens->size()) * (1 - evaluation_part));
  const auto vocabulary = static_cast<int64_t>(sets.alphabet.size());
  const auto make = [&](size_t begin, size_t end) {
    std::vector<TokenDataset::Shard> shards = {Part(path.string(), tokens, begin, end)};
    return std::make_unique<TokenDataset>(std::move(shards), length, vocabulary);
  };
  sets.train = make(0, cut);
  sets.test = make(cut, tokens->size());
  return sets;
}

}  // namespace ddp::rt::data
