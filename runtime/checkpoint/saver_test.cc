#include "runtime/checkpoint/saver.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <fstream>
#include <future>

#include "runtime/base/error.h"
#include "runtime/base/temp_folder_test.h"

namespace ddp::rt::checkpoint {
namespace {

Contents Of(int64_t step, const std::vector<double>& values) {
  Contents contents;
  contents.position.step = step;
  contents.model = {{.name = "w",
                     .type = DType::kF64,
                     .shape = {static_cast<int64_t>(values.size())},
                     .elements = std::as_bytes(std::span(values))}};
  return contents;
}

TEST(Saver, SavesWhatWasThereAtStart) {
  const TempFolder temp;
  CheckpointFolder folder(temp.path(), 2);
  std::promise<void> go;
  int saved = 0;
  {
    Saver saver(folder, {.saved = [&](const auto&, const auto&, auto) {
                  ++saved;
                  go.get_future().wait();
                }});
    std::vector<double> values(10, 1.0);
    saver.Start(Of(1, values));
    values.assign(10, 2.0);
    go.set_value();
    saver.Finish();
  }
  EXPECT_EQ(saved, 1);
  const auto loaded = folder.LoadNewest();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(*reinterpret_cast<const double*>(loaded->model[0].elements.data()), 1.0);
}

TEST(Saver, ThrowsAFailureOnce) {
  const TempFolder temp;
  CheckpointFolder folder(temp.path() / "x", 2);
  Saver saver(folder, {});
  std::filesystem::create_symlink("/dev/full", temp.path() / "x");
  saver.Start(Of(1, {}));
  EXPECT_THROW(saver.Finish(), Error);
  saver.Finish();
}

// A file system of its own, of one megabyte.
class FullDisk : public testing::Test {
 protected:
  void SetUp() override {
    const std::string size = "size=1m";
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("ddp-test", temp_.path().c_str(), "tmpfs", 0, size.c_str()) != 0) {
      GTEST_SKIP() << "no right to mount a small file system";
    }
    options_.failed = [this](const std::string& why) { failures_.push_back(why); };
  }
  void TearDown() override { umount2(temp_.path().c_str(), MNT_DETACH); }

  // Leaves room for one checkpoint of `kDoubles`, not for two.
  static constexpr size_t kDoubles = 80'000;
  const TempFolder temp_;
  SaverOptions options_;
  std::vector<std::string> failures_;
};

TEST_F(FullDisk, TheRunGoesOnAndTriesAgain) {
  CheckpointFolder folder(temp_.path(), 2);
  folder.Prepare();
  Saver saver(folder, options_);
  saver.Start(Of(1, std::vector<double>(kDoubles)));
  saver.Start(Of(2, std::vector<double>(kDoubles)));
  saver.Start(Of(3, std::vector<double>(100)));
  saver.Finish();
  ASSERT_EQ(failures_.size(), 1U);
  EXPECT_NE(failures_[0].find("No space left on device (the checkpoint needs 0.6 MB, 0.4 MB are"),
            std::string::npos)
      << failures_[0];
  const auto found = folder.List();
  ASSERT_EQ(found.size(), 2U) << "nothing is left of what did not fit";
  EXPECT_EQ(found[0].step, 3);
  EXPECT_EQ(found[1].step, 1);
}

TEST_F(FullDisk, TheLastOneIsTriedTwiceAndThenAFailure) {
  CheckpointFolder folder(temp_.path(), 2);
  Saver saver(folder, options_);
  saver.Start(Of(1, std::vector<double>(kDoubles)));
  saver.Start(Of(2, std::vector<double>(kDoubles)));
  EXPECT_THROW(saver.Finish(), Error);
  EXPECT_EQ(failures_.size(), 2U);
  EXPECT_EQ(folder.LoadNewest()->position.step, 1);
}

TEST_F(FullDisk, AFailureMayEndTheRun) {
  options_.failures_end_the_run = true;
  CheckpointFolder folder(temp_.path(), 2);
  Saver saver(folder, options_);
  saver.Start(Of(1, std::vector<double>(2 * kDoubles)));
  EXPECT_THROW(saver.Start(Of(2, std::vector<double>(1))), Error);
}

TEST_F(FullDisk, FromTheStartIsNoMistakeOfTheConfig) {
  std::ofstream(temp_.path() / "filler") << std::string(2 << 20, 'x');
  CheckpointFolder folder(temp_.path(), 2);
  EXPECT_NO_THROW(folder.Prepare());
}

TEST(Saver, MemoryIsReadyBeforeItIsNeeded) {
  const TempFolder temp;
  CheckpointFolder folder(temp.path(), 2);
  Saver saver(folder, {});
  const std::vector<double> values(1000, 4.0);
  saver.Reserve(Of(1, values));
  saver.Start(Of(1, values));
  saver.Start(Of(2, std::vector<double>(9000, 5.0)));
  saver.Finish();
  const auto loaded = folder.LoadNewest();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->model[0].shape, (std::vector<int64_t>{9000}));
  EXPECT_EQ(*reinterpret_cast<const double*>(loaded->model[0].elements.data()), 5.0);
}

TEST(Saver, WaitingHasADeadline) {
  const TempFolder temp;
  CheckpointFolder folder(temp.path(), 2);
  std::promise<void> go;
  Saver saver(folder, {.saved = [&](const auto&, const auto&, auto) { go.get_future().wait(); },
                       .timeout = std::chrono::milliseconds(20)});
  saver.Start(Of(1, {}));
  EXPECT_THROW(saver.Finish(), Error);
  go.set_value();
}

}  // namespace
}  // namespace ddp::rt::checkpoint
