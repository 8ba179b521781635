#include "runtime/data/open.h"

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/error.h"
#include "runtime/base/temp_folder_test.h"

namespace ddp::rt::data {
namespace {

TEST(DetectFormat, LooksAtNames) {
  const TempFolder temp;
  const auto folder = [&](const char* name, const char* file) {
    std::filesystem::create_directory(temp.path() / name);
    std::ofstream(temp.path() / name / file) << "some text, long enough";
    return temp.path() / name;
  };
  EXPECT_EQ(DetectFormat(folder("a", "train-images-idx3-ubyte")), "idx");
  EXPECT_EQ(DetectFormat(folder("b", "data_batch_1.bin")), "cifar10");
  EXPECT_EQ(DetectFormat(folder("c", "fineweb_train_000001.bin")), "tokens");
  EXPECT_EQ(DetectFormat(folder("d", "x.txt")), "text");
  EXPECT_EQ(DetectFormat(temp.path() / "d" / "x.txt"), "text");
  EXPECT_EQ(DetectFormat(folder("e", "x.png")), "");
}

TEST(OpenDatasets, SaysWhenModelAndDataDoNotGoTogether) {
  const TempFolder temp;
  std::ofstream(temp.path() / "x.txt") << "some text, long enough";
  const auto says = [&](const OpenOptions& options) {
    try {
      OpenDatasets(temp.path(), options);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(says({}).find("is text, but model.name says a model of images: use model gpt"),
            std::string::npos)
      << says({});
  EXPECT_EQ(says({.evaluation_part = 0.5, .length = 4}), "");
  EXPECT_NE(says({.format = "idx", .length = 4}).find("is images, but model.name says"),
            std::string::npos);
}

}  // namespace
}  // namespace ddp::rt::data
