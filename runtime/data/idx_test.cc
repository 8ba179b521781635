#include "runtime/data/idx.h"

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/error.h"
#include "runtime/base/temp_folder_test.h"

namespace ddp::rt::data {
namespace {

using Bytes = std::vector<uint8_t>;

const Bytes kLabels = {0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9};
const Bytes kImages = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6};

void Write(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

TEST(ParseIdx, ReadsSizesAndElements) {
  const IdxView view = ParseIdx("x", kImages, 3);
  EXPECT_EQ(view.sizes, (std::vector<int64_t>{3, 1, 2}));
  EXPECT_EQ(view.elements.size(), 6U);
  EXPECT_EQ(view.elements[5], 6);
}

TEST(ParseIdx, SaysWhatIsWrong) {
  struct Bad {
    Bytes bytes;
    std::string says;
  };
  const Bytes truncated(kImages.begin(), kImages.end() - 1);
  Bytes longer = kImages;
  longer.push_back(0);
  for (const auto& [bytes, says] : {
           Bad{{}, "found 0 bytes, too few"},
           Bad{{0x1f, 0x8b, 8, 0}, "gunzip"},
           Bad{kLabels, "starts with 0x00000801 instead of 0x00000803"},
           Bad{{0, 0, 8, 3, 0, 0}, "expected a header of 16 bytes, found 6"},
           Bad{{0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1}, "sizes 1 × 0, which can't be"},
           Bad{{0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
               "4294967295 × 4294967295, which can't be"},
           Bad{truncated, "expected 22 bytes (3 × 1 × 2 elements), found 21: copy the file again"},
           Bad{longer, "expected 22 bytes (3 × 1 × 2 elements), found 23"},
       }) {
    try {
      ParseIdx("some-file", bytes, 3);
      ADD_FAILURE() << "accepted, wanted: " << says;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kData);
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("some-file"), std::string::npos) << e.what();
    }
  }
}

TEST(ReadImageSet, ReadsImagesAndLabels) {
  const TempFolder folder;
  Write(folder.path() / "t-images-idx3-ubyte", kImages);
  Write(folder.path() / "t-labels-idx1-ubyte", kLabels);
  const ImageSet set = ReadImageSet(folder.path(), "t", 10);
  EXPECT_EQ(set.count, 3);
  EXPECT_EQ(set.image(2)[0], 5);
  EXPECT_EQ(set.labels, (Bytes{7, 8, 9}));
}

TEST(ReadImageSet, MissingFileIsNoInput) {
  const TempFolder folder;
  try {
    ReadImageSet(folder.path(), "t", 10);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kNoInput);
    EXPECT_NE(std::string(e.what()).find("t-images-idx3-ubyte can't be read: No such file"),
              std::string::npos)
        << e.what();
  }
}

TEST(ReadImageSet, FilesMustFitTogether) {
  const TempFolder folder;
  Write(folder.path() / "t-images-idx3-ubyte", kImages);
  Write(folder.path() / "t-labels-idx1-ubyte", {0, 0, 8, 1, 0, 0, 0, 2, 7, 8});
  EXPECT_THROW(ReadImageSet(folder.path(), "t", 10), Error);
  Write(folder.path() / "t-labels-idx1-ubyte", kLabels);
  EXPECT_THROW(ReadImageSet(folder.path(), "t", 9), Error);
}

}  // namespace
}  // namespace ddp::rt::data
