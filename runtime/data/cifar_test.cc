#include "runtime/data/cifar.h"

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/error.h"
#include "runtime/base/temp_folder_test.h"

namespace ddp::rt::data {
namespace {

std::string Record(char label, char red, char blue) {
  return label + std::string(1024, red) + std::string(1024, '\0') + std::string(1024, blue);
}

TEST(ReadCifarSet, ReadsAllBatchesInOrder) {
  const TempFolder folder;
  std::ofstream(folder.path() / "data_batch_2.bin", std::ios::binary) << Record(7, 9, 8);
  std::ofstream(folder.path() / "data_batch_1.bin", std::ios::binary)
      << Record(3, 1, 2) + Record(4, 5, 6);
  const ImageSet set = ReadCifarSet(folder.path(), true);
  EXPECT_EQ(set.count, 3);
  EXPECT_EQ(set.channels, 3);
  EXPECT_EQ(set.labels, (std::vector<uint8_t>{3, 4, 7}));
  EXPECT_EQ(set.image(2)[0], 9);
  EXPECT_EQ(set.image(2)[3071], 8);
}

TEST(ReadCifarSet, SaysWhatIsWrong) {
  const TempFolder folder;
  try {
    ReadCifarSet(folder.path(), false);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kNoInput);
    EXPECT_NE(std::string(e.what()).find("has no test_batch.bin"), std::string::npos) << e.what();
  }
  ImageSet set;
  const auto fails = [&](const std::string& bytes, const std::string& says) {
    try {
      AppendCifar("x", {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, set);
      ADD_FAILURE() << "accepted, wanted: " << says;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kData);
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
  };
  fails("", "found 0 bytes");
  fails("\x1f\x8b", "tar -xzf");
  fails(Record(3, 0, 0) + "x", "found 3074 bytes, which is no multiple of a record's 3073");
  fails(Record(10, 0, 0), "the label of record 0 is 10, above the largest class 9");
}

}  // namespace
}  // namespace ddp::rt::data
