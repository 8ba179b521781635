#include "runtime/checkpoint/saver.h"

#include <gtest/gtest.h>

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
