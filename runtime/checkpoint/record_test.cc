#include "runtime/checkpoint/record.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

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
