// One body for all transports and world sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/net.h"
#include "runtime/comm/numbers_test.h"
#include "runtime/comm/process_group.h"
#include "runtime/comm/ranks_test.h"

namespace ddp::rt::comm {
namespace {

using ::testing::HasSubstr;

struct World {
  TransportKind transport;
  int size;
  std::vector<std::string> hosts;  // of each rank, made up; none: all on this one
};

void PrintTo(const World& world, std::ostream* out) {
  *out << static_cast<int>(world.transport) << "x" << world.size;
}

class Collectives : public ::testing::TestWithParam<World> {
 protected:
  void Run(const std::function<void(ProcessGroup&)>& body) {
    const auto store = std::make_shared<store::HashStore>();
    RunRanks(GetParam().size, [&](int rank) {
      const auto group = CreateProcessGroup(*store, Options(rank));
      body(*group);
      group->Shutdown(std::chrono::seconds(30));
    });
  }
  GroupOptions Options(int rank) const {
    GroupOptions options = TestOptions(rank, world(), GetParam().transport);
    if (!GetParam().hosts.empty()) {
      options.host_for_test = GetParam().hosts[static_cast<std::size_t>(rank)];
    }
    return options;
  }
  int world() const { return GetParam().size; }
};

std::string NameOf(const ::testing::TestParamInfo<World>& info) {
  std::string name = info.param.size == 1                          ? "none"
                     : !info.param.hosts.empty()                   ? "hosts"
                     : info.param.transport == TransportKind::kShm ? "shm"
                                                                   : "tcp";
  name += std::to_string(info.param.size);
  for (const std::string& host : info.param.hosts) {
    name += host;
  }
  return name;
}

const auto kWorlds =
    ::testing::Values(World{TransportKind::kTcp, 2, {}}, World{TransportKind::kTcp, 3, {}},
                      World{TransportKind::kTcp, 4, {}}, World{TransportKind::kShm, 2, {}},
                      World{TransportKind::kShm, 3, {}}, World{TransportKind::kShm, 4, {}},
                      World{TransportKind::kAuto, 4, {"A", "A", "B", "B"}},
                      World{TransportKind::kAuto, 4, {"A", "B", "B", "C"}},
                      World{TransportKind::kAuto, 5, {"A", "A", "A", "B", "B"}});
INSTANTIATE_TEST_SUITE_P(All, Collectives, kWorlds, NameOf);
INSTANTIATE_TEST_SUITE_P(Alone, Collectives, ::testing::Values(World{TransportKind::kAuto, 1, {}}),
                         NameOf);

TEST_P(Collectives, SaysWhichTransportAndWhy) {
  Run([&](ProcessGroup& group) {
    EXPECT_EQ(group.description().find(std::string(group.transport()) + ": "), 0U)
        << group.description();
    if (!GetParam().hosts.empty()) {
      EXPECT_EQ(group.transport(), "shm+tcp");
    }
  });
}

TEST_P(Collectives, GathersAndScattersInPlace) {
  for (const std::size_t count : {5, 550'000}) {
    const auto size = static_cast<std::size_t>(world());
    const auto sums = Reference(DataType::kF32, ReduceOp::kSum, world(), size * count);
    Run([&](ProcessGroup& group) {
      const auto buffer = group.Allocate(size * count * sizeof(float), {"arena"});
      std::vector<char> elsewhere(buffer->size());
      for (char* const data : {static_cast<char*>(buffer->data()), elsewhere.data()}) {
        Fill(DataType::kF32, group.rank(), data, size * count);
        const std::size_t bytes = count * sizeof(float);
        char* const part = data + static_cast<std::size_t>(group.rank()) * bytes;
        group.ReduceScatter(data, part, count, DataType::kF32, ReduceOp::kSum, {"scatter"})->Wait();
        group.AllGather(part, data, bytes, {"gather"})->Wait();
        ASSERT_EQ(std::memcmp(data, sums.data(), sums.size()), 0);
      }
    });
  }
}

// What only a world of several ranks can do.
class Peers : public Collectives {};
INSTANTIATE_TEST_SUITE_P(All, Peers, kWorlds, NameOf);

TEST_P(Collectives, AllReduceGivesEveryRankTheReferencesBits) {
  Run([&](ProcessGroup& group) {
    for (const DataType type : kAllTypes) {
      for (const ReduceOp op : kAllOps) {
        for (const std::size_t count : {0, 1, 33, 1027, 70001}) {
          std::vector<char> data(count * SizeOf(type));
          Fill(type, group.rank(), data.data(), count);
          group.AllReduce(data.data(), count, type, op, {"numbers"})->Wait();
          ASSERT_EQ(data, Reference(type, op, world(), count))
              << Name(type) << " " << Name(op) << " " << count;
        }
      }
    }
  });
}

TEST_P(Collectives, LargeAllReducesInPlaceAndElsewhereAgree) {
  constexpr std::size_t kCount = (25 << 20) / sizeof(float) + 3;
  const std::vector<char> expected = Reference(DataType::kF32, ReduceOp::kMean, world(), kCount);
  Run([&](ProcessGroup& group) {
    const auto buffer = group.Allocate(kCount * sizeof(float) + 64, {"arena"});
    char* const inside = static_cast<char*>(buffer->data()) + 64;
    Fill(DataType::kF32, group.rank(), inside, kCount);
    std::vector<char> elsewhere(kCount * sizeof(float));
    std::memcpy(elsewhere.data(), inside, elsewhere.size());
    const auto first =
        group.AllReduce(inside, kCount, DataType::kF32, ReduceOp::kMean, {"in place"});
    group.AllReduce(elsewhere.data(), kCount, DataType::kF32, ReduceOp::kMean, {"elsewhere"})
        ->Wait();
    EXPECT_TRUE(first->Done());
    first->Wait();
    EXPECT_EQ(std::memcmp(inside, expected.data(), expected.size()), 0);
    EXPECT_EQ(std::memcmp(elsewhere.data(), expected.data(), expected.size()), 0);
  });
}

TEST_P(Collectives, InPlaceOnSomeRanksOnlyIsJustSlower) {
  constexpr std::size_t kCount = 100'003;
  const std::vector<char> expected = Reference(DataType::kF64, ReduceOp::kSum, world(), kCount);
  Run([&](ProcessGroup& group) {
    const auto buffer = group.Allocate(kCount * sizeof(double), {"arena"});
    std::vector<double> elsewhere(kCount);
    void* const data = group.rank() == 0 ? buffer->data() : elsewhere.data();
    Fill(DataType::kF64, group.rank(), data, kCount);
    group.AllReduce(data, kCount, DataType::kF64, ReduceOp::kSum, {"mixed"})->Wait();
    EXPECT_EQ(std::memcmp(data, expected.data(), expected.size()), 0);
  });
}

TEST_P(Collectives, AllocatesZeroedAlignedMemoryMoreThanOnce) {
  Run([&](ProcessGroup& group) {
    for (const std::size_t bytes : {0, 1, 5000, 0}) {
      const auto buffer = group.Allocate(bytes, {"arena"});
      EXPECT_EQ(buffer->size(), bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 64, 0u);
      const auto* const data = static_cast<const char*>(buffer->data());
      EXPECT_TRUE(std::all_of(data, data + bytes, [](char c) { return c == 0; }));
    }
  });
}

TEST_P(Collectives, BroadcastBringsTheRootsBytes) {
  Run([&](ProcessGroup& group) {
    for (const std::size_t bytes : {0, 1, 4097, 3'000'001}) {
      for (const int root : {0, world() - 1}) {
        std::vector<char> data(bytes, static_cast<char>(group.rank() + 1));
        group.Broadcast(data.data(), bytes, root, {"parameters"})->Wait();
        ASSERT_EQ(data, std::vector<char>(bytes, static_cast<char>(root + 1)));
      }
    }
  });
}

TEST_P(Collectives, AllGatherPutsSharesInTheOrderOfRanks) {
  Run([&](ProcessGroup& group) {
    for (const std::size_t bytes : {0, 1, 4097, 1'500'001}) {
      const std::vector<char> mine(bytes, static_cast<char>(group.rank() + 1));
      std::vector<char> all(bytes * static_cast<std::size_t>(world()));
      group.AllGather(mine.data(), all.data(), bytes, {"shares"})->Wait();
      std::vector<char> expected;
      for (int r = 0; r < world(); ++r) {
        expected.insert(expected.end(), bytes, static_cast<char>(r + 1));
      }
      ASSERT_EQ(all, expected);
    }
  });
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsPart) {
  const auto ranks = static_cast<std::size_t>(world());
  Run([&](ProcessGroup& group) {
    for (const DataType type : kAllTypes) {
      for (const std::size_t count : {0, 1, 33, 300'007}) {
        const std::size_t bytes = count * SizeOf(type);
        std::vector<char> in(bytes * ranks);
        Fill(type, group.rank(), in.data(), count * ranks);
        std::vector<char> out(bytes);
        group.ReduceScatter(in.data(), out.data(), count, type, ReduceOp::kMean, {"shard"})->Wait();
        const auto all = Reference(type, ReduceOp::kMean, world(), count * ranks);
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(
                                             bytes * static_cast<std::size_t>(group.rank()));
        ASSERT_EQ(out, std::vector<char>(begin, begin + static_cast<std::ptrdiff_t>(bytes)))
            << Name(type) << " " << count;
      }
    }
  });
}

TEST_P(Collectives, WorksRunInTheOrderOfTheCallsWithoutWaiting) {
  Run([&](ProcessGroup& group) {
    constexpr int kWorks = 100;
    float value = 1;
    std::vector<WorkPtr> works;
    for (int i = 0; i < kWorks; ++i) {
      works.push_back(
          group.AllReduce(&value, 1, DataType::kF32, ReduceOp::kMax, {std::to_string(i)}));
      works.push_back(group.Barrier({"between"}));
    }
    works.back()->Wait();
    for (const WorkPtr& work : works) {
      EXPECT_TRUE(work->Done());
    }
    EXPECT_EQ(value, 1);
    const Stats stats = group.stats();
    EXPECT_GE(stats.works, 2u * kWorks - 1);
    EXPECT_GE(stats.bytes, sizeof(float) * kWorks);
    EXPECT_GE(stats.busy, stats.waiting);
  });
}

TEST_P(Collectives, ShutdownFinishesWhatIsQueuedAndRefusesMore) {
  const auto store = std::make_shared<store::HashStore>();
  RunRanks(world(), [&](int rank) {
    const auto group = CreateProcessGroup(*store, Options(rank));
    std::vector<float> data(100'000, 1.0F);
    group->AllReduce(data.data(), data.size(), DataType::kF32, ReduceOp::kSum, {"last"});
    group->Shutdown(std::chrono::seconds(30));
    EXPECT_EQ(data.back(), static_cast<float>(world()));
    EXPECT_THROW(group->Barrier({"too late"})->Wait(), Error);
    group->Shutdown(std::chrono::seconds(30));
  });
}

// Errors of the program itself: every rank hears of both calls.
TEST_P(Peers, DifferentCallsAreAnErrorOnEveryRankThatNamesBoth) {
  const auto store = std::make_shared<store::HashStore>();
  RunRanks(world(), [&](int rank) {
    const auto group = CreateProcessGroup(*store, Options(rank));
    std::vector<float> data(50'000);
    const std::size_t count = rank == 1 ? data.size() - 1 : data.size();
    try {
      group->AllReduce(data.data(), count, DataType::kF32, ReduceOp::kSum, {"bucket 7"})->Wait();
      ADD_FAILURE() << "must throw";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kSoftware);
      EXPECT_THAT(e.what(), HasSubstr("all-reduce #1 'bucket 7' (49999 x f32, sum)"));
      EXPECT_THAT(e.what(), HasSubstr("all-reduce #1 'bucket 7' (50000 x f32, sum)"));
    }
  });
}

TEST_P(Peers, AbortBreaksAllRanksAndNamesTheFirst) {
  const auto store = std::make_shared<store::HashStore>();
  RunRanks(world(), [&](int rank) {
    const auto group = CreateProcessGroup(*store, Options(rank));
    if (rank == 1) {
      group->Abort("step 7: out of memory");
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        group->Barrier({"epoch"})->Wait();
        ADD_FAILURE() << "must throw";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::kUnavailable);
        EXPECT_STREQ(e.what(), "rank 1: step 7: out of memory");
      }
    }
    group->Shutdown(std::chrono::seconds(5));  // already reported
  });
}

TEST(ProcessGroup, AutoChoosesShmOnOneHostAndSaysSo) {
  RunGroups(2, TransportKind::kAuto, [](ProcessGroup& group) {
    EXPECT_EQ(group.transport(), "shm");
    EXPECT_EQ(group.description(), "shm: all 2 ranks share this host");
  });
}

TEST(ProcessGroup, TcpWorksOverIpv6) {
  if (LocalAddressTowards("::1").empty()) {
    GTEST_SKIP() << "this host has no IPv6";
  }
  const auto store = std::make_shared<store::HashStore>();
  RunRanks(3, [&](int rank) {
    GroupOptions options = TestOptions(rank, 3, TransportKind::kTcp);
    options.master_addr = "[::1]";
    const auto group = CreateProcessGroup(*store, options);
    std::int32_t value = rank;
    group->AllReduce(&value, 1, DataType::kI32, ReduceOp::kSum, {"sum"})->Wait();
    EXPECT_EQ(value, 3);
    group->Shutdown(std::chrono::seconds(5));
  });
}

TEST(ProcessGroup, TwoGroupsOnOneStoreDoNotMeet) {
  const auto store = std::make_shared<store::HashStore>();
  RunRanks(2, [&](int rank) {
    GroupOptions options = TestOptions(rank, 2, TransportKind::kTcp);
    const auto one = CreateProcessGroup(*store, options);
    options.name = "second";
    const auto two = CreateProcessGroup(*store, options);
    const auto a = one->Barrier({"a"});
    two->Barrier({"b"})->Wait();
    a->Wait();
    one->Shutdown(std::chrono::seconds(5));
    two->Shutdown(std::chrono::seconds(5));
  });
}

TEST(ProcessGroup, RanksThatDoNotConnectAreNamed) {
  store::HashStore store;
  GroupOptions options = TestOptions(0, 3, TransportKind::kTcp);
  options.init_timeout = std::chrono::milliseconds(200);
  try {
    CreateProcessGroup(store, options);
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUnavailable);
    EXPECT_THAT(e.what(), HasSubstr("rank(s) 1, 2 have not come"));
  }
}

TEST(ProcessGroup, TransportNamesAreChecked) {
  EXPECT_EQ(ParseTransport("tcp"), TransportKind::kTcp);
  try {
    ParseTransport("gloo");
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kConfig);
    EXPECT_STREQ(e.what(), "unknown transport 'gloo': it is one of auto, shm, tcp, nccl");
  }
}

}  // namespace
}  // namespace ddp::rt::comm
