#include "runtime/store/rendezvous.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <future>

#include "runtime/base/error.h"
#include "runtime/base/net.h"
#include "runtime/store/hash_store.h"

namespace ddp::rt::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

int FreePort() { return BoundPort(ListenTcp("", 0, "")); }

RankEnv Env(int rank, int world_size, int port, const std::string& uid = "job", int attempt = 1) {
  RankEnv env;
  env.rank = rank;
  env.world_size = world_size;
  env.master_addr = "127.0.0.1";
  env.master_port = port;
  env.job_uid = uid;
  env.attempt = attempt;
  return env;
}

RendezvousOptions Within(milliseconds init, milliseconds shutdown = seconds(10)) {
  return {init, shutdown};
}

// Runs the call in a thread; the result is its error's text, "" if it succeeded.
std::future<std::string> Async(ExitCode code, std::function<void()> call) {
  return std::async(std::launch::async, [code, call = std::move(call)]() -> std::string {
    try {
      call();
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      return e.what();
    }
  });
}

void JoinAndLeave(const RankEnv& env) {
  Rendezvous rendezvous(env, Within(seconds(20)));
  rendezvous.store().Set("hello/" + std::to_string(env.rank), "x");
  for (int r = 0; r < env.world_size; ++r) {
    rendezvous.store().Get("hello/" + std::to_string(r), Deadline::In(seconds(5), "hello"));
  }
  rendezvous.Shutdown();
}

TEST(Rendezvous, RanksMeetWhicheverComesFirstAndRankZeroLeavesLast) {
  const int port = FreePort();
  std::vector<std::future<std::string>> ranks;
  for (const int rank : {2, 1, 0}) {
    ranks.push_back(Async(ExitCode::kUnavailable, [=] { JoinAndLeave(Env(rank, 3, port)); }));
  }
  for (auto& rank : ranks) {
    EXPECT_EQ(rank.get(), "");
  }
}

TEST(Rendezvous, WorldOfOneOpensNoPort) {
  Rendezvous alone(Env(0, 1, 1), Within(seconds(1)));
  EXPECT_EQ(alone.port(), 0);
  alone.store().Set("a", "b");
  alone.Shutdown();
}

TEST(Rendezvous, PortInUseNamesPortAndCure) {
  const Fd taken = ListenTcp("", 0, "");
  const int port = BoundPort(taken);
  const std::string error =
      Async(ExitCode::kConfig, [&] { Rendezvous(Env(0, 2, port), Within(seconds(5))); }).get();
  EXPECT_THAT(error, HasSubstr("port " + std::to_string(port) + " is in use"));
  EXPECT_THAT(error, HasSubstr("spec.rendezvous.port"));
}

TEST(Rendezvous, NobodyThereNamesHostPortAndLastFailure) {
  const int port = FreePort();
  const std::string error = Async(ExitCode::kUnavailable, [&] {
                              Rendezvous(Env(1, 2, port), Within(milliseconds(200)));
                            }).get();
  EXPECT_EQ(error, "cannot reach 127.0.0.1:" + std::to_string(port) +
                       " (the rendezvous store of rank 0): gave up after 0.2 s; last: IPv4 "
                       "127.0.0.1: Connection refused");
}

TEST(Rendezvous, NamesTheRanksThatHaveNotCome) {
  const int port = FreePort();
  const std::string error = Async(ExitCode::kUnavailable, [&] {
                              Rendezvous(Env(0, 3, port), Within(milliseconds(300)));
                            }).get();
  EXPECT_THAT(error, HasSubstr("waiting for all 3 ranks to join: rank(s) 1, 2 have not come"));
}

struct Misfit {
  const char* name;
  RankEnv env;
  ExitCode code;
  const char* says;
};

// Over a shared store each check is exact: rank 0 is of job "job", attempt 3, world 2.
TEST(Rendezvous, RefusesWhoDoesNotBelong) {
  for (const Misfit& misfit : {
           Misfit{"other job", Env(1, 2, 1, "other", 3), ExitCode::kUnavailable,
                  "belongs to job job attempt 3, but this rank 1 is of job other attempt 3"},
           Misfit{"later attempt", Env(1, 2, 1, "job", 4), ExitCode::kUnavailable,
                  "belongs to job job attempt 3, but this rank 1 is of job job attempt 4"},
           Misfit{"earlier attempt", Env(1, 2, 1, "job", 2), ExitCode::kUnavailable,
                  "belongs to job job attempt 3, but this rank 1 is of job job attempt 2"},
           Misfit{"world size", Env(1, 3, 1, "job", 3), ExitCode::kConfig,
                  "rank 0 has WORLD_SIZE=2, but this rank 1 has WORLD_SIZE=3"},
           Misfit{"twice", Env(0, 2, 1, "job", 3), ExitCode::kConfig, "rank 0 is there twice"},
       }) {
    SCOPED_TRACE(misfit.name);
    const auto store = std::make_shared<HashStore>();
    auto zero = Async(ExitCode::kUnavailable,
                      [&] { Rendezvous(Env(0, 2, 1, "job", 3), store, Within(seconds(10))); });
    store->Get("job/3/joined/0", Deadline::In(seconds(5), "rank 0"));
    EXPECT_THAT(
        Async(misfit.code, [&] { Rendezvous(misfit.env, store, Within(seconds(10))); }).get(),
        HasSubstr(misfit.says));
    Rendezvous(Env(1, 2, 1, "job", 3), store, Within(seconds(10)));  // the right one is welcome
    EXPECT_EQ(zero.get(), "");
  }
}

