// What the user got wrong: one sentence that says what and where, the right exit code, nothing left
// running.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/base/temp_folder_test.h"
#include "tests/fault/runtime/worker.h"

namespace ddp::rt {
namespace {

namespace fs = std::filesystem;

// One rank alone.
class BadInput : public testing::Test {
 protected:
  BadInput() { WriteDigits(temp_.path() / "data" / "digits", 100, 20); }

  void Expect(int code, const std::string& says, const std::string& config = "train: {epochs: 1}") {
    environment_["CONFIG"] = config;
    environment_.try_emplace("DDP_DATA_DIR", (temp_.path() / "data").string());
    Worker worker({"train", "--config-env", "CONFIG"}, environment_);
    EXPECT_EQ(worker.Wait(), code) << worker.log();
    EXPECT_NE(worker.log().find(says), std::string::npos) << worker.log() << "wanted: " << says;
  }

  const TempFolder temp_;
  Environment environment_;
};

TEST_F(BadInput, MissingDataFile) {
  const fs::path file = temp_.path() / "data/digits/t10k-labels-idx1-ubyte";
  fs::remove(file);
  Expect(66, "data file " + file.string() + " can't be read: No such file or directory");
}

TEST_F(BadInput, MissingDataFolder) {
  Expect(66,
         "data 'digits2' (data.path of the config) not found; looked at: " +
             (temp_.path() / "data/digits2").string() + ", ",
         "data: {path: digits2}");
}

TEST_F(BadInput, TruncatedDataFile) {
  const fs::path file = temp_.path() / "data/digits/train-images-idx3-ubyte";
  fs::resize_file(file, 5000);
  Expect(65,
         "data file " + file.string() +
             ": expected 78416 bytes (100 × 28 × 28 elements), found 5000: copy the file again");
}

TEST_F(BadInput, WrongKind) {
  const fs::path file = temp_.path() / "data/digits/train-images-idx3-ubyte";
  fs::copy_file(temp_.path() / "data/digits/train-labels-idx1-ubyte", file,
                fs::copy_options::overwrite_existing);
  Expect(65, "it starts with 0x00000801 instead of 0x00000803");
}

TEST_F(BadInput, UnwritableCheckpointFolder) {
  environment_["DDP_CHECKPOINT_DIR"] = "/proc/checkpoints";
  Expect(78,
         "can't create checkpoint folder /proc/checkpoints: No such file or directory; choose "
         "another");
  environment_["DDP_CHECKPOINT_DIR"] = "/sys";
  Expect(78, "checkpoint folder /sys can't be written to: ");
}

TEST_F(BadInput, UnknownKey) {
  Expect(78, "$CONFIG:2: unknown key 'train.epoch'; did you mean 'epochs'?",
         "train:\n  epoch: 1\n");
}

TEST_F(BadInput, NoConfig) {
  Worker unset({"train", "--config-env", "NONE"}, {});
  EXPECT_EQ(unset.Wait(), 78);
  EXPECT_NE(unset.log().find("environment variable NONE, which --config-env names, is not set"),
            std::string::npos);
  Worker missing({"train", "--config", "/nowhere.yaml"}, {});
  EXPECT_EQ(missing.Wait(), 78);
  EXPECT_NE(missing.log().find("config file /nowhere.yaml can't be read"), std::string::npos);
}

TEST_F(BadInput, WrongRankEnvironment) {
  environment_["RANK"] = "2";
  environment_["WORLD_SIZE"] = "2";
  Expect(78, "RANK=2 must be less than WORLD_SIZE=2");
}

TEST_F(BadInput, WrongCommandLine) {
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"trian"},
                                             {"train"},
                                             {"train", "--config", "a", "--config-env", "b"},
                                             {"checkpoint"}}) {
    Worker worker(arguments, {});
    EXPECT_EQ(worker.Wait(), 64) << worker.log();
    EXPECT_NE(worker.log().find("--help"), std::string::npos) << worker.log();
  }
}

TEST_F(BadInput, ProgressPortInUseIsAWarning) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  environment_["DDP_PROGRESS_PORT"] = port;
  Expect(0, "progress port " + port + " can't be used");
  close(fd);
}

TEST_F(BadInput, BatchThatCannotBeDivided) {
  Job job(temp_.path(), 2, "train: {epochs: 1, batchSize: 33}");
  job.Start();
  EXPECT_EQ(job.Wait(), (std::vector<int>{78, 78}));
  EXPECT_NE(job.rank(0).log().find("train.batchSize 33"), std::string::npos) << job.logs();
}

TEST_F(BadInput, CheckpointOfAnotherModel) {
  environment_["DDP_CHECKPOINT_DIR"] = (temp_.path() / "checkpoints").string();
  Expect(0, "saved checkpoint", "{model: {name: mlp, hidden: 8}, train: {epochs: 1}}");
  Expect(78,
         "its tensor 'linear1.weight' is F32[8, 784], the config's is F32[9, 784]; use another ",
         "{model: {name: mlp, hidden: 9}, train: {epochs: 1}}");
  Expect(78, "it has no tensor 'average.linear1.weight'",
         "{model: {name: mlp, hidden: 8}, optimizer: {name: adamw}, train: {epochs: 1}}");
}

}  // namespace
}  // namespace ddp::rt
