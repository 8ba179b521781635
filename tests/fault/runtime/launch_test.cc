// ddp-worker launch with small shell scripts as ranks: what they find, what becomes of their
// output, of signals, and of them when something fails.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "runtime/base/temp_folder_test.h"
#include "tests/fault/runtime/worker.h"

namespace ddp::rt {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const Environment kPath = {
    {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}};

std::vector<std::string> Launch(std::vector<std::string> options, const std::string& script) {
  options.insert(options.begin(), "launch");
  options.insert(options.end(), {"sh", "-c", script});
  return options;
}

std::string Text(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

// Gone, or a zombie that nobody has reaped yet.
bool Dead(int pid) {
  const std::string stat = Text(fmt::format("/proc/{}/stat", pid));
  const size_t after_name = stat.rfind(')');
  return after_name == std::string::npos || stat[after_name + 2] == 'Z';
}

// All within the limit; polled, as nobody is told of the end of a stranger's process.
bool AllDeadWithin(const std::vector<int>& pids, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end) {
    if (std::all_of(pids.begin(), pids.end(), Dead)) {
      return true;
    }
  }
  return false;
}

// The numbers after "pid " in a text.
std::vector<int> Pids(const std::string& text) {
  static const std::regex kPid(R"(pid (\d+))");
  std::vector<int> pids;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), kPid); it != std::sregex_iterator();
       ++it) {
    pids.push_back(std::stoi((*it)[1]));
  }
  return pids;
}

TEST(Launch, EachRankFindsItsPlace) {
  Worker worker(Launch({"--nproc-per-node", "3"},
                       "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR "
                       "$OMP_NUM_THREADS $((MASTER_PORT > 0)) $TORCHELASTIC_RESTART_COUNT"),
                kPath);
  EXPECT_EQ(worker.Wait(), 0) << worker.log();
  EXPECT_THAT(Lines(worker.results()),
              testing::UnorderedElementsAre("[rank 0] 0 0 3 3 127.0.0.1 1 1 0",
                                            "[rank 1] 1 1 3 3 127.0.0.1 1 1 0",
                                            "[rank 2] 2 2 3 3 127.0.0.1 1 1 0"));
}

TEST(Launch, TheVariablesOfTorchrunAreOptions) {
  Environment environment = kPath;
  environment.insert({{"PET_NPROC_PER_NODE", "2"},
                      {"PET_NNODES", "3"},
                      {"PET_NODE_RANK", "2"},
                      {"PET_MASTER_ADDR", "job-1-0.job.ns.svc"},
                      {"PET_MASTER_PORT", "1234"}});
  Worker worker(Launch({}, "echo $RANK/$WORLD_SIZE $GROUP_RANK $MASTER_ADDR:$MASTER_PORT"),
                environment);
  EXPECT_EQ(worker.Wait(), 0) << worker.log();
  EXPECT_THAT(Lines(worker.results()),
              testing::UnorderedElementsAre("[rank 4] 4/6 2 job-1-0.job.ns.svc:1234",
                                            "[rank 5] 5/6 2 job-1-0.job.ns.svc:1234"));
}

TEST(Launch, APythonScriptRuns) {
  const TempFolder temp;
  std::ofstream(temp.path() / "train.py")
      << "import os, sys\nprint(os.environ['RANK'], sys.argv[1])\n";
  Worker worker({"launch", (temp.path() / "train.py").string(), "--epochs"}, kPath);
  EXPECT_EQ(worker.Wait(), 0) << worker.log();
  EXPECT_EQ(worker.results(), "0 --epochs\n") << "one rank alone has no prefix";
}

TEST(Launch, LinesStayWhole) {
  // Written in two pieces each.
  Worker worker(
      Launch({"--nproc-per-node", "3"},
             "i=0; while [ $i -lt 300 ]; do printf \"$RANK begins \"; printf '%0900d' $i; "
             "echo \" ends $RANK\"; i=$((i+1)); done"),
      kPath);
  EXPECT_EQ(worker.Wait(), 0) << worker.log();
  const auto lines = Lines(worker.results());
  EXPECT_EQ(lines.size(), 900U);
  for (const std::string& line : lines) {
    ASSERT_EQ(line.size(), 9U + 9 + 900 + 7) << line;
    ASSERT_EQ(line.substr(0, 18), fmt::format("[rank {0}] {0} begins ", line[6]));
    ASSERT_EQ(line.back(), line[6]);
  }
}

