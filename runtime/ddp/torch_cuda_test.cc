// A program of its own: what it loads stays.
#include "runtime/ddp/torch_cuda.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddp::rt {
namespace {

TEST(TorchCuda, IsThereWithItsKernelsOrSaysWhyNot) {
  const auto add = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  EXPECT_FALSE(add.hasKernelForDispatchKey(c10::DispatchKey::CUDA));
  const std::string why = LoadTorchCuda();
  if (why.empty()) {
    EXPECT_TRUE(add.hasKernelForDispatchKey(c10::DispatchKey::CUDA));
  } else {
    EXPECT_THAT(why, ::testing::ContainsRegex("can't be loaded: .*\\.so"));
  }
  EXPECT_EQ(LoadTorchCuda(), why);
}

}  // namespace
}  // namespace ddp::rt
