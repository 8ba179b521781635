// Ranks that are killed, stopped, late or gone: every other rank must end within a bound, and say
// who it was. Real processes, all transports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "runtime/comm/numbers_test.h"
#include "runtime/comm/process_group.h"
#include "runtime/comm/processes_test.h"
#include "runtime/comm/ranks_test.h"

namespace ddp::rt::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kUnavailable = static_cast<int>(ExitCode::kUnavailable);
constexpr int kWorld = 3;
// What process_group.h states for a peer's death.
constexpr seconds kDeathBound(5);

Deadline Within(milliseconds time) { return Deadline::In(time, "the test"); }

struct Tested {
  const char* name;
  TransportKind kind;
  std::array<const char*, kWorld> hosts;  // made up; "": the real one
};

void PrintTo(const Tested& tested, std::ostream* out) { *out << tested.name; }

class Faults : public ::testing::TestWithParam<Tested> {
 protected:
  GroupOptions Options(int rank) const {
    GroupOptions options = TestOptions(rank, kWorld, GetParam().kind);
    options.host_for_test = GetParam().hosts.at(static_cast<std::size_t>(rank));
    return options;
  }
  std::unique_ptr<ProcessGroup> Join(int rank, milliseconds op_timeout = seconds(30)) {
    GroupOptions options = Options(rank);
    options.op_timeout = op_timeout;
    return CreateProcessGroup(store_, options);
  }

  // All-reduces until something breaks, and counts in the store.
  void ReduceForEver(int rank, std::size_t floats, bool in_place) {
    const auto group = Join(rank);
    const auto buffer = group->Allocate(floats * sizeof(float), {"gradients"});
    std::vector<float> elsewhere(floats);
    void* const data = in_place ? buffer->data() : elsewhere.data();
    for (;;) {
      group->AllReduce(data, floats, DataType::kF32, ReduceOp::kMean, {"bucket"})->Wait();
      if (store_.Add("works/" + std::to_string(rank), 1) == kWarmUp) {
        store_.Set("warm/" + std::to_string(rank), "");
      }
    }
  }
  void AwaitWarm() {
    for (int rank = 0; rank < kWorld; ++rank) {
      store_.Get("warm/" + std::to_string(rank), Within(seconds(20)));
    }
  }

  static constexpr std::int64_t kWarmUp = 5;
  ForkStore store_;
  Processes processes_{kWorld};
};

INSTANTIATE_TEST_SUITE_P(
    Transports, Faults,
    ::testing::Values(Tested{"tcp", TransportKind::kTcp, {"", "", ""}},
                      Tested{"shm", TransportKind::kShm, {"", "", ""}},
                      Tested{"hosts", TransportKind::kAuto, {"A", "A", "B"}},
                      Tested{"more_hosts", TransportKind::kAuto, {"A", "B", "B"}}),
    [](const auto& tested) { return tested.param.name; });

struct Size {
  std::size_t floats;
  bool in_place;
};

TEST_P(Faults, AKilledPeerIsNamedByAllOthersAtOnce) {
  for (const Size& size : {Size{100, false}, Size{2'000'000, false}, Size{2'000'000, true}}) {
    SCOPED_TRACE(size.floats);
    store_.Clear();
    for (int rank = 0; rank < kWorld; ++rank) {
      processes_.Start(rank, [&] { ReduceForEver(rank, size.floats, size.in_place); });
    }
    AwaitWarm();
    processes_.Signal(1, SIGKILL);
    const auto bound = Within(kDeathBound);
    for (const int survivor : {0, 2}) {
      const auto end = processes_.Wait(survivor, bound);
      ASSERT_TRUE(end) << "rank " << survivor << " hangs";
      EXPECT_EQ(end->exit_code, kUnavailable);
      EXPECT_THAT(end->error, HasSubstr("rank 1 is gone: its process ended or its connection"));
      EXPECT_THAT(end->error, HasSubstr("'bucket' needs it"));
    }
    EXPECT_EQ(processes_.Wait(1, bound)->signal, SIGKILL);
  }
}

