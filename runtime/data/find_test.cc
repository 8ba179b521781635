#include "runtime/data/find.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/base/temp_folder_test.h"

namespace ddp::rt::data {
namespace {

namespace fs = std::filesystem;

TEST(FindData, DataDirComesFirstThenTheInstalledFolder) {
  const TempFolder temp;
  const fs::path& root = temp.path();
  fs::create_directories(root / "bin");
  fs::create_directories(root / "share/ddp/data/digits");
  const DataPlaces places{.data_dir = (root / "mounted").string(), .program_dir = root / "bin"};
  EXPECT_EQ(FindData("digits", places), root / "share/ddp/data/digits");
  fs::create_directories(root / "mounted/digits");
  EXPECT_EQ(FindData("digits", places), root / "mounted/digits");
  EXPECT_EQ(FindData(root.string(), places), root);
}

TEST(FindData, ListsThePlacesLookedAt) {
  const TempFolder temp;
  const fs::path& root = temp.path();
  fs::create_directories(root / "bin");
  try {
    FindData("digits", {.data_dir = "/nowhere", .program_dir = root / "bin"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kNoInput);
    const std::string text = e.what();
    EXPECT_NE(text.find("/nowhere/digits, " + (root / "share/ddp/data/digits").string() + "."),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace ddp::rt::data
