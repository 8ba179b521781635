#include "runtime/checkpoint/folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/base/temp_folder_test.h"

namespace ddp::rt::checkpoint {
namespace {

namespace fs = std::filesystem;

// A checkpoint whose tensors say of which step it is.
class Made {
 public:
  explicit Made(int64_t step, size_t size = 1000) : values_(size, static_cast<double>(step)) {
    const TensorView tensor{.name = "w",
                            .type = DType::kF64,
                            .shape = {static_cast<int64_t>(size)},
                            .elements = std::as_bytes(std::span(values_))};
    contents_.position.step = step;
    contents_.model = {tensor};
    contents_.optimizer = {tensor};
  }
  const Contents& contents() const { return contents_; }

 private:
  std::vector<double> values_;
  Contents contents_;
};

void Save(CheckpointFolder& folder, int64_t step) { folder.Save(Made(step).contents()); }

std::vector<int64_t> Steps(const CheckpointFolder& folder) {
  std::vector<int64_t> steps;
  for (const Found& found : folder.List()) {
    steps.push_back(found.problem.empty() ? found.step : -found.step);
  }
  return steps;
}

void FlipByte(const fs::path& path, std::streamoff at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const auto byte = static_cast<char>(file.get() ^ 4);
  file.seekp(at);
  file.put(byte);
}

TEST(CheckpointFolder, LoadsTheNewest) {
  const TempFolder temp;
  CheckpointFolder folder(temp.path() / "new" / "folder", 2);
  folder.Prepare();
  EXPECT_FALSE(folder.LoadNewest());
  Save(folder, 9);
  Save(folder, 10);
  const auto loaded = folder.LoadNewest();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->position.step, 10);
  EXPECT_EQ(loaded->path.filename(), "step-000000000010");
  EXPECT_EQ(*reinterpret_cast<const double*>(loaded->model[0].elements.data()), 10.0);
}

TEST(CheckpointFolder, UsesTheOneBeforeADamagedOneAndNamesIt) {
  struct Case {
    const char* name;
    void (*damage)(const fs::path&);
    const char* says;
  };
  for (const auto& [name, damage, says] : {
           Case{"truncated",
                [](const fs::path& p) { fs::resize_file(p / "model.safetensors", 100); },
                "model.safetensors has 100 bytes instead of"},
           Case{"bit flip", [](const fs::path& p) { FlipByte(p / "optimizer.safetensors", 999); },
                "optimizer.safetensors has checksum"},
           Case{"record gone", [](const fs::path& p) { fs::remove(p / "state.json"); },
                "state.json is missing: saving was interrupted"},
           Case{"record damaged", [](const fs::path& p) { FlipByte(p / "state.json", 120); },
                "state.json: it"},
           Case{"file gone", [](const fs::path& p) { fs::remove(p / "model.safetensors"); },
                "can't read model.safetensors: No such file"},
           Case{"renamed",
                [](const fs::path& p) { fs::rename(p, p.parent_path() / "step-000000000021"); },
                "state.json: it is of step 20"},
       }) {
    SCOPED_TRACE(name);
    const TempFolder temp;
    CheckpointFolder folder(temp.path(), 2);
    Save(folder, 10);
    Save(folder, 20);
    damage(temp.path() / FolderName(20));
    testing::internal::CaptureStderr();
    const auto loaded = folder.LoadNewest();
    const std::string log = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->position.step, 10);
    EXPECT_NE(log.find("refused checkpoint path=" + temp.path().string()), std::string::npos)
        << log;
    EXPECT_NE(log.find(says), std::string::npos) << log;
    // The refused one is gone once there is a better one.
    Save(folder, 15);
    EXPECT_EQ(Steps(folder), (std::vector<int64_t>{15, 10}));
  }
}

TEST(CheckpointFolder, SavesOverARefusedOneOfTheSameStep) {
  const TempFolder temp;
  CheckpointFolder folder(temp.path(), 2);
  Save(folder, 10);
  FlipByte(temp.path() / FolderName(10) / "model.safetensors", 500);
  EXPECT_FALSE(folder.LoadNewest());
  Save(folder, 10);
  EXPECT_EQ(Steps(folder), (std::vector<int64_t>{10}));
}

TEST(CheckpointFolder, KeepsSoMany) {
  const TempFolder temp;
  CheckpointFolder folder(temp.path(), 3);
  for (int64_t step = 1; step <= 6; ++step) {
    Save(folder, step);
  }
  EXPECT_EQ(Steps(folder), (std::vector<int64_t>{6, 5, 4}));
}

