// The parts of the local body that need no processes of their own; tests/local runs the whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "operator/ddpjob/local/expand.h"
#include "operator/ddpjob/local/local_job.h"
#include "operator/ddpjob/local/process_tree.h"

namespace ddp::job {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Expand, FollowsKubernetes) {
  const std::map<std::string, std::string> known = {{"A", "1"}, {"B", "$(A)"}};
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},         {"x", "x"},        {"$(A)", "1"},    {"<$(A)$(A)>", "<11>"},
      {"$(C)", "$(C)"}, {"$$(A)", "$(A)"}, {"$$$(A)", "$1"}, {"$$", "$"},
      {"$", "$"},       {"$A", "$A"},      {"$(A", "$(A"},   {"$(B)", "$(A)"},
      {"$()", "$()"},   {"a$", "a$"},      {"$$$$", "$$"},   {"$(A)$", "1$"}};
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(Expand(text, known), expected) << text;
  }
}

class LocalFiles : public ::testing::Test {
 protected:
  LocalFiles() {
    std::string pattern = ::testing::TempDir() + "ddp-local.XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~LocalFiles() override { fs::remove_all(folder_); }

  fs::path Program(const std::string& name) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }

  fs::path folder_;
};

TEST_F(LocalFiles, FindsProgramsInOrder) {
  const fs::path own = Program("own/ddp-worker");
  const fs::path other = Program("path/ddp-worker");
  const fs::path tool = Program("path/tool");
  Program("own/tool");
  const std::string path = "/nowhere:" + (folder_ / "path").string();
  EXPECT_EQ(*FindProgram("ddp-worker", folder_ / "own", path), own);
  EXPECT_EQ(*FindProgram("ddp-worker", folder_ / "empty", path), other);
  EXPECT_EQ(*FindProgram("tool", folder_ / "own", path), tool) << "only ddp-worker is ours";
  EXPECT_EQ(*FindProgram(tool.string(), "", ""), tool);
  const auto missing = FindProgram("none", folder_ / "own", path);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message,
              HasSubstr("'none' is not a program on this machine; looked in /nowhere:"));
  std::ofstream(folder_ / "path/text") << "x";
  EXPECT_FALSE(FindProgram("text", "", path)) << "can't be run";
}

constexpr const char* kJob = R"yaml(
apiVersion: ddpjob.dev/v1alpha1
kind: DDPJob
metadata: {name: job}
spec:
  replicas: 2
  checkpoint: {path: /c, claimName: c}
  rendezvous: {port: 4321}
  template:
    spec:
      nodeSelector: {a: b}
      containers:
      - {name: side, image: i}
      - name: worker
        image: i
        command: [/bin/sh]
        args: ['$(RANK)', '$(HELLO)', '$(HOME)']
        env:
        - {name: HELLO, value: 'hello $(WORLD_SIZE)'}
        - {name: SECRET, valueFrom: {secretKeyRef: {name: s, key: k}}}
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
)yaml";

LocalJob Prepared() {
  const json::Json object = json::ParseYaml(kJob)->front();
  return *PrepareLocal(*api::ParseJob(object), object);
}

TEST_F(LocalFiles, BuildsARanksCommand) {
  const LocalJob local = Prepared();
  EXPECT_THAT(local.without_effect,
              ElementsAre("env SECRET (valueFrom)", "nodeSelector", "image", "container side"));
  const auto folder = StateFolder::Open(folder_, "job", false);
  ASSERT_TRUE(folder);
  const LocalPorts ports{4321, {7000, 7001}};
  const auto command = BuildRankCommand(local, 3, 1, ports, *folder, "/",
                                        {{"HOME", "/home/me"}, {"RANK", "9"}, {"PATH", "/bin"}});
  ASSERT_TRUE(command) << command.error().message;
  EXPECT_THAT(command->command, ElementsAre("/bin/sh", "1", "hello 2", "$(HOME)"));
  const std::string state = (folder_ / ".ddp/job").string();
  for (const std::string& variable :
       {std::string("RANK=1"), std::string("MASTER_ADDR=127.0.0.1"),
        std::string("MASTER_PORT=4321"), std::string("DDP_PROGRESS_PORT=7001"),
        std::string("HOME=/home/me"), std::string("HELLO=hello 2"),
        "DDP_CHECKPOINT_DIR=" + state + "/checkpoints/default-job",
        "DDP_DATA_DIR=" + state + "/volumes/data"}) {
    EXPECT_THAT(command->environment, Contains(variable));
  }
  EXPECT_THAT(command->environment, Contains(StartsWith("OMP_NUM_THREADS=")));
  EXPECT_THAT(command->environment, Not(Contains(StartsWith("SECRET="))));
  EXPECT_EQ(command->log, folder_ / ".ddp/job/logs/job-3-1.log");
  EXPECT_FALSE(command->pipe_output);
}

TEST(Ports, AreFreeAndDifferentUnlessWritten) {
  const auto ports = ChoosePorts(Prepared());
  ASSERT_TRUE(ports);
  EXPECT_EQ(ports->rendezvous, 4321);
  ASSERT_EQ(ports->progress.size(), 2U);
  EXPECT_NE(ports->progress[0], ports->progress[1]);
  EXPECT_GE(ports->progress[0], 1024);
}

TEST(ProcessTree, FindsChildren) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_THAT(ChildrenOf(getpid()), Contains(child));
  KillAllDescendants();
  EXPECT_THAT(ChildrenOf(getpid()), Not(Contains(child)));
}

}  // namespace
}  // namespace ddp::job
