// Runs that must come out the same whatever happens on the way: killed at random steps, gone on
// with other numbers of ranks, evaluated by any number of ranks, cut into parts.
// DDP_TEST_SEED chooses the random moments, DDP_TEST_KILLS how many there are.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "runtime/base/temp_folder_test.h"
#include "runtime/checkpoint/folder.h"
#include "tests/fault/runtime/checkpoints.h"
#include "tests/fault/runtime/worker.h"

namespace ddp::rt {
namespace {

namespace fs = std::filesystem;

int FromEnvironment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

void WriteText(const fs::path& root) {
  fs::create_directories(root / "data" / "text");
  std::ofstream file(root / "data" / "text" / "a.txt");
  std::minstd_rand random(3);
  for (int word = 0; word < 260; ++word) {
    file << (random() % 2 == 0 ? "to be " : "or not ");
  }
}

// What each step was made of: step to the samples of all ranks, from their logs.
using Steps = std::map<int, std::multiset<int>>;

// Of a run that went on from a checkpoint, its steps replace those of before.
void TakeSteps(Job& job, int ranks, Steps& steps) {
  static const std::regex kLine(R"(samples step=(\d+) epoch=\d+ of=([\d,]*))");
  Steps now;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string log = job.rank(rank).log();
    for (auto it = std::sregex_iterator(log.begin(), log.end(), kLine);
         it != std::sregex_iterator(); ++it) {
      std::istringstream numbers((*it)[2]);
      auto& of = now[std::stoi((*it)[1])];
      for (std::string number; std::getline(numbers, number, ',');) {
        of.insert(std::stoi(number));
      }
    }
  }
  for (auto& [step, of] : now) {
    steps[step] = std::move(of);
  }
}

void ExpectEachSample(const Steps& steps, int samples, int times) {
  std::map<int, int> seen;
  for (const auto& [step, of] : steps) {
    for (const int sample : of) {
      ++seen[sample];
    }
  }
  EXPECT_EQ(static_cast<int>(seen.size()), samples);
  for (const auto& [sample, count] : seen) {
    EXPECT_EQ(count, times) << "sample " << sample;
  }
}

struct Scene {
  const char* name;
  std::string config;
  int samples;  // of an epoch
  int steps;    // of two epochs
};

// Two epochs, 100 images: the last step of each has 4 instead of 16. Text, with dropout, clipping
// and parts. And a loss scale that is too large at first, with the optimizer's state in shards.
std::vector<Scene> Scenes() {
  return {{"Images",
           "model: {name: convnet, channels: 2, hidden: 8}\n"
           "data: {augment: {rotateDegrees: 10, flip: true}}\n"
           "optimizer: {name: adamw, learningRate: 0.001}\n"
           "train: {epochs: 2, batchSize: 16, logSamples: true, logHashes: true}\n"
           "checkpoint: {everySteps: 3}\n",
           100, 14},
          {"Text",
           "model: {name: gpt, layers: 1, heads: 2, width: 16, context: 16, dropout: 0.2}\n"
           "data: {path: text, loaderThreads: 2}\n"
           "optimizer: {name: adamw, learningRate: 0.001, clipNorm: 0.5}\n"
           "train: {epochs: 2, batchSize: 8, accumulate: 2, logSamples: true, logHashes: true}\n"
           "checkpoint: {everySteps: 3}\n",
           0, 0},
          {"HalfPrecision",
           "model: {name: gpt, layers: 1, heads: 2, width: 16, context: 16, dropout: 0.2}\n"
           "data: {path: text}\n"
           "optimizer: {name: adamw, learningRate: 0.001, sharded: true}\n"
           "train: {epochs: 2, batchSize: 8, precision: float16, lossScale: 1.0e+8,\n"
           "        logSamples: true, logHashes: true}\n"
           "checkpoint: {everySteps: 3}\n",
           0, 0}};
}

// Each step that these ranks did, also of a run that was cut off, gave the parameters that it gave
// in the whole run. A line that the kill has cut off is no hash.
void ExpectHashes(Job& job, const std::map<int, std::string>& wanted) {
  for (int rank = 0; rank < 2; ++rank) {
    for (const auto& [step, hash] : Hashes(job.rank(rank).log())) {
      ASSERT_EQ(hash, wanted.at(step)) << "rank " << rank << " step " << step << job.logs();
    }
  }
}

// From the loss of a rank to the end of the other.
constexpr std::chrono::seconds kNoticed(10);

// Starts the job, from its checkpoint if that is of before the step, kills a rank there, and says
// whether the kill came in time.
bool KillAt(Job& job, int step, int rank) {
  if (const auto found = checkpoint::CheckpointFolder(job.checkpoints(), 2).List();
      !found.empty() && found.front().step >= step) {
    fs::remove_all(job.checkpoints());
  }
  job.Start();
  EXPECT_TRUE(job.rank(rank).WaitFor("hash step=" + std::to_string(step) + " ")) << job.logs();
  job.rank(rank).Signal(SIGKILL);
  const auto codes = job.Wait(kNoticed);
  const int survivor = codes[static_cast<size_t>(1 - rank)];
  EXPECT_TRUE(survivor == 69 || survivor == 0) << survivor << job.logs();
  return codes[static_cast<size_t>(rank)] == 128 + SIGKILL;
}

class Killed : public testing::TestWithParam<Scene> {};

TEST_P(Killed, AtRandomStepsIsTheRunThatWasNot) {
  const Scene& scene = GetParam();
  const int seed = FromEnvironment("DDP_TEST_SEED", 1);
  const int kills = FromEnvironment("DDP_TEST_KILLS", 20);
  SCOPED_TRACE("DDP_TEST_SEED=" + std::to_string(seed));
  std::minstd_rand random(static_cast<unsigned>(seed));
  const TempFolder temp;
  for (const char* which : {"whole", "parts"}) {
    WriteDigits(temp.path() / which / "data" / "digits", 100, 20);
    WriteText(temp.path() / which);
  }
  Job whole(temp.path() / "whole", 2, scene.config);
  whole.Start();
  ASSERT_EQ(whole.Wait(), (std::vector<int>{0, 0})) << whole.logs();
  Steps wanted;
  TakeSteps(whole, 2, wanted);
  const int last = wanted.rbegin()->first;
  const auto hashes = Hashes(whole.rank(0).log());
  ASSERT_EQ(static_cast<int>(hashes.size()), last);

  Job parts(temp.path() / "parts", 2, scene.config);
  Steps steps;
  int killed = 0;
  for (int tries = 0; killed < kills; ++tries) {
    ASSERT_LT(tries, 3 * kills) << "the runs end before they are killed";
    const int step = 1 + static_cast<int>(random() % static_cast<unsigned>(last - 1));
    const int rank = static_cast<int>(random() % 2);
    SCOPED_TRACE("kill of rank " + std::to_string(rank) + " at step " + std::to_string(step));
    killed += KillAt(parts, step, rank) ? 1 : 0;
    ASSERT_NO_FATAL_FAILURE(ExpectHashes(parts, hashes));
    TakeSteps(parts, 2, steps);
  }
  parts.Start();
  ASSERT_EQ(parts.Wait(), (std::vector<int>{0, 0})) << parts.logs();
  ASSERT_NO_FATAL_FAILURE(ExpectHashes(parts, hashes));
  TakeSteps(parts, 2, steps);
  EXPECT_EQ(steps, wanted) << "the same samples in each step";
  const auto a = Newest(whole);
  const auto b = Newest(parts);
  EXPECT_EQ(a.position.step, b.position.step);
  EXPECT_EQ(a.model_bytes, b.model_bytes);
  EXPECT_EQ(a.optimizer_bytes, b.optimizer_bytes);
  if (scene.samples > 0) {
    EXPECT_EQ(last, scene.steps);
    ExpectEachSample(steps, scene.samples, 2);
    EXPECT_NE(steps.at(1), steps.at(1 + scene.steps / 2)) << "each epoch has its own order";
  }
}

INSTANTIATE_TEST_SUITE_P(Exactness, Killed, testing::ValuesIn(Scenes()),
                         [](const auto& test) { return test.param.name; });

// 4 ranks, then 3, then 4 again, each change in the middle of an epoch of 9 steps (100 samples, 12
// a step).
TEST(Exactness, OtherNumbersOfRanksSeeTheSameSamples) {
  const TempFolder temp;
  WriteDigits(temp.path() / "data" / "digits", 100, 20);
  const auto config = [](int steps) {
    return "{model: {name: mlp, hidden: 8}, train: {epochs: 3, batchSize: 12, logSamples: true, "
           "maxSteps: " +
           std::to_string(steps) + "}}";
  };
  Steps steps;
  for (const auto& [ranks, until] : {std::pair{4, 5}, {3, 14}, {4, 27}}) {
    Job job(temp.path(), ranks, config(until));
    job.Start();
    ASSERT_EQ(job.Wait(), std::vector<int>(static_cast<size_t>(ranks), 0)) << job.logs();
    TakeSteps(job, ranks, steps);
  }
  EXPECT_EQ(steps.size(), 27U);
  ExpectEachSample(steps, 100, 3);
}

// 1,797 is no multiple of 2 or 4.
TEST(Exactness, AnyNumberOfRanksEvaluatesTheSame) {
  const TempFolder temp;
  WriteDigits(temp.path() / "data" / "digits", 96, 1797);
  const std::string config =
      "{model: {name: mlp, hidden: 8}, optimizer: {learningRate: 0.01}, train: {epochs: 2, "
      "batchSize: 12}}";
  Job trained(temp.path(), 1, config);
  trained.Start();
  ASSERT_EQ(trained.Wait(), std::vector<int>{0}) << trained.logs();
  static const std::regex kResult(R"(was finished .* \((\d+) of 1797\), test loss ([\d.]+))");
  std::string correct;
  double loss = 0;
  for (const int ranks : {1, 2, 3, 4}) {
    Job job(temp.path(), ranks, config);
    job.Start();
    ASSERT_EQ(job.Wait(), std::vector<int>(static_cast<size_t>(ranks), 0)) << job.logs();
    const std::string results = job.rank(0).results();
    std::smatch found;
    ASSERT_TRUE(std::regex_search(results, found, kResult)) << results;
    if (ranks == 1) {
      correct = found[1];
      loss = std::stod(found[2]);
      EXPECT_GT(std::stoi(correct), 180);
      EXPECT_LT(std::stoi(correct), 1797) << "so that a mistake would show";
    }
    EXPECT_EQ(found[1], correct);
    EXPECT_NEAR(std::stod(found[2]), loss, 1e-6);
  }
}

// The last step of each epoch has 5 samples: 3 for one rank, 2 for the other, in parts of 2.
class OneProcess : public testing::TestWithParam<Scene> {};

TEST_P(OneProcess, WithTheWholeBatchIsTwoRanksWithHalf) {
  const TempFolder temp;
  for (const char* which : {"one", "two"}) {
    WriteDigits(temp.path() / which / "data" / "digits", 21, 20);
    WriteText(temp.path() / which);
  }
  const std::string& config = GetParam().config;
  Job one(temp.path() / "one", 1, config);
  Job two(temp.path() / "two", 2, config + "distributed: {syncBatchNorm: true}\n");
  one.Start();
  ASSERT_EQ(one.Wait(), (std::vector<int>{0})) << one.logs();
  two.Start();
  ASSERT_EQ(two.Wait(), (std::vector<int>{0, 0})) << two.logs();
  EXPECT_LE(MaxDifference(Newest(one), Newest(two)), 1e-5F);
}

INSTANTIATE_TEST_SUITE_P(
    Exactness, OneProcess,
    testing::Values(
        Scene{"Parts",
              "model: {name: mlp, hidden: 16}\noptimizer: {learningRate: 0.01, clipNorm: 0.1}\n"
              "train: {epochs: 2, batchSize: 8, accumulate: 2}\n",
              0, 0},
        Scene{"BatchNorm",
              "model: {name: resnet18}\noptimizer: {learningRate: 0.0001}\n"
              "train: {epochs: 1, batchSize: 8, maxSteps: 2}\n",
              0, 0},
        Scene{"Text",
              "model: {name: gpt, layers: 1, heads: 2, width: 16, context: 16}\n"
              "data: {path: text}\noptimizer: {learningRate: 0.01, weightDecay: 0.001}\n"
              "train: {epochs: 1, batchSize: 16}\n",
              0, 0}),
    [](const auto& test) { return test.param.name; });

// Ranks begin with the same parameters, for any number of them.
TEST(Exactness, TheFirstParametersDoNotDependOnTheRanks) {
  const TempFolder temp;
  std::set<std::string> hashes;
  for (const int ranks : {1, 2}) {
    Job job(temp.path() / std::to_string(ranks), ranks,
            "{model: {name: mlp, hidden: 8}, optimizer: {learningRate: 0}, train: {batchSize: 16, "
            "maxSteps: 1, logHashes: true}}");
    job.Start();
    ASSERT_EQ(job.Wait(), std::vector<int>(static_cast<size_t>(ranks), 0)) << job.logs();
    for (int rank = 0; rank < ranks; ++rank) {
      hashes.insert(Hashes(job.rank(rank).log()).at(1));
    }
  }
  EXPECT_EQ(hashes.size(), 1U);
}

}  // namespace
}  // namespace ddp::rt