TEST(Launch, OutputIsKeptPerRank) {
  const TempFolder temp;
  Worker worker(Launch({"--nproc-per-node", "2", "--log-dir", temp.path().string(), "--rdzv-id",
                        "run", "-r", "0:1", "-t", "1:3", "--local-ranks-filter", "1"},
                       "echo out $RANK; echo err $RANK >&2"),
                kPath);
  EXPECT_EQ(worker.Wait(), 0) << worker.log();
  const fs::path folder = temp.path() / "run" / "attempt_0";
  EXPECT_EQ(Text(folder / "0/stdout.log"), "out 0\n");
  EXPECT_FALSE(fs::exists(folder / "0/stderr.log"));
  EXPECT_EQ(Text(folder / "1/stdout.log"), "out 1\n");
  EXPECT_EQ(Text(folder / "1/stderr.log"), "err 1\n");
  EXPECT_EQ(worker.results(), "[rank 1] out 1\n");
  EXPECT_THAT(worker.log(), testing::Not(HasSubstr("err 0")));
  EXPECT_THAT(worker.log(), HasSubstr("[rank 1] err 1\n"));
}

TEST(Launch, TheRankThatFailedFirstIsNamed) {
  // Rank 0 fails because rank 2 is gone: it reads the end of a pipe of it.
  for (int i = 0; i < 10; ++i) {
    const TempFolder temp;
    Worker worker(
        Launch({"--nproc-per-node", "3"},
               fmt::format("mkfifo {0}/$RANK.pipe; case $RANK in\n"
                           "0) mkfifo {0}/p; exec 4<{0}/p; read x <&4; exit 1;;\n"
                           "1) exec sleep 1000;;\n"
                           "2) until [ -p {0}/p ]; do :; done; exec 3>{0}/p; echo last words >&2;\n"
                           "kill -ABRT $$;; esac",
                           temp.path().string())),
        kPath);
    EXPECT_EQ(worker.Wait(), 128 + SIGABRT) << worker.log();
    EXPECT_THAT(worker.log(), HasSubstr("rank 2 (local rank 2, pid "));
    EXPECT_THAT(worker.log(), HasSubstr(") failed first: SIGABRT (signal 6"));
    EXPECT_THAT(worker.log(), HasSubstr("launch:   | last words\n"));
    EXPECT_THAT(worker.log(), HasSubstr("rank 1: SIGTERM (signal 15)"));
  }
}

TEST(Launch, AKilledRankGetsAHint) {
  Worker worker(Launch({"--nproc-per-node", "2"}, "[ $RANK = 1 ] && kill -9 $$; exec sleep 1000"),
                kPath);
  EXPECT_EQ(worker.Wait(), 128 + SIGKILL) << worker.log();
  EXPECT_THAT(worker.log(), HasSubstr("rank 1 (local rank 1, "));
  EXPECT_THAT(worker.log(), HasSubstr("hint: "));
}

TEST(Launch, AProgramThatIsNotThereIsSaid) {
  Worker worker({"launch", "no-such-program"}, kPath);
  EXPECT_EQ(worker.Wait(), 78) << worker.log();
  EXPECT_THAT(worker.log(), HasSubstr("can't run no-such-program: No such file or directory"));
}

TEST(Launch, WrongOptionsAreSaid) {
  Worker unknown({"launch", "--nproc", "2", "true"}, kPath);
  EXPECT_EQ(unknown.Wait(), 64) << unknown.log();
  Worker none({"launch", "--nproc-per-node", "0", "true"}, kPath);
  EXPECT_EQ(none.Wait(), 64) << none.log();
  EXPECT_THAT(none.log(), HasSubstr("--nproc-per-node '0' must be"));
}

// What follows the program belongs to it, whatever it looks like.
TEST(Launch, TheProgramsOptionsAreItsOwn) {
  for (const auto& before : std::vector<std::vector<std::string>>{{}, {"--"}}) {
    std::vector<std::string> arguments = {"launch", "--standalone"};
    arguments.insert(arguments.end(), before.begin(), before.end());
    arguments.insert(arguments.end(), {"printf", "%s,", "--nnodes", "9", "-r", "--", "--help"});
    Worker worker(arguments, kPath);
    EXPECT_EQ(worker.Wait(), 0) << worker.log();
    EXPECT_EQ(worker.results(), "--nnodes,9,-r,--,--help,\n");
  }
}

// A rank that says when it is ready to be stopped, and takes a while to save.
constexpr const char* kSaves =
    "trap 'sleep 1 & wait $!; echo saved; exit 75' TERM; trap 'echo usr1' USR1; echo ready;"
    "while :; do sleep 1000 & wait $!; kill $! 2>/dev/null; done";

