#include "runtime/launch/memory.h"

#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/temp_folder_test.h"

namespace ddp::rt::launch {
namespace {

namespace fs = std::filesystem;

void Write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(Memory, KillsAreRead) {
  EXPECT_EQ(ParseOomKills("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n"), 2);
  EXPECT_EQ(ParseOomKills("oom_kill_disable 0\nunder_oom 0\noom_kill 5"), 5);
  EXPECT_EQ(ParseOomKills("oom_kill x\n"), std::nullopt);
  EXPECT_EQ(ParseOomKills(""), std::nullopt);
}

TEST(Memory, TheControlGroupIsFound) {
  EXPECT_EQ(ParseCgroup("0::/kubepods/pod1\n"), "/kubepods/pod1");
  EXPECT_EQ(ParseCgroup("12:cpu:/a\n7:memory:/b\n0::/c\n"), "/b");
  EXPECT_EQ(ParseCgroup("nonsense\n"), "");
}

TEST(Memory, AKillForLackOfMemoryIsTold) {
  const TempFolder root;
  Write(root.path() / "proc/self/cgroup", "0::/pod\n");
  Write(root.path() / "sys/fs/cgroup/pod/memory.events", "oom 0\noom_kill 1\n");
  Write(root.path() / "sys/fs/cgroup/pod/memory.max", "1048576\n");
  const OomWatch watch(root.path());
  EXPECT_NE(watch.Hint().find("not this container's memory limit"), std::string::npos);
  Write(root.path() / "sys/fs/cgroup/pod/memory.events", "oom 1\noom_kill 3\n");
  EXPECT_NE(watch.Hint().find("out of memory: since the start the kernel has killed 2 process(es)"),
            std::string::npos)
      << watch.Hint();
  EXPECT_NE(watch.Hint().find("(limit 1048576 bytes)"), std::string::npos) << watch.Hint();
}

TEST(Memory, WithoutCountersItSaysWhereToLook) {
  const TempFolder root;
  EXPECT_NE(OomWatch(root.path()).Hint().find("kernel's log"), std::string::npos);
}

}  // namespace
}  // namespace ddp::rt::launch