TEST(Rendezvous, OverTcpAForeignJobIsRefusedAtOnce) {
  const int port = FreePort();
  auto zero = Async(ExitCode::kUnavailable, [&] { JoinAndLeave(Env(0, 2, port)); });
  const auto start = Deadline::Clock::now();
  EXPECT_THAT(Async(ExitCode::kUnavailable,
                    [&] { Rendezvous(Env(1, 2, port, "foreign"), Within(seconds(30))); })
                  .get(),
              HasSubstr("belongs to job job attempt 1, but this rank 1 is of job foreign"));
  EXPECT_LT(Deadline::Clock::now() - start, seconds(10));
  JoinAndLeave(Env(1, 2, port));
  EXPECT_EQ(zero.get(), "");
}

TEST(Rendezvous, WaitsOutTheStoreOfAnEarlierAttempt) {
  const int port = FreePort();
  std::promise<void> old_is_up;
  std::promise<void> end_old;
  auto old = Async(ExitCode::kUnavailable, [&] {
    RankEnv env = Env(0, 2, port, "job", 1);
    auto other = Async(ExitCode::kUnavailable, [&] { JoinAndLeave(Env(1, 2, port, "job", 1)); });
    Rendezvous first(env, Within(seconds(20), milliseconds(1)));
    old_is_up.set_value();
    end_old.get_future().wait();
  });
  old_is_up.get_future().wait();
  auto late = Async(ExitCode::kUnavailable, [&] { JoinAndLeave(Env(1, 2, port, "job", 2)); });
  end_old.set_value();
  old.get();
  auto zero = Async(ExitCode::kUnavailable, [&] { JoinAndLeave(Env(0, 2, port, "job", 2)); });
  EXPECT_EQ(late.get(), "");
  EXPECT_EQ(zero.get(), "");
}

TEST(Rendezvous, RankZeroDoesNotWaitForEverForARankThatVanished) {
  const int port = FreePort();
  auto other = Async(ExitCode::kUnavailable, [&] {
    Rendezvous vanishing(Env(1, 2, port), Within(seconds(20)));  // no Shutdown
  });
  Rendezvous zero(Env(0, 2, port), Within(seconds(20), milliseconds(200)));
  other.get();
  const auto start = Deadline::Clock::now();
  zero.Shutdown();
  EXPECT_LT(Deadline::Clock::now() - start, seconds(5));
}

// A mount namespace of its own gives the child an /etc/hosts that the test can change.
void BindOverHostFiles(const std::string& folder) {
  ASSERT_EQ(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  ASSERT_EQ(mount((folder + "/hosts").c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(
      mount((folder + "/nsswitch.conf").c_str(), "/etc/nsswitch.conf", nullptr, MS_BIND, nullptr),
      0);
}

TEST(Rendezvous, RetriesANameThatResolvesLate) {
  if (unshare(CLONE_NEWNS) != 0) {
    GTEST_SKIP() << "needs the right to make a mount namespace";
  }
  const std::string folder = ::testing::TempDir() + "/hosts-" + std::to_string(getpid());
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  std::ofstream(folder + "/hosts") << "127.0.0.1 localhost\n";
  std::ofstream(folder + "/nsswitch.conf") << "hosts: files\n";
  BindOverHostFiles(folder);
  const int port = FreePort();
  RankEnv env = Env(1, 2, port);
  env.master_addr = "mnist-1-0.mnist.default.svc";
  EXPECT_THAT(
      Async(ExitCode::kUnavailable, [&] { Rendezvous(env, Within(milliseconds(200))); }).get(),
      HasSubstr("the name does not resolve"));
  auto late = Async(ExitCode::kUnavailable, [&] { JoinAndLeave(env); });
  auto zero = Async(ExitCode::kUnavailable, [&] { JoinAndLeave(Env(0, 2, port)); });
  std::ofstream(folder + "/hosts", std::ios::app) << "127.0.0.1 " << env.master_addr << "\n";
  EXPECT_EQ(late.get(), "");
  EXPECT_EQ(zero.get(), "");
  umount2("/etc/hosts", MNT_DETACH);
  umount2("/etc/nsswitch.conf", MNT_DETACH);
  unlink((folder + "/hosts").c_str());
  unlink((folder + "/nsswitch.conf").c_str());
  rmdir(folder.c_str());
}

}  // namespace
}  // namespace ddp::rt::store