TEST(Launch, AStopGivesTheRanksTheirGrace) {
  Worker worker(Launch({"--nproc-per-node", "2", "--grace-seconds", "20"}, kSaves), kPath);
  ASSERT_TRUE(worker.WaitForResult("[rank 0] ready\n")) << worker.log();
  ASSERT_TRUE(worker.WaitForResult("[rank 1] ready\n")) << worker.log();
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.Wait(), 75) << worker.log();
  EXPECT_THAT(worker.results(), HasSubstr("[rank 0] saved\n"));
  EXPECT_THAT(worker.results(), HasSubstr("[rank 1] saved\n"));
  EXPECT_THAT(worker.log(), HasSubstr("received SIGTERM: passed on to 2 rank(s), which have 20 s"));
}

TEST(Launch, TheGraceEnds) {
  Worker worker(Launch({"--nproc-per-node", "2", "--grace-seconds", "1"},
                       "trap '' TERM; echo ready; while :; do sleep 1000; done"),
                kPath);
  ASSERT_TRUE(worker.WaitForResult("[rank 0] ready\n")) << worker.log();
  ASSERT_TRUE(worker.WaitForResult("[rank 1] ready\n")) << worker.log();
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.Wait(std::chrono::seconds(10)), 128 + SIGKILL) << worker.log();
  EXPECT_THAT(worker.log(),
              HasSubstr("killing rank(s) 0, 1: they have not ended within the grace"));
}

TEST(Launch, UserSignalsReachTheRanks) {
  Worker worker(Launch({"--nproc-per-node", "2"}, kSaves), kPath);
  ASSERT_TRUE(worker.WaitForResult("[rank 0] ready\n")) << worker.log();
  ASSERT_TRUE(worker.WaitForResult("[rank 1] ready\n")) << worker.log();
  worker.Signal(SIGUSR1);
  EXPECT_TRUE(worker.WaitForResult("[rank 0] usr1\n")) << worker.log();
  EXPECT_TRUE(worker.WaitForResult("[rank 1] usr1\n")) << worker.log();
  worker.Signal(SIGINT);
  EXPECT_EQ(worker.Wait(), 128 + SIGINT) << worker.log();
}

// Whoever starts it may want a signal ignored: the ranks then never hear of it.
TEST(Launch, NohupIsHeeded) {
  std::vector<std::string> command = {"/usr/bin/nohup", DDP_WORKER};
  const auto launch = Launch({"--nproc-per-node", "1"}, kSaves);
  command.insert(command.end(), launch.begin(), launch.end());
  const auto worker = Worker::Of(command, kPath);
  ASSERT_TRUE(worker->WaitForResult("ready\n")) << worker->log();
  worker->Signal(SIGHUP);
  worker->Signal(SIGUSR1);
  EXPECT_TRUE(worker->WaitForResult("usr1\n")) << worker->log();
  worker->Signal(SIGTERM);
  EXPECT_EQ(worker->Wait(), 75) << worker->log();
}

// One rank stops on request; the others, asked through the ranks themselves, have their time too.
TEST(Launch, AStopOfOneRankIsNoFailure) {
  Worker worker(
      Launch({"--nproc-per-node", "2"}, "if [ $RANK = 1 ]; then exit 75; fi; sleep 1; exit 75"),
      kPath);
  EXPECT_EQ(worker.Wait(), 75) << worker.log();
  EXPECT_THAT(worker.log(), testing::Not(HasSubstr("failed")));
}

TEST(Launch, RestartsAreCountedOnEveryNode) {
  const auto node = [](const char* rank, const char* code) {
    Environment environment = kPath;
    environment.insert({{"PET_NODE_RANK", rank}, {"PET_NNODES", "2"}, {"PET_MASTER_ADDR", "::1"}});
    return std::make_unique<Worker>(
        Launch({"--max-restarts", "3"},
               fmt::format("echo start $TORCHELASTIC_RESTART_COUNT; exit {}", code)),
        environment);
  };
  const auto zero = node("0", "7");
  const auto one = node("1", "69");
  EXPECT_EQ(zero->Wait(), 7) << zero->log();
  EXPECT_EQ(one->Wait(), 69) << one->log();
  for (const auto& worker : {zero.get(), one.get()}) {
    std::string starts = worker->results();
    EXPECT_THAT(Lines(starts), testing::SizeIs(4));
    EXPECT_THAT(starts, HasSubstr("start 3\n"));
    EXPECT_THAT(worker->log(), HasSubstr("giving up after 3 restart(s)"));
  }
}

TEST(Launch, WhatTheUserMustMendIsNotStartedAgain) {
  Worker worker(Launch({"--max-restarts", "3"}, "echo start; exit 78"), kPath);
  EXPECT_EQ(worker.Wait(), 78) << worker.log();
  EXPECT_EQ(worker.results(), "start\n");
}

