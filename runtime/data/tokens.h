// Token shards: long rows of 16- or 32-bit numbers, cut into windows of one length, each a sample
// whose labels are the same tokens one place on. Files are mapped, not read. Thread-safe: const.
//
// A shard is either raw, little-endian (nanoGPT's train.bin and val.bin are, of 16 bits), or starts
// with a header of 256 little-endian 32-bit numbers, as llm.c writes: a magic number (20240520: 16
// bits a token follow; 20240801: 32 bits), a version (1; 7), and the number of tokens; the rest of
// the header is not looked at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/file.h"

namespace ddp::rt::data {

enum class TokenType { kU16, kU32 };

struct TokenView {
  TokenType type = TokenType::kU16;
  std::span<const uint8_t> bytes;

  int64_t size() const;
  int64_t token(int64_t index) const;
};

// Checks header and size; `raw` is the type of a file without a header. Error(kData) says what is
// wrong, with `name` as the file's.
TokenView ParseTokens(const std::string& name, std::span<const uint8_t> bytes, TokenType raw);

class TokenDataset final : public Dataset {
 public:
  // One piece of tokens; `owner` keeps its memory.
  struct Shard {
    std::string name;
    TokenView view;
    std::shared_ptr<const void> owner;
  };
  // Windows of `length` tokens (and one more, the last label), none across shards. `vocabulary` is
  // how many different tokens there may be. Error(kData) if no shard has a whole window, or if a
  // token near a shard's ends is out of range.
  TokenDataset(std::vector<Shard> shards, int64_t length, int64_t vocabulary);

  int64_t size() const override { return first_sample_.back(); }
  int64_t labels_per_sample() const override { return length_; }
  DataShape shape() const override { return {.classes = vocabulary_}; }
  // Error(kData) if a token is out of range.
  Batch Make(std::span<const int64_t> samples, const Draw* draw) const override;

 private:
  void Check(const Shard& shard, int64_t begin, int64_t end) const;
  [[noreturn]] void OutOfRange(const Shard& shard, int64_t index) const;

  const std::vector<Shard> shards_;
  const int64_t length_;
  const int64_t vocabulary_;
  std::vector<int64_t> first_sample_;  // of each shard, and the number of all
};

// The shards of a folder whose names contain `part` ("train", "val") and end with .bin, mapped.
// Error(kNoInput) if there are none.
std::vector<TokenDataset::Shard> MapShards(const std::filesystem::path& folder,
                                           const std::string& part, TokenType raw);

}  // namespace ddp::rt::data
