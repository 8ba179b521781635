#include "operator/base/memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace ddp::base {
namespace {

// What of this process's files is in memory, in KiB.
long ResidentOfFiles() {
  std::ifstream status("/proc/self/status");
  const std::string field = "RssFile:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) {
      return std::stol(line.substr(field.size()));
    }
  }
  return -1;
}

TEST(MemoryTest, CodeThatIsLetGoOfIsStillThere) {
  const long before = ResidentOfFiles();
  UnmapStartupCode();
  const long after = ResidentOfFiles();  // this code came back
  EXPECT_GT(after, 0);
  EXPECT_LT(after, before);
}

}  // namespace
}  // namespace ddp::base
