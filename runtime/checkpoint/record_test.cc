#include "runtime/checkpoint/record.h"

#include <gtest/gtest.h>

#include <span>

#include "runtime/base/error.h"
#include "runtime/checkpoint/file.h"

namespace ddp::rt::checkpoint {
namespace {

Record Sample() {
  return {.position = {.step = 120,
                       .epoch = 1,
                       .cursor = 3648,
                       .seed = 18446744073709551615U,
                       .world_size = 2,
                       .learning_rate = 0.1 / 3,
                       .config_hash = "c0ffee"},
          .state = {{"rng.cpu", "00ff"}, {"data.vocabulary", "a\n\"\u00e9"}},
          .files = {{.name = "model.safetensors", .bytes = 12, .xxh3 = "0123456789abcdef"}}};
}

TEST(Record, RoundTrips) {
  const Record read = ParseRecord(FormatRecord(Sample()));
  EXPECT_EQ(read.position, Sample().position);
  EXPECT_EQ(read.files, Sample().files);
  EXPECT_EQ(read.state, Sample().state);
}

TEST(Record, ANameThatLeadsElsewhereIsRefused) {
  for (const char* name : {"", "../model.safetensors", "/etc/passwd", "a/b", ".."}) {
    Record record = Sample();
    record.files[0].name = name;
    EXPECT_THROW(ParseRecord(FormatRecord(record)), Error) << name;
  }
}

// As the first version wrote them: without state.
TEST(Record, AnOlderFormatIsReadAndANewerOneRefused) {
  const auto document = [](int format) {
    const std::string body =
        R"({"configHash":"c0ffee","epoch":1,"files":[],"format":)" + std::to_string(format) +
        R"(,"sampler":{"cursor":64,"seed":1},"schedule":{"learningRate":0.5},"step":120,)"
        R"("worldSize":2})";
    return R"({"checkpoint":)" + body + R"(,"xxh3":")" +
           ToHex(Checksum(std::as_bytes(std::span(body)))) + "\"}";
  };
  const Record read = ParseRecord(document(1));
  EXPECT_EQ(read.position.step, 120);
  EXPECT_EQ(read.position.cursor, 64);
  EXPECT_TRUE(read.state.empty());
  try {
    ParseRecord(document(3));
    ADD_FAILURE() << "read";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kData);
    EXPECT_NE(std::string(e.what()).find("it has format 3, and this program knows 1 and 2: use "),
              std::string::npos)
        << e.what();
  }
}

TEST(Record, NoticesEveryFlippedBit) {
  const std::string text = FormatRecord(Sample());
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      try {
        // White space outside of the numbers and names may change; what is read must not.
        EXPECT_EQ(ParseRecord(changed).position, Sample().position) << i;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::kData);
      }
    }
  }
}

TEST(Record, NoticesEveryTruncation) {
  const std::string text = FormatRecord(Sample());
  for (size_t length = 0; length + 1 < text.size(); ++length) {
    EXPECT_THROW(ParseRecord(std::string_view(text).substr(0, length)), Error) << length;
  }
}

}  // namespace
}  // namespace ddp::rt::checkpoint
