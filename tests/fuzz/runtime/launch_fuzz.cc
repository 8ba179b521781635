// What the launcher reads: flags, control group files, and the output of ranks.
#include <string>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/launch/lines.h"
#include "runtime/launch/memory.h"
#include "runtime/launch/options.h"
#include "tests/fuzz/fuzz.h"

namespace {

void TryFlags(const std::string& text) {
  using namespace ddp::rt;
  for (std::string launch::Flags::*flag :
       {&launch::Flags::nproc_per_node, &launch::Flags::nnodes, &launch::Flags::redirects,
        &launch::Flags::tee, &launch::Flags::local_ranks_filter}) {
    launch::Flags flags;
    flags.command = {"true"};
    flags.log_dir = "logs";
    flags.master_addr = "host";
    flags.*flag = text;
    try {
      const auto options = launch::ReadFlags(flags, {.cores = 2, .gpus = 1});
      DDP_RT_CHECK(options.standard_error.size() == static_cast<size_t>(options.processes),
                   "an output for each rank");
    } catch (const Error& refused) {
      DDP_RT_CHECK(refused.code() == ExitCode::kUsage, refused.what());
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddp::rt;
  const std::string text(reinterpret_cast<const char*>(data), size);
  TryFlags(text);
  launch::ParseOomKills(text);
  launch::ParseCgroup(text);
  launch::Lines lines;
  size_t length = 0;
  const auto take = [&](std::string_view line) { length += line.size() + 1; };
  lines.Feed(std::string_view(text).substr(0, size / 2), take);
  lines.Feed(std::string_view(text).substr(size / 2), take);
  lines.Finish(take);
  DDP_RT_CHECK(length == size || length == size + 1, "no byte is lost");
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  return {"2",
          "auto",
          "1:1",
          "0:1,1:3",
          "0,1",
          "low 0\nhigh 0\nmax 0\noom 0\noom_kill 12\n",
          "12:cpu,cpuacct:/a\n7:memory:/b\n0::/kubepods/pod1\n"};
}
