#include "runtime/data/find.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/base/error.h"

namespace ddp::rt::data {
namespace {

namespace fs = std::filesystem;

class FindDataFolderTest : public testing::Test {
 protected:
  FindDataFolderTest()
      : root_(fs::temp_directory_path() / ("find_test." + std::to_string(getpid()))) {
    fs::create_directories(root_ / "bin");
  }
  ~FindDataFolderTest() override { fs::remove_all(root_); }

  const fs::path root_;
};

TEST_F(FindDataFolderTest, DataDirComesFirstThenTheInstalledFolder) {
  fs::create_directories(root_ / "share/ddp/data/digits");
  const DataPlaces places{.data_dir = (root_ / "mounted").string(), .program_dir = root_ / "bin"};
  EXPECT_EQ(FindDataFolder("digits", places), root_ / "share/ddp/data/digits");
  fs::create_directories(root_ / "mounted/digits");
  EXPECT_EQ(FindDataFolder("digits", places), root_ / "mounted/digits");
  EXPECT_EQ(FindDataFolder(root_.string(), places), root_);
}

TEST_F(FindDataFolderTest, ListsThePlacesLookedAt) {
  try {
    FindDataFolder("digits", {.data_dir = "/nowhere", .program_dir = root_ / "bin"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kNoInput);
    const std::string text = e.what();
    EXPECT_NE(text.find("/nowhere/digits, " + (root_ / "share/ddp/data/digits").string() + "."),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace ddp::rt::data