TEST(CheckpointFolder, UncommittedOnesDoNotCountAsKept) {
  const TempFolder temp;
  CheckpointFolder folder(temp.path(), 2);
  Save(folder, 1);
  fs::create_directories(temp.path() / FolderName(2));
  fs::create_directories(temp.path() / FolderName(3));
  Save(folder, 4);
  EXPECT_EQ(Steps(folder), (std::vector<int64_t>{4, 1}));
}

TEST(CheckpointFolder, LeavesOtherFilesAlone) {
  const TempFolder temp;
  CheckpointFolder folder(temp.path(), 1);
  for (const char* name : {"step-notes", "step-", "other", "step-1x"}) {
    fs::create_directories(temp.path() / name);
  }
  Save(folder, 1);
  Save(folder, 2);
  EXPECT_EQ(Steps(folder), (std::vector<int64_t>{2}));
  EXPECT_EQ(std::distance(fs::directory_iterator(temp.path()), {}), 5);
}

TEST(CheckpointFolder, PrepareRemovesTemporaryFiles) {
  const TempFolder temp;
  CheckpointFolder folder(temp.path(), 2);
  Save(folder, 1);
  const fs::path stale = temp.path() / FolderName(1) / "model.safetensors.tmp";
  std::ofstream(stale) << "x";
  folder.Prepare();
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_EQ(Steps(folder), (std::vector<int64_t>{1}));
}

TEST(CheckpointFolder, UnwritableIsAConfigError) {
  const TempFolder temp;
  std::ofstream(temp.path() / "file") << "x";
  for (const fs::path& path :
       {temp.path() / "file" / "x", fs::path("/proc/ddp"), fs::path("/sys")}) {
    try {
      CheckpointFolder(path, 2).Prepare();
      ADD_FAILURE() << path;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kConfig);
      EXPECT_NE(std::string(e.what()).find(path.string()), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("choose another checkpoint.dir"), std::string::npos)
          << e.what();
    }
  }
}

// Wherever a bit flips or a file ends early: the one before is used.
TEST(CheckpointFolder, DamageAnywhereIsFound) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const TempFolder temp;
    CheckpointFolder folder(temp.path(), 2);
    Save(folder, 1);
    Save(folder, 2);
    const char* names[] = {"model.safetensors", "optimizer.safetensors", "state.json"};
    const fs::path file = temp.path() / FolderName(2) / names[round % 3];
    const auto at = static_cast<std::streamoff>(random() % fs::file_size(file));
    if (round % 2 == 0) {
      FlipByte(file, at);
    } else {
      fs::resize_file(file, static_cast<uintmax_t>(at));
    }
    const auto loaded = folder.LoadNewest();
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->position.step, 1) << file << " at " << at;
  }
}

// Saves step after step until it is killed.
[[noreturn]] void SaveForEver(const fs::path& path, int ready) {
  CheckpointFolder folder(path, 2);
  for (int64_t step = 1;; ++step) {
    folder.Save(Made(step, 20'000).contents());
    if (step == 1 && write(ready, "x", 1) != 1) {
      _exit(1);
    }
  }
}

TEST(CheckpointFolder, KilledAtAnyMomentLeavesAValidOne) {
  // DDP_TEST_SAVE_KILLS: more of them, for long runs; DDP_TEST_SEED: others.
  const char* const kills = std::getenv("DDP_TEST_SAVE_KILLS");
  const int rounds = kills != nullptr ? std::atoi(kills) : 20;
  const char* const seed = std::getenv("DDP_TEST_SEED");
  std::mt19937 random(seed != nullptr ? static_cast<unsigned>(std::atoi(seed)) : 7);
  std::uniform_int_distribution<int> microseconds(0, 20'000);
  for (int round = 0; round < rounds; ++round) {
    const TempFolder temp;
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      SaveForEver(temp.path(), ready[1]);
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    // Not to wait for something, but to hit a random moment.
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
    CheckpointFolder folder(temp.path(), 2);
    folder.Prepare();
    const auto loaded = folder.LoadNewest();
    ASSERT_TRUE(loaded);
    const auto step = loaded->position.step;
    for (const auto* tensors : {&loaded->model, &loaded->optimizer}) {
      const auto elements = tensors->at(0).elements;
      EXPECT_EQ(*reinterpret_cast<const double*>(elements.data()), static_cast<double>(step));
    }
    Save(folder, step + 1);
    EXPECT_EQ(Steps(folder), (std::vector<int64_t>{step + 1, step}));
  }
}

}  // namespace
}  // namespace ddp::rt::checkpoint
