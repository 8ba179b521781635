// What a machine without a GPU is told, in builds with and without CUDA.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/comm/cuda.h"
#include "runtime/comm/ranks_test.h"

namespace ddp::rt::comm {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(TransportKind transport, bool gpu_memory, int world_size) {
  const auto store = std::make_shared<store::HashStore>();
  std::string text;
  RunRanks(world_size, [&](int rank) {
    GroupOptions options = TestOptions(rank, world_size, transport);
    options.gpu_memory = gpu_memory;
    try {
      CreateProcessGroup(*store, options);
      ADD_FAILURE() << "must throw";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kConfig);
      if (rank == 0) {
        text = e.what();
      }
    }
  });
  return text;
}

TEST(NoGpu, TheProbeSaysWhyThereIsNone) {
  const CudaStatus status = ProbeCuda();
  if (status.devices > 0) {
    GTEST_SKIP() << "this machine has a GPU";
  }
  EXPECT_THAT(status.why_none, HasSubstr(DDP_TEST_CUDA ? "this machine has no usable GPU: "
                                                       : "this program was built without CUDA"));
}

TEST(NoGpu, NcclIsRefusedWithThatReasonOnEveryRank) {
  const CudaStatus status = ProbeCuda();
  if (status.devices > 0) {
    GTEST_SKIP() << "this machine has a GPU";
  }
  for (const TransportKind kind : {TransportKind::kAuto, TransportKind::kNccl}) {
    for (const int world_size : {1, 2}) {
      EXPECT_EQ(ErrorOf(kind, true, world_size),
                "GPU memory needs the transport 'nccl', but rank 0: " + status.why_none);
    }
  }
}

TEST(NoGpu, HostMemoryNeverGoesToNccl) {
  EXPECT_THAT(ErrorOf(TransportKind::kNccl, false, 2), HasSubstr("moves GPU memory only"));
  EXPECT_THAT(ErrorOf(TransportKind::kTcp, true, 2), HasSubstr("GPU memory needs"));
  RunGroups(2, TransportKind::kAuto,
            [](ProcessGroup& group) { EXPECT_EQ(group.transport(), "shm"); });
}

}  // namespace
}  // namespace ddp::rt::comm
