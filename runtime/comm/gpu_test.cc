// On real GPUs; each case is skipped, visibly, where there are too few. Written without one: the
// code compiles and links everywhere, its results have to be seen on a machine that has some.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/comm/cuda.h"
#include "runtime/comm/numbers_test.h"
#include "runtime/comm/ranks_test.h"

namespace ddp::rt::comm {
namespace {

class Gpu : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const CudaStatus status = ProbeCuda();
    if (status.devices < GetParam()) {
      GTEST_SKIP() << "needs " << GetParam() << " GPU(s): this machine has " << status.devices
                   << ". " << status.why_none;
    }
  }

  void Run(const std::function<void(ProcessGroup&)>& body) {
    const auto store = std::make_shared<store::HashStore>();
    RunRanks(GetParam(), [&](int rank) {
      GroupOptions options = TestOptions(rank, GetParam(), TransportKind::kAuto);
      options.gpu_memory = true;
      options.local_rank = rank;
      const auto group = CreateProcessGroup(*store, options);
      EXPECT_EQ(group->transport(), "nccl");
      ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
      body(*group);
      group->Shutdown(std::chrono::seconds(30));
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Worlds, Gpu, ::testing::Values(DDP_TEST_GPUS));

TEST_P(Gpu, AllReduceOfEveryTypeIsNearTheReference) {
  Run([&](ProcessGroup& group) {
    constexpr std::size_t kCount = 10'007;
    for (const DataType type : kAllTypes) {
      for (const ReduceOp op : kAllOps) {
        const std::size_t bytes = kCount * SizeOf(type);
        std::vector<char> host(bytes);
        Fill(type, group.rank(), host.data(), kCount);
        const auto buffer = group.Allocate(bytes, {"gpu"});
        ASSERT_EQ(cudaMemcpy(buffer->data(), host.data(), bytes, cudaMemcpyHostToDevice),
                  cudaSuccess);
        group.AllReduce(buffer->data(), kCount, type, op, {"gpu"})->Wait();
        ASSERT_EQ(cudaMemcpy(host.data(), buffer->data(), bytes, cudaMemcpyDeviceToHost),
                  cudaSuccess);
        // Two summands have one order only, and the same rounding.
        EXPECT_EQ(host, Reference(type, op, GetParam(), kCount)) << Name(type) << " " << Name(op);
      }
    }
  });
}

TEST_P(Gpu, BroadcastGatherAndScatterMoveTheRightParts) {
  Run([&](ProcessGroup& group) {
    constexpr std::size_t kCount = 1000;
    const auto world = static_cast<std::size_t>(GetParam());
    const auto all = group.Allocate(kCount * world * sizeof(float), {"all"});
    const auto one = group.Allocate(kCount * sizeof(float), {"one"});
    std::vector<float> host(kCount, static_cast<float>(group.rank() + 1));
    ASSERT_EQ(cudaMemcpy(one->data(), host.data(), one->size(), cudaMemcpyHostToDevice),
              cudaSuccess);
    group.AllGather(one->data(), all->data(), one->size(), {"gather"})->Wait();
    group.ReduceScatter(all->data(), one->data(), kCount, DataType::kF32, ReduceOp::kMean, {"sum"})
        ->Wait();
    ASSERT_EQ(cudaMemcpy(host.data(), one->data(), one->size(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(host.front(), static_cast<float>(group.rank() + 1));
    group.Broadcast(one->data(), one->size(), 0, {"first"})->Wait();
    ASSERT_EQ(cudaMemcpy(host.data(), one->data(), one->size(), cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(host.back(), 1.0F);
    group.Barrier({"end"})->Wait();
  });
}

TEST_P(Gpu, ACallWaitsForWhatTheCallersStreamHasToDoFirst) {
  Run([&](ProcessGroup& group) {
    constexpr std::size_t kBytes = std::size_t{256} << 20;
    constexpr int kFills = 50;
    const auto buffer = group.Allocate(kBytes, {"slow"});
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    // Long enough that a collective which did not wait would see an earlier value.
    for (int value = 1; value <= kFills; ++value) {
      ASSERT_EQ(cudaMemsetAsync(buffer->data(), value, kBytes, stream), cudaSuccess);
    }
    OpOptions options{"after the fills"};
    options.gpu_stream = stream;
    group.AllReduce(buffer->data(), kBytes / 4, DataType::kI32, ReduceOp::kMax, options)->Wait();
    std::int32_t last = 0;
    ASSERT_EQ(cudaMemcpy(&last, static_cast<char*>(buffer->data()) + kBytes - sizeof(last),
                         sizeof(last), cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(last, kFills * 0x01010101);
    cudaStreamDestroy(stream);
  });
}

TEST_P(Gpu, AnAbortEndsAllWorksWithinABound) {
  const auto store = std::make_shared<store::HashStore>();
  RunRanks(GetParam(), [&](int rank) {
    GroupOptions options = TestOptions(rank, GetParam(), TransportKind::kAuto);
    options.gpu_memory = true;
    options.local_rank = rank;
    const auto group = CreateProcessGroup(*store, options);
    const auto buffer = group->Allocate(std::size_t{64} << 20, {"aborted"});
    group->Barrier({"all here"})->Wait();
    const auto bound = Deadline::In(std::chrono::seconds(10), "the test");
    group->Abort("the test aborts");
    EXPECT_THROW(group
                     ->AllReduce(buffer->data(), buffer->size() / 4, DataType::kF32, ReduceOp::kSum,
                                 {"too late"})
                     ->Wait(),
                 Error);
    group->Shutdown(std::chrono::seconds(5));
    EXPECT_FALSE(bound.Expired());
  });
}

TEST_P(Gpu, GroupsFollowOneAnotherInOneProcess) {
  for (int i = 0; i < 3; ++i) {
    Run([&](ProcessGroup& group) { group.Barrier({"again"})->Wait(); });
  }
}

}  // namespace
}  // namespace ddp::rt::comm
