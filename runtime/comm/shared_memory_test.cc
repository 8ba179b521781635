// Containers with little shared memory: a tiny /dev/shm does not matter, and where no memory can be
// shared at all the ranks go over TCP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "runtime/comm/numbers_test.h"
#include "runtime/comm/process_group.h"
#include "runtime/comm/processes_test.h"
#include "runtime/comm/ranks_test.h"

namespace ddp::rt::comm {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

class SharedMemory : public ::testing::Test {
 protected:
  // Two ranks, each after `prepare(rank)`, reduce 25 MiB; the group's description.
  std::string Describe(TransportKind kind, const std::function<void(int)>& prepare) {
    constexpr std::size_t kCount = (25 << 20) / sizeof(float);
    for (int rank = 0; rank < 2; ++rank) {
      processes_.Start(rank, [&, rank] {
        prepare(rank);
        const auto group = CreateProcessGroup(store_, TestOptions(rank, 2, kind));
        store_.Set("description", group->description());
        const auto buffer = group->Allocate(kCount * sizeof(float), {"arena"});
        auto* const data = static_cast<float*>(buffer->data());
        std::fill_n(data, kCount, 1.0F);
        group->AllReduce(data, kCount, DataType::kF32, ReduceOp::kSum, {"sum"})->Wait();
        if (data[0] != 2.0F || data[kCount - 1] != 2.0F) {
          throw std::runtime_error("wrong sum");
        }
        group->Shutdown(seconds(5));
      });
    }
    for (int rank = 0; rank < 2; ++rank) {
      const auto end = processes_.Wait(rank, Deadline::In(seconds(20), "the test"));
      EXPECT_TRUE(end) << "rank " << rank << " hangs";
      EXPECT_EQ(end ? end->exit_code : -1, 0) << end->error << " signal " << end->signal;
    }
    return store_.TryGet("description").value_or("");
  }

  // No file of this process, so no shared memory either, may be longer than this.
  static void LimitFiles(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
  }

  ForkStore store_;
  Processes processes_{2};
};

TEST_F(SharedMemory, DoesNotNeedDevShm) {
  const std::string description = Describe(TransportKind::kAuto, [&](int) {
    // Without the right to it the test still shows that shared memory works.
    if (unshare(CLONE_NEWNS) == 0 &&
        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) {
      mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4k");
    }
  });
  EXPECT_EQ(description, "shm: all 2 ranks share this host");
}

TEST_F(SharedMemory, ThatCannotBeHadMakesAllGoOverTcp) {
  const std::string description = Describe(TransportKind::kAuto, [](int rank) {
    if (rank == 0) {  // which makes it
      LimitFiles(4096);
    }
  });
  EXPECT_THAT(description, HasSubstr("tcp: rank 0: shared memory: cannot size it: "));
}

}  // namespace
}  // namespace ddp::rt::comm