// Each rank starts a process of its own group, one in a session of its own, and says who they are.
constexpr const char* kFamily =
    "sleep 1000 & echo pid $!; setsid sleep 1000 & echo pid $!; echo rank $RANK is pid $$; "
    "echo ready $RANK; wait";

class LaunchFamily : public testing::Test {
 protected:
  LaunchFamily() : worker_(Launch({"--nproc-per-node", "2"}, kFamily), kPath) {
    EXPECT_TRUE(worker_.WaitForResult("ready 0\n")) << worker_.log();
    EXPECT_TRUE(worker_.WaitForResult("ready 1\n")) << worker_.log();
    pids_ = Pids(worker_.results());
    EXPECT_EQ(pids_.size(), 6U);
  }
  // The process that does the work: the only child of the first.
  int Second() const {
    return std::stoi(Text(fmt::format("/proc/{0}/task/{0}/children", worker_.pid())));
  }

  Worker worker_;
  std::vector<int> pids_;
};

TEST_F(LaunchFamily, EndsWithTheLauncher) {
  pids_.push_back(Second());
  worker_.Signal(SIGKILL);
  EXPECT_TRUE(AllDeadWithin(pids_, std::chrono::seconds(2)));
}

TEST_F(LaunchFamily, EndsWithTheLaunchersOtherHalf) {
  kill(Second(), SIGKILL);
  EXPECT_EQ(worker_.Wait(std::chrono::seconds(5)), 128 + SIGKILL) << worker_.log();
  EXPECT_TRUE(AllDeadWithin(pids_, std::chrono::seconds(2)));
}

TEST_F(LaunchFamily, EndsWithARank) {
  // Lines of two ranks come in any order.
  std::smatch rank;
  const std::string said = worker_.results();
  ASSERT_TRUE(std::regex_search(said, rank, std::regex(R"(rank 0 is pid (\d+))"))) << said;
  kill(std::stoi(rank[1]), SIGKILL);
  EXPECT_EQ(worker_.Wait(std::chrono::seconds(10)), 128 + SIGKILL) << worker_.log();
  EXPECT_TRUE(AllDeadWithin(pids_, std::chrono::seconds(2)));
}

TEST_F(LaunchFamily, EndsWhenStopped) {
  worker_.Signal(SIGTERM);
  EXPECT_EQ(worker_.Wait(std::chrono::seconds(10)), 128 + SIGTERM) << worker_.log();
  EXPECT_TRUE(AllDeadWithin(pids_, std::chrono::seconds(2)));
}

// In a container the launcher is process 1: nobody else reaps what is orphaned there, and signals
// that it does not handle do not reach it.
class LaunchAsFirstProcess : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0 || std::system("unshare -pf --mount-proc true 2>/dev/null") != 0) {
      GTEST_SKIP() << "no right to make a process namespace";
    }
  }
  static std::unique_ptr<Worker> Start(const std::string& script) {
    std::vector<std::string> command = {"/usr/bin/unshare", "-pf", "--mount-proc", DDP_WORKER};
    const auto launch = Launch({"--nproc-per-node", "2"}, script);
    command.insert(command.end(), launch.begin(), launch.end());
    return Worker::Of(std::move(command), kPath);
  }
};

TEST_F(LaunchAsFirstProcess, OrphansAreReaped) {
  // Each rank leaves twenty orphans behind that end at once, then counts zombies until there are
  // none.
  const auto worker = Start(
      "for i in 1 2 3 4 5 6 7 8 9 10; do (setsid true &); (true &); done;"
      "until ! grep -q '^State:.Z' /proc/[0-9]*/status 2>/dev/null; do :; done; echo clean");
  EXPECT_EQ(worker->Wait(), 0) << worker->log();
  EXPECT_THAT(worker->results(), HasSubstr("[rank 0] clean\n"));
  EXPECT_THAT(worker->results(), HasSubstr("[rank 1] clean\n"));
}

TEST_F(LaunchAsFirstProcess, SignalsArrive) {
  const auto worker = Start(kSaves);
  ASSERT_TRUE(worker->WaitForResult("[rank 0] ready\n")) << worker->log();
  ASSERT_TRUE(worker->WaitForResult("[rank 1] ready\n")) << worker->log();
  kill(std::stoi(Text(fmt::format("/proc/{0}/task/{0}/children", worker->pid()))), SIGTERM);
  EXPECT_EQ(worker->Wait(), 75) << worker->log();
}

}  // namespace
}  // namespace ddp::rt
