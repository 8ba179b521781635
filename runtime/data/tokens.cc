#include "runtime/data/tokens.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"

namespace ddp::rt::data {
namespace {

constexpr size_t kHeaderNumbers = 256;
constexpr size_t kHeaderBytes = kHeaderNumbers * sizeof(uint32_t);
// At start so many tokens at both ends of a shard are looked at; all others when they are used.
constexpr int64_t kCheckedAtStart = 1 << 20;

struct Header {
  uint32_t magic;
  uint32_t version;
  TokenType type;
};
constexpr Header kHeaders[] = {{20240520, 1, TokenType::kU16}, {20240801, 7, TokenType::kU32}};

uint32_t LittleEndian(std::span<const uint8_t> bytes, size_t index) {
  const auto at = bytes.subspan(index * sizeof(uint32_t), sizeof(uint32_t));
  return uint32_t{at[0]} | uint32_t{at[1]} << 8 | uint32_t{at[2]} << 16 | uint32_t{at[3]} << 24;
}

size_t Width(TokenType type) { return type == TokenType::kU16 ? 2 : 4; }

TokenView ParseAfterHeader(const std::string& name, std::span<const uint8_t> bytes,
                           const Header& header) {
  const uint32_t version = LittleEndian(bytes, 1);
  if (version != header.version) {
    Damaged(name, fmt::format("its header has version {}, expected {}; write it again with a "
                              "program of that version",
                              version, header.version));
  }
  const uint64_t count = LittleEndian(bytes, 2);
  const auto tokens = bytes.subspan(kHeaderBytes);
  if (tokens.size() != count * Width(header.type)) {
    Damaged(name, fmt::format("its header announces {} tokens of {} bytes, but {} bytes follow: {}",
                              count, Width(header.type), tokens.size(), kCopyAgain));
  }
  return {header.type, tokens};
}

template <typename T>
void Copy(std::span<const uint8_t> bytes, size_t first, std::span<int64_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + (first + i) * sizeof(T), sizeof(T));
    to[i] = value;
  }
}

}  // namespace

int64_t TokenView::size() const { return static_cast<int64_t>(bytes.size() / Width(type)); }

int64_t TokenView::token(int64_t index) const {
  int64_t value = 0;
  const auto at = static_cast<size_t>(index);
  if (type == TokenType::kU16) {
    Copy<uint16_t>(bytes, at, {&value, 1});
  } else {
    Copy<uint32_t>(bytes, at, {&value, 1});
  }
  return value;
}

TokenView ParseTokens(const std::string& name, std::span<const uint8_t> bytes, TokenType raw) {
  if (bytes.size() >= kHeaderBytes) {
    for (const Header& header : kHeaders) {
      if (LittleEndian(bytes, 0) == header.magic) {
        return ParseAfterHeader(name, bytes, header);
      }
    }
  }
  if (bytes.empty() || bytes.size() % Width(raw) != 0) {
    Damaged(name, fmt::format("found {} bytes and no header, so no whole number of tokens of {} "
                              "bytes (data.tokenType): {}",
                              bytes.size(), Width(raw), kCopyAgain));
  }
  return {raw, bytes};
}

TokenDataset::TokenDataset(std::vector<Shard> shards, int64_t length, int64_t vocabulary)
    : shards_(std::move(shards)), length_(length), vocabulary_(vocabulary), first_sample_{0} {
  int64_t longest = 0;
  for (const Shard& shard : shards_) {
    const int64_t size = shard.view.size();
    longest = std::max(longest, size);
    first_sample_.push_back(first_sample_.back() + std::max<int64_t>(0, size - 1) / length_);
    Check(shard, 0, std::min(size, kCheckedAtStart));
    Check(shard, std::max<int64_t>(0, size - kCheckedAtStart), size);
  }
  DDP_RT_CHECK(!shards_.empty(), "a data set of tokens needs a shard");
  if (size() == 0) {
    Damaged(shards_[0].name,
            fmt::format("it has {} tokens, but a sample needs {} (model.context, and one more): "
                        "use more data or a shorter context",
                        longest, length_ + 1));
  }
}

void TokenDataset::Check(const Shard& shard, int64_t begin, int64_t end) const {
  for (int64_t i = begin; i < end; ++i) {
    if (shard.view.token(i) >= vocabulary_) {
      OutOfRange(shard, i);
    }
  }
}

void TokenDataset::OutOfRange(const Shard& shard, int64_t index) const {
  Damaged(shard.name,
          fmt::format("token {} is {}, but there are only {} (model.vocabulary): set it to the "
                      "tokenizer's, or data.tokenType to what the file has",
                      index, shard.view.token(index), vocabulary_));
}

Batch TokenDataset::Make(std::span<const int64_t> samples, const Draw* /*draw*/) const {
  const auto count = static_cast<int64_t>(samples.size());
  Batch batch{.inputs = at::empty({count, length_}, at::kLong),
              .labels = at::empty({count, length_}, at::kLong)};
  auto* inputs = batch.inputs.mutable_data_ptr<int64_t>();
  auto* labels = batch.labels.mutable_data_ptr<int64_t>();
  std::vector<int64_t> window(static_cast<size_t>(length_ + 1));
  for (const int64_t sample : samples) {
    const auto next = std::upper_bound(first_sample_.begin(), first_sample_.end(), sample);
    const auto index = static_cast<size_t>(next - first_sample_.begin() - 1);
    const Shard& shard = shards_[index];
    const int64_t first = (sample - first_sample_[index]) * length_;
    if (shard.view.type == TokenType::kU16) {
      Copy<uint16_t>(shard.view.bytes, static_cast<size_t>(first), window);
    } else {
      Copy<uint32_t>(shard.view.bytes, static_cast<size_t>(first), window);
    }
    const auto largest = std::max_element(window.begin(), window.end());
    if (*largest >= vocabulary_) {
      OutOfRange(shard, first + (largest - window.begin()));
    }
    inputs = std::copy(window.begin(), window.end() - 1, inputs);
    labels = std::copy(window.begin() + 1, window.end(), labels);
  }
  return batch;
}

std::vector<TokenDataset::Shard> MapShards(const std::filesystem::path& folder,
                                           const std::string& part, TokenType raw) {
  std::vector<TokenDataset::Shard> shards;
  for (const auto& path : FilesOf(folder, part, ".bin")) {
    auto file = std::make_shared<const MappedFile>(path);
    const TokenView view = ParseTokens(path.string(), file->bytes(), raw);
    shards.push_back({path.string(), view, std::move(file)});
  }
  if (shards.empty()) {
    throw Error(ExitCode::kNoInput,
                fmt::format("data folder {} has no file *{}*.bin with tokens; tokenizers of "
                            "nanoGPT and llm.c write such files",
                            folder.string(), part));
  }
  return shards;
}

}  // namespace ddp::rt::data
