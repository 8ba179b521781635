#include "runtime/data/text.h"

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/error.h"
#include "runtime/base/temp_folder_test.h"

namespace ddp::rt::data {
namespace {

TEST(Utf8, ReadsWhatItWrites) {
  const std::vector<int32_t> all = {'a', 0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff};
  std::string text;
  for (const int32_t character : all) {
    text += EncodeUtf8(character);
  }
  EXPECT_EQ(DecodeUtf8("x", text), all);
}

TEST(Utf8, RefusesEverythingElse) {
  for (const std::string text : {"a\x80", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80",
                                 "\xf4\x90\x80\x80", "\xff", "\xe2\x82", "\xc3"}) {
    try {
      DecodeUtf8("x", text);
      ADD_FAILURE() << "accepted " << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kData);
      EXPECT_NE(std::string(e.what()).find("not UTF-8"), std::string::npos) << e.what();
    }
  }
}

TEST(Alphabet, NumbersCharactersInOrder) {
  const auto text = DecodeUtf8("x", "bäba");
  const auto alphabet = AlphabetOf(text);
  EXPECT_EQ(alphabet, (std::vector<int32_t>{'a', 'b', 0xe4}));
  EXPECT_EQ(ToTokens(text, alphabet), (std::vector<uint16_t>{1, 2, 1, 0}));
  EXPECT_THROW(ToTokens({'c'}, alphabet), Error);
}

TEST(ReadText, TakesTheEndForEvaluation) {
  const TempFolder folder;
  std::ofstream(folder.path() / "2.txt") << "aabb";
  std::ofstream(folder.path() / "1.txt") << std::string(16, 'b');
  std::ofstream(folder.path() / "3.md") << "not read: z";
  const Datasets sets = ReadText(folder.path(), 0.2, 3);
  EXPECT_EQ(sets.alphabet, (std::vector<int32_t>{'a', 'b'}));
  EXPECT_EQ(sets.train->size(), 5);
  EXPECT_EQ(sets.test->size(), 1);
  const std::vector<int64_t> first = {0};
  const Batch batch = sets.test->Make(first, nullptr);
  EXPECT_EQ(batch.inputs.sum().item<int64_t>(), 1);  // a a b
  EXPECT_EQ(batch.labels.sum().item<int64_t>(), 2);  // a b b
}

TEST(ReadText, SaysWhatIsMissing) {
  const TempFolder folder;
  EXPECT_THROW(ReadText(folder.path(), 0.2, 3), Error);
  EXPECT_THROW(ReadText(folder.path() / "no.txt", 0.2, 3), Error);
  std::ofstream(folder.path() / "1.txt") << "ab";
  EXPECT_THROW(ReadText(folder.path(), 0.5, 3), Error);
}

}  // namespace
}  // namespace ddp::rt::data
