// Names of rank 0 as clusters give them: known to a rank only some time after it has started,
// never, or of IPv6. The names are those of /etc/hosts, which each process has as its own (a mount
// namespace), so that no other program sees them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/temp_folder_test.h"
#include "runtime/comm/process_group.h"
#include "runtime/comm/processes_test.h"
#include "runtime/comm/ranks_test.h"

namespace ddp::rt::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

Deadline Within(milliseconds time) { return Deadline::In(time, "the test"); }

class Names : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() / name, std::ios::app) << text << '\n';
  }
  // In a child: from here on names come from the test's file only.
  bool OwnNames() const {
    const auto over = [&](const char* name) {
      const std::string from = folder_.path() / name;
      return mount(from.c_str(), fmt::format("/etc/{}", name).c_str(), nullptr, MS_BIND, nullptr) ==
             0;
    };
    return unshare(CLONE_NEWNS) == 0 &&
           mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 && over("hosts") &&
           over("nsswitch.conf");
  }
  // Meets at a master of this name, and all-reduces once.
  void Start(int rank, const std::string& master, seconds timeout) {
    processes_.Start(rank, [&] {
      const bool own = OwnNames();
      store_.Set("own/" + std::to_string(rank), own ? "yes" : "");
      if (!own) {
        return;
      }
      GroupOptions options = TestOptions(rank, 2, TransportKind::kTcp);
      options.master_addr = master;
      options.init_timeout = timeout;
      const auto group = CreateProcessGroup(store_, options);
      store_.Set("met/" + std::to_string(rank), "");
      float value = 1;
      group->AllReduce(&value, 1, DataType::kF32, ReduceOp::kSum, {"sum"})->Wait();
      group->Shutdown(seconds(5));
    });
  }
  bool CanHaveOwnNames() {
    return !store_.Get("own/0", Within(seconds(10))).empty() &&
           !store_.Get("own/1", Within(seconds(10))).empty();
  }
  void ExpectSuccess() {
    for (const int rank : {0, 1}) {
      const auto end = processes_.Wait(rank, Within(seconds(20)));
      ASSERT_TRUE(end) << "rank " << rank << " hangs";
      EXPECT_EQ(end->exit_code, 0) << end->error;
    }
  }

  void SetUp() override {
    Write("hosts", "127.0.0.1 localhost");
    Write("nsswitch.conf", "hosts: files");
  }

  static constexpr const char* kNeedsRoot = "needs the right to make mount namespaces";
  TempFolder folder_;
  ForkStore store_;
  Processes processes_{2};
};

TEST_F(Names, ANameThatResolvesOnlyLaterIsWaitedFor) {
  Start(0, "master.late", seconds(20));
  Start(1, "master.late", seconds(20));
  if (!CanHaveOwnNames()) {
    GTEST_SKIP() << kNeedsRoot;
  }
  EXPECT_THROW(store_.Get("met/1", Within(milliseconds(300))), Error) << "without a name";
  Write("hosts", "127.0.0.1 master.late");
  ExpectSuccess();
}

TEST_F(Names, AnIPv6NameWorks) {
  Write("hosts", "::1 master.six");
  Start(0, "master.six", seconds(20));
  Start(1, "master.six", seconds(20));
  if (!CanHaveOwnNames()) {
    GTEST_SKIP() << kNeedsRoot;
  }
  ExpectSuccess();
}

TEST_F(Names, ABadNameIsNamedAtTheDeadline) {
  Start(0, "master.bad", seconds(1));
  Start(1, "master.bad", seconds(1));
  if (!CanHaveOwnNames()) {
    GTEST_SKIP() << kNeedsRoot;
  }
  const auto end = processes_.Wait(1, Within(seconds(10)));
  ASSERT_TRUE(end) << "rank 1 hangs";
  EXPECT_EQ(end->exit_code, static_cast<int>(ExitCode::kUnavailable));
  EXPECT_THAT(end->error,
              HasSubstr("leads to rank 0 at 'master.bad' (or the name does not resolve): "
                        "gave up after 1 s"));
}

TEST(Addresses, ARefusedConnectionNamesTheFamily) {
  const int port = BoundPort(ListenTcp("::1", 0, ""));  // closed again
  try {
    ConnectTcp("[::1]", port, Within(milliseconds(50)));
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr(fmt::format("[::1]:{}", port)));
    EXPECT_THAT(e.what(), HasSubstr("IPv6 ::1: Connection refused"));
  }
}

}  // namespace
}  // namespace ddp::rt::comm
