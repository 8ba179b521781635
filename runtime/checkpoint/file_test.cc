#include "runtime/checkpoint/file.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/base/temp_folder_test.h"

namespace ddp::rt::checkpoint {
namespace {

TEST(AtomicFile, IsThereInFullAfterCommit) {
  const TempFolder folder;
  AtomicFile file(folder.path() / "a");
  file.Append(std::string_view("one"));
  file.Append(std::string_view("two"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "a"));
  file.Commit();
  const auto bytes = ReadFile(folder.path() / "a");
  EXPECT_EQ(bytes.size(), 6U);
  EXPECT_EQ(file.size(), 6U);
  EXPECT_EQ(file.checksum(), Checksum(bytes));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "a.tmp"));
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const TempFolder folder;
  { AtomicFile(folder.path() / "a").Append(std::string_view("one")); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(AtomicFile, SaysWhatFailed) {
  try {
    const AtomicFile file("/nowhere/a");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "can't create /nowhere/a.tmp: No such file or directory");
  }
}

TEST(AtomicFile, FullDiskIsAnError) {
  const TempFolder folder;
  // Opening the temporary file opens the device that says "no space left" to every write.
  std::filesystem::create_symlink("/dev/full", folder.path() / "a.tmp");
  AtomicFile file(folder.path() / "a");
  try {
    file.Append(std::string_view("one"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("a.tmp: No space left on device"), std::string::npos)
        << e.what();
  }
}

TEST(ReadFile, MissingIsAnError) { EXPECT_THROW(ReadFile("/nowhere/a"), Error); }

}  // namespace
}  // namespace ddp::rt::checkpoint