TEST_P(Faults, AStoppedPeerIsNamedAtTheDeadline) {
  for (int rank = 0; rank < kWorld; ++rank) {
    processes_.Start(rank, [&] {
      const auto group = Join(rank, seconds(1));
      std::vector<float> data(300'000);
      for (;;) {
        group->AllReduce(data.data(), data.size(), DataType::kF32, ReduceOp::kSum, {"bucket"})
            ->Wait();
        store_.Set("warm/" + std::to_string(rank), "");
      }
    });
  }
  AwaitWarm();
  processes_.Signal(1, SIGSTOP);
  for (const int survivor : {0, 2}) {
    const auto end = processes_.Wait(survivor, Within(seconds(1) + kDeathBound));
    ASSERT_TRUE(end) << "rank " << survivor << " hangs";
    EXPECT_EQ(end->exit_code, kUnavailable);
    EXPECT_THAT(end->error, HasSubstr("'bucket' after 1 s: rank(s) 1 had not arrived"));
  }
  processes_.Signal(1, SIGCONT);
  const auto end = processes_.Wait(1, Within(kDeathBound));
  ASSERT_TRUE(end) << "the stopped rank hangs after it went on";
  EXPECT_EQ(end->exit_code, kUnavailable);
}

TEST_P(Faults, ARankThatEndsWithoutShutdownHarmsNoFinishedWork) {
  constexpr std::size_t kCount = 500'000;
  for (int rank = 0; rank < kWorld; ++rank) {
    processes_.Start(rank, [&] {
      auto group = Join(rank);
      std::vector<char> data(kCount * sizeof(float));
      Fill(DataType::kF32, rank, data.data(), kCount);
      group->AllReduce(data.data(), kCount, DataType::kF32, ReduceOp::kMean, {"last"})->Wait();
      if (rank == 1) {
        _exit(0);
      }
      if (data != Reference(DataType::kF32, ReduceOp::kMean, kWorld, kCount)) {
        throw std::runtime_error("the last result is damaged");
      }
      group->Shutdown(seconds(10));
    });
  }
  for (int rank = 0; rank < kWorld; ++rank) {
    const auto end = processes_.Wait(rank, Within(seconds(20)));
    ASSERT_TRUE(end) << "rank " << rank << " hangs";
    EXPECT_EQ(end->exit_code, 0) << end->error;
  }
}

TEST_P(Faults, AWorkAfterARankHasLeftNamesIt) {
  for (int rank = 0; rank < kWorld; ++rank) {
    processes_.Start(rank, [&] {
      const auto group = Join(rank);
      group->Barrier({"together"})->Wait();
      if (rank != 1) {
        group->Barrier({"one more"})->Wait();
      }
      group->Shutdown(seconds(10));
    });
  }
  for (const int rank : {0, 2}) {
    const auto end = processes_.Wait(rank, Within(seconds(20)));
    ASSERT_TRUE(end) << "rank " << rank << " hangs";
    EXPECT_EQ(end->exit_code, kUnavailable);
    EXPECT_THAT(end->error,
                HasSubstr("rank 1 has finished and left; barrier #2 'one more' needs it"));
  }
  EXPECT_EQ(processes_.Wait(1, Within(seconds(20)))->exit_code, 0);
}

TEST_P(Faults, ALateRankIsWaitedFor) {
  for (int rank = 0; rank < kWorld; ++rank) {
    processes_.Start(rank, [&] {
      const auto group = Join(rank);
      if (rank == 2) {
        for (const char* other : {"enter/0", "enter/1"}) {
          store_.Get(other, Within(seconds(20)));
        }
      }
      const auto work = group->Barrier({"start"});
      store_.Set("enter/" + std::to_string(rank), "");
      work->Wait();
      group->Shutdown(seconds(10));
    });
  }
  for (int rank = 0; rank < kWorld; ++rank) {
    const auto end = processes_.Wait(rank, Within(seconds(20)));
    ASSERT_TRUE(end) << "rank " << rank << " hangs";
    EXPECT_EQ(end->exit_code, 0) << end->error;
  }
}

TEST_P(Faults, ShutdownEndsAtItsDeadlineAlthoughAPeerNeverComes) {
  for (int rank = 0; rank < kWorld; ++rank) {
    processes_.Start(rank, [&] {
      const auto group = Join(rank);
      if (rank == 1) {
        store_.Get("never", Within(seconds(60)));
      }
      group->Barrier({"last"});
      group->Shutdown(milliseconds(500));
    });
  }
  for (const int rank : {0, 2}) {
    const auto end = processes_.Wait(rank, Within(milliseconds(500) + kDeathBound));
    ASSERT_TRUE(end) << "rank " << rank << " hangs";
    EXPECT_EQ(end->exit_code, kUnavailable);
    EXPECT_THAT(end->error, HasSubstr("shut down, and barrier #1 'last' was not finished after "
                                      "0.5 s"));
  }
}

// A rank of another attempt gets no further than the handshake.
TEST_P(Faults, ARankOfAnotherAttemptIsRefused) {
  for (int rank = 0; rank < kWorld; ++rank) {
    processes_.Start(rank, [&] {
      GroupOptions options = Options(rank);
      options.init_timeout = seconds(2);
      options.attempt = rank == 1 ? 7 : 1;
      CreateProcessGroup(store_, options);
    });
  }
  for (int rank = 0; rank < kWorld; ++rank) {
    const auto end = processes_.Wait(rank, Within(seconds(10)));
    ASSERT_TRUE(end) << "rank " << rank << " hangs";
    EXPECT_THAT(end->exit_code, AnyOf(kUnavailable, static_cast<int>(ExitCode::kConfig)));
    if (rank == 1 && GetParam().kind == TransportKind::kTcp) {
      EXPECT_THAT(end->error, HasSubstr("rank 0 does not let this rank in"));
    }
  }
}

}  // namespace
}  // namespace ddp::rt::comm
