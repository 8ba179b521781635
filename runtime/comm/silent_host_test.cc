// A host that goes silent: no end of a connection is ever seen, packets just stop. Two network
// namespaces, joined by a virtual cable that the test unplugs.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>

#include "runtime/comm/process_group.h"
#include "runtime/comm/processes_test.h"
#include "runtime/comm/ranks_test.h"

namespace ddp::rt::comm {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

Deadline Within(seconds time) { return Deadline::In(time, "the test"); }

bool Shell(const std::string& command) {
  return std::system((command + " 2>/dev/null").c_str()) == 0;
}

// Joins the network namespaces of two processes by a virtual cable.
bool Plug(const std::string& zero, const std::string& one) {
  const auto configure = [](const std::string& pid, const char* device, const char* address) {
    const std::string in = fmt::format("nsenter -t {} -n ip ", pid);
    return Shell(in + "link set lo up") &&
           Shell(fmt::format("{}address add {}/24 dev {}", in, address, device)) &&
           Shell(fmt::format("{}link set {} up", in, device));
  };
  return Shell(fmt::format("ip link add name ddp-a netns {} type veth peer name ddp-b netns {}",
                           zero, one)) &&
         configure(zero, "ddp-a", "10.77.0.1") && configure(one, "ddp-b", "10.77.0.2");
}

// Into the network namespace of another process.
bool Join(const std::string& pid) {
  const Fd net(open(fmt::format("/proc/{}/ns/net", pid).c_str(), O_RDONLY | O_CLOEXEC));
  return net && setns(net.get(), CLONE_NEWNET) == 0;
}

TEST(SilentHost, IsNamedWithinTheStatedBound) {
  ForkStore store;
  Processes processes(2);
  for (int rank = 0; rank < 2; ++rank) {
    processes.Start(rank, [&] {
      const bool apart = unshare(CLONE_NEWNET) == 0;
      store.Set("pid/" + std::to_string(rank), apart ? std::to_string(getpid()) : "");
      store.Get("plugged", Within(seconds(30)));
      GroupOptions options = TestOptions(rank, 2, TransportKind::kAuto);
      options.master_addr = "10.77.0.1";
      const auto group = CreateProcessGroup(store, options);
      if (group->transport() != "tcp") {
        throw std::runtime_error("two network namespaces must not share memory");
      }
      float value = 1;
      for (;;) {
        group->AllReduce(&value, 1, DataType::kF32, ReduceOp::kMean, {"bucket"})->Wait();
        store.Set("warm/" + std::to_string(rank), "");
      }
    });
  }
  const std::string zero = store.Get("pid/0", Within(seconds(10)));
  const std::string one = store.Get("pid/1", Within(seconds(10)));
  if (zero.empty() || one.empty() || !Plug(zero, one)) {
    GTEST_SKIP() << "needs the right to make network namespaces, and the programs ip and nsenter";
  }
  store.Set("plugged", "");
  store.Get("warm/0", Within(seconds(20)));
  store.Get("warm/1", Within(seconds(20)));
  ASSERT_TRUE(Shell(fmt::format("nsenter -t {} -n ip link set ddp-b down", one)));
  const auto end = processes.Wait(0, Within(seconds(15)));
  ASSERT_TRUE(end) << "rank 0 waits for a host that is gone";
  EXPECT_EQ(end->exit_code, static_cast<int>(ExitCode::kUnavailable));
  EXPECT_THAT(end->error, HasSubstr("rank 1 is gone"));
}

// Two hosts of two ranks each: memory is shared within, and both ranks of a host learn that the
// other host is gone although only one of them speaks with it.
TEST(SilentHost, OfSeveralRanksIsNamedByAllOthers) {
  ForkStore store;
  Processes processes(4);
  for (int rank = 0; rank < 4; ++rank) {
    processes.Start(rank, [&] {
      const std::string first = "pid/" + std::to_string(rank - rank % 2);
      if (rank % 2 == 0) {
        store.Set(first, unshare(CLONE_NEWNET) == 0 ? std::to_string(getpid()) : "");
      } else if (!Join(store.Get(first, Within(seconds(10))))) {
        return;
      }
      store.Get("plugged", Within(seconds(30)));
      GroupOptions options = TestOptions(rank, 4, TransportKind::kAuto);
      options.master_addr = "10.77.0.1";
      const auto group = CreateProcessGroup(store, options);
      store.Set("transport", group->transport());
      std::vector<float> values(100'000, 1);
      for (;;) {
        group->AllReduce(values.data(), values.size(), DataType::kF32, ReduceOp::kMean, {"bucket"})
            ->Wait();
        store.Set("warm/" + std::to_string(rank), "");
      }
    });
  }
  const std::string zero = store.Get("pid/0", Within(seconds(10)));
  const std::string two = store.Get("pid/2", Within(seconds(10)));
  if (zero.empty() || two.empty() || !Plug(zero, two)) {
    GTEST_SKIP() << "needs the right to make network namespaces, and the programs ip and nsenter";
  }
  store.Set("plugged", "");
  for (const char* warm : {"warm/0", "warm/1", "warm/2", "warm/3"}) {
    store.Get(warm, Within(seconds(20)));
  }
  EXPECT_EQ(store.TryGet("transport"), "shm+tcp");
  ASSERT_TRUE(Shell(fmt::format("nsenter -t {} -n ip link set ddp-b down", two)));
  const auto bound = Within(seconds(15));
  for (const int survivor : {0, 1}) {
    const auto end = processes.Wait(survivor, bound);
    ASSERT_TRUE(end) << "rank " << survivor << " waits for a host that is gone";
    EXPECT_EQ(end->exit_code, static_cast<int>(ExitCode::kUnavailable));
    EXPECT_THAT(end->error,
                ::testing::AnyOf(HasSubstr("rank 2 is gone"), HasSubstr("rank 3 is gone")));
  }
}

}  // namespace
}  // namespace ddp::rt::comm
