#include "runtime/launch/options.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace ddp::rt::launch {
namespace {

Flags Some() {
  Flags flags;
  flags.command = {"true"};
  return flags;
}

constexpr Host kNoGpu{.cores = 6, .gpus = 0};
constexpr Host kGpus{.cores = 6, .gpus = 4};

std::string Refusal(const Flags& flags, const Host& host = kNoGpu) {
  try {
    ReadFlags(flags, host);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUsage);
    return e.what();
  }
  return "";
}

TEST(LaunchOptions, RanksOfANode) {
  const auto processes = [](const char* text, const Host& host) {
    Flags flags = Some();
    flags.nproc_per_node = text;
    return ReadFlags(flags, host).processes;
  };
  EXPECT_EQ(processes("3", kNoGpu), 3);
  EXPECT_EQ(processes("auto", kNoGpu), 6);
  EXPECT_EQ(processes("auto", kGpus), 4);
  EXPECT_EQ(processes("gpu", kGpus), 4);
  EXPECT_EQ(processes("cpu", kGpus), 6);
}

TEST(LaunchOptions, OneNodeMeetsOnAFreePort) {
  const Options options = ReadFlags(Some(), kNoGpu);
  EXPECT_EQ(options.master_addr, "127.0.0.1");
  EXPECT_EQ(options.master_port, 0);
  EXPECT_FALSE(options.run_id.empty());
  EXPECT_NE(options.run_id, ReadFlags(Some(), kNoGpu).run_id);
}

TEST(LaunchOptions, SeveralNodesMeetWhereNodeZeroIs) {
  Flags flags = Some();
  flags.nnodes = "2:2";
  flags.node_rank = 1;
  EXPECT_EQ(Refusal(flags), "--master-addr is needed with --nnodes above 1: the host of node 0");
  flags.master_addr = "[fd00::1]";
  const Options options = ReadFlags(flags, kNoGpu);
  EXPECT_EQ(options.nodes, 2);
  EXPECT_EQ(options.master_addr, "[fd00::1]") << "as given, never resolved here";
  EXPECT_EQ(options.master_port, 29500);
  flags.master_port = 7;
  EXPECT_EQ(ReadFlags(flags, kNoGpu).master_port, 7);
}

TEST(LaunchOptions, StandaloneForgetsTheMaster) {
  Flags flags = Some();
  flags.standalone = true;
  flags.master_addr = "elsewhere";
  flags.master_port = 29500;
  EXPECT_EQ(ReadFlags(flags, kNoGpu).master_addr, "127.0.0.1");
  EXPECT_EQ(ReadFlags(flags, kNoGpu).master_port, 0);
}

TEST(LaunchOptions, OutputGoesToTheConsoleUnlessRedirected) {
  Flags flags = Some();
  flags.nproc_per_node = "3";
  EXPECT_TRUE(ReadFlags(flags, kNoGpu).standard_output[2].to_console);
  EXPECT_FALSE(ReadFlags(flags, kNoGpu).standard_output[2].to_file);
  flags.log_dir = "/logs";
  EXPECT_TRUE(ReadFlags(flags, kNoGpu).standard_error[0].to_console);
  EXPECT_TRUE(ReadFlags(flags, kNoGpu).standard_error[0].to_file);
  flags.redirects = "0:1,2:3";
  flags.local_ranks_filter = "1";
  const Options options = ReadFlags(flags, kNoGpu);
  EXPECT_FALSE(options.standard_output[0].to_console);
  EXPECT_TRUE(options.standard_output[0].to_file);
  EXPECT_FALSE(options.standard_error[0].to_file);
  EXPECT_TRUE(options.standard_error[1].to_console);
  EXPECT_TRUE(options.standard_error[2].to_file);
}

TEST(LaunchOptions, APythonScriptIsRunByPython) {
  Flags flags = Some();
  flags.command = {"train.py", "--epochs", "3"};
  EXPECT_EQ(ReadFlags(flags, kNoGpu).command,
            (std::vector<std::string>{"python3", "-u", "train.py", "--epochs", "3"}));
}

TEST(LaunchOptions, WhatIsWrongIsSaid) {
  struct Case {
    void (*change)(Flags&);
    const char* says;
  };
  const Case cases[] = {
      {[](Flags& f) { f.command.clear(); }, "there is no program to launch"},
      {[](Flags& f) {
         f.command = {"--nproc", "2"};
       },
       "unknown option --nproc;"},
      {[](Flags& f) { f.nproc_per_node = "0"; }, "--nproc-per-node '0' must be a number from 1"},
      {[](Flags& f) { f.nproc_per_node = "two"; }, "--nproc-per-node 'two' must be"},
      {[](Flags& f) { f.nproc_per_node = "gpu"; }, "this host shows no GPU"},
      {[](Flags& f) { f.nnodes = "1:4"; }, "a range needs elastic jobs"},
      {[](Flags& f) { f.nnodes = ""; }, "--nnodes '' must be a number"},
      {[](Flags& f) { f.node_rank = 1; }, "--node-rank 1 must be from 0 to 0: --nnodes is 1"},
      {[](Flags& f) { f.master_port = 70000; }, "--master-port 70000 must be from 1 to 65535"},
      {[](Flags& f) { f.max_restarts = -1; }, "--max-restarts -1 must not be negative"},
      {[](Flags& f) { f.tee = "3"; }, "--redirects and --tee need --log-dir"},
      {[](Flags& f) { f.tee = "4"; }, "--tee '4' must be 0 (none), 1 (standard output)"},
      {[](Flags& f) { f.redirects = "5:1"; }, "'5:1' names no local rank from 0 to 0"},
      {[](Flags& f) { f.local_ranks_filter = "0,9"; }, "'9' is no local rank from 0 to 0"},
      {[](Flags& f) { f.grace_seconds = -1; }, "--grace-seconds -1 must not be negative"},
      {[](Flags& f) {
         f.standalone = true;
         f.nnodes = "2";
       },
       "--standalone is for one node, --nnodes says 2"},
  };
  for (const Case& one : cases) {
    Flags flags = Some();
    one.change(flags);
    EXPECT_NE(Refusal(flags).find(one.says), std::string::npos)
        << Refusal(flags) << "\nwanted: " << one.says;
  }
}

}  // namespace
}  // namespace ddp::rt::launch
