#include "runtime/train/state.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace ddp::rt::train {
namespace {

std::vector<NamedTensor> Two() {
  return {{"a", at::arange(6, at::kFloat).reshape({2, 3})}, {"b", at::arange(2, at::kLong)}};
}

TEST(State, RestoresInPlaceWhateverTheOrder) {
  const auto from = Two();
  auto views = Views(from);
  std::swap(views[0], views[1]);
  const std::vector<NamedTensor> to = {{"a", at::zeros({2, 3})}, {"b", at::zeros({2}, at::kLong)}};
  Restore(views, "x", to);
  EXPECT_TRUE(to[0].tensor.equal(from[0].tensor));
  EXPECT_TRUE(to[1].tensor.equal(from[1].tensor));
}

TEST(State, NamesWhatDoesNotFit) {
  const auto from = Two();
  struct Bad {
    std::vector<NamedTensor> to;
    const char* says;
  };
  const NamedTensor a = {"a", at::zeros({2, 3})};
  for (const auto& [to, says] :
       {Bad{{a}, "the config has no tensor 'b'"},
        Bad{{a, {"b", at::zeros({2}, at::kLong)}, {"c", at::zeros({1})}}, "it has no tensor 'c'"},
        Bad{{a, {"b", at::zeros({2})}}, "its tensor 'b' is I64[2], the config's is F32[2]"},
        Bad{{{"a", at::zeros({3, 2})}},
            "its tensor 'a' is F32[2, 3], the config's is F32[3, 2]"}}) {
    try {
      Restore(Views(from), "/c/step-1", to);
      ADD_FAILURE() << "accepted, wanted: " << says;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kConfig);
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("/c/step-1"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace ddp::rt::train
