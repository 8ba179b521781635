// Random troubles from printed seeds, on a control plane of its own: requests that fail, are lost
// or come twice, watches that are cut, clocks that jump, leaders that are killed, many jobs in a
// row. DDP_TEST_SEED repeats a run; DDP_CHAOS_STORIES, DDP_CHAOS_LEADERS and DDP_CHAOS_CHURN say
// how much (make soak says more).
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "operator/kube/config.h"
#include "tests/integration/fault_proxy.h"
#include "tests/integration/scenario.h"
#include "tests/integration/story.h"

namespace ddp::integration {
namespace {

constexpr seconds kLongestStories{120};
constexpr milliseconds kPeriod{70};  // the operator wants the API server too

unsigned Number(const char* name, unsigned otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : otherwise;
}

unsigned Seed() {
  static const unsigned seed = Number("DDP_TEST_SEED", std::random_device{}() % 1'000'000);
  std::cout << "DDP_TEST_SEED=" << seed << std::endl;
  return seed;
}

using Stories = std::vector<std::unique_ptr<Story>>;

Stories Begin(unsigned first_seed, unsigned count) {
  Stories stories;
  for (unsigned i = 0; i < count; ++i) {
    stories.push_back(std::make_unique<Story>(Cluster::Get(), first_seed + i));
  }
  return stories;
}

// Tells them all to their ends, calling `meanwhile` at each round.
void Tell(Stories& stories, const std::function<void()>& meanwhile) {
  const auto step = [&] {
    meanwhile();
    bool all = true;
    for (auto& story : stories) {
      all = story->Step() && all;
    }
    return all;
  };
  EXPECT_TRUE(Eventually(kLongestStories, step, kPeriod));
  for (auto& story : stories) {
    story->ExpectCalmEnd();
    story->ExpectNothingLeft();
  }
}

constexpr unsigned kAtOnce = 5;

// One fault in so many requests; lists and watches have their own.
class Dice {
 public:
  explicit Dice(unsigned seed)
      : random_(seed), one_in_(4 + static_cast<unsigned>(random_() % 12)) {}

  Fault Roll(const std::string& method, const std::string& target) {
    static constexpr Fault kOfWrites[] = {Fault::kServerError, Fault::kConflict,  Fault::kTooMany,
                                          Fault::kLostRequest, Fault::kLostReply, Fault::kTwice,
                                          Fault::kLate};
    static constexpr Fault kOfReads[] = {Fault::kServerError, Fault::kTooMany, Fault::kLostRequest,
                                         Fault::kLate};
    static constexpr Fault kOfWatches[] = {Fault::kCut, Fault::kSlow, Fault::kServerError,
                                           Fault::kTooMany};
    std::lock_guard lock(mutex_);
    if (random_() % one_in_ != 0) {
      return Fault::kNone;
    }
    if (target.find("watch=true") != std::string::npos) {
      return kOfWatches[random_() % std::size(kOfWatches)];
    }
    if (method == "GET") {
      return kOfReads[random_() % std::size(kOfReads)];
    }
    const Fault fault = kOfWrites[random_() % std::size(kOfWrites)];
    return fault == Fault::kConflict && method != "PUT" ? Fault::kServerError : fault;
  }

 private:
  std::mutex mutex_;
  std::mt19937 random_;
  const unsigned one_in_;
};

std::shared_ptr<kube::HttpTransport> OperatorsTransport(const std::string& kubeconfig) {
  auto config = kube::LoadKubeconfig(kubeconfig);
  DDP_CHECK(config.has_value(), "no kubeconfig");
  auto transport = kube::MakeHttpTransport(config->ToTransportOptions("fault-proxy"));
  DDP_CHECK(transport.has_value(), "no transport");
  return *std::move(transport);
}

TEST(Chaos, RequestsAndWatchesFailAtRandom) {
  Cluster& cluster = Cluster::Get();
  const unsigned seed = Seed();
  const auto api_server = OperatorsTransport(cluster.OperatorKubeconfig());
  for (unsigned told = 0; told < Number("DDP_CHAOS_STORIES", 20); told += kAtOnce) {
    Dice dice(seed + told);
    FaultProxy proxy(api_server, [&dice](const std::string& method, const std::string& target) {
      return dice.Roll(method, target);
    });
    OperatorProcess under_test(cluster.OperatorKubeconfig(proxy.url()));
    Stories stories = Begin(seed + told, kAtOnce);
    Tell(stories, [] {});
    EXPECT_GT(proxy.faults(), 3);  // some dozen on average
    ASSERT_TRUE(under_test.process().Running()) << under_test.Log();
    if (::testing::Test::HasFailure()) {
      std::cout << under_test.Log();
      return;
    }
  }
}

// The wall clock of the operator jumps, forth and back, by up to four minutes: less than the ten
// that a start may take, more than any wait of these jobs.
TEST(Chaos, TheClockJumps) {
  Cluster& cluster = Cluster::Get();
  const unsigned seed = Seed();
  std::mt19937 random(seed);
  const std::string offset = cluster.FileName("clock-offset");
  const auto jump_to = [&](int64_t second) {
    const int64_t nanoseconds = second * 1'000'000'000;
    std::fstream(offset, std::ios::binary | std::ios::in | std::ios::out)
        .write(reinterpret_cast<const char*>(&nanoseconds), sizeof nanoseconds);
  };
  WriteFile(offset, std::string(sizeof(int64_t), '\0'));
  OperatorProcess under_test(
      cluster.OperatorKubeconfig(), {},
      {"/usr/bin/env", "LD_PRELOAD=" DDP_CLOCK_SHIM, "DDP_CLOCK_OFFSET_FILE=" + offset});
  // More stories where they were told too quickly to be disturbed.
  constexpr int kJumps = 3;
  int jumps = 0;
  for (unsigned told = 0; jumps < kJumps && told < 10 * kAtOnce; told += kAtOnce) {
    Stories stories = Begin(seed + told, kAtOnce);
    int rounds = 0;
    Tell(stories, [&] {
      if (++rounds % 8 == 0) {
        jump_to(static_cast<int64_t>(random() % 480) - 240);
        ++jumps;
      }
    });
  }
  EXPECT_GE(jumps, kJumps);
  ASSERT_TRUE(under_test.process().Running()) << under_test.Log();
}

class Pair {
 public:
  explicit Pair(std::string kubeconfig) : kubeconfig_(std::move(kubeconfig)) {
    for (auto& member : members_) {
      member = Start();
    }
  }

  // Kills the one that holds the lease, and starts another in its place.
  void KillLeader(const std::string& holder) {
    for (auto& member : members_) {
      if (!holder.empty() && member->Log().find("\"" + holder + "\"") != std::string::npos) {
        member->process().Signal(SIGKILL);
        EXPECT_TRUE(member->process().Wait(seconds(10)));
        member = Start();
        ++killed_;
      }
    }
  }
  int killed() const { return killed_; }
  // One that found its lease lost has ended by itself, and is started again, as a Deployment would.
  void Revive() {
    for (auto& member : members_) {
      if (!member->process().Running()) {
        member = Start();
      }
    }
  }

 private:
  std::unique_ptr<OperatorProcess> Start() const {
    return std::make_unique<OperatorProcess>(
        kubeconfig_, std::vector<std::string>{"--leader-elect", "--lease-duration", "2"});
  }
  const std::string kubeconfig_;
  std::unique_ptr<OperatorProcess> members_[2];
  int killed_ = 0;
};

TEST(Chaos, TheLeaderOfTwoIsKilledAtRandomMoments) {
  Cluster& cluster = Cluster::Get();
  const unsigned seed = Seed();
  std::mt19937 random(seed);
  const kube::Resource leases{"coordination.k8s.io", "v1", "leases", "Lease"};
  Pair pair(cluster.OperatorKubeconfig());
  // As many stories as are asked for, and more where they were told too quickly to be disturbed.
  constexpr int kKills = 3;
  const unsigned wanted = Number("DDP_CHAOS_LEADERS", 10);
  for (unsigned told = 0; told < wanted || (pair.killed() < kKills && told < 10 * wanted);
       told += kAtOnce) {
    Stories stories = Begin(seed + told, kAtOnce);
    auto next = std::chrono::steady_clock::now();
    Tell(stories, [&] {
      pair.Revive();
      if (std::chrono::steady_clock::now() < next) {
        return;
      }
      const auto lease = cluster.admin().Get(leases, "ddp-system", "ddp-operator");
      pair.KillLeader(lease ? json::GetString(*lease, {"spec", "holderIdentity"}) : "");
      next = std::chrono::steady_clock::now() + milliseconds(3'500 + random() % 3'000);
    });
  }
  EXPECT_GE(pair.killed(), kKills);
}

double ResidentMib(pid_t process) {
  std::istringstream status(ReadFile(fmt::format("/proc/{}/status", process)));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) {
      return std::strtod(line.c_str() + 6, nullptr) / 1024;
    }
  }
  return 0;
}

class ChurnTest : public Scenario {
 protected:
  static std::string Name(unsigned i) { return fmt::format("churn-{}", i); }

  std::string PhaseOf(const std::string& name, int attempt) {
    const json::Json status = Read(kJobs, name)["status"];
    return json::GetInt(status, {"attempt"}) == attempt ? json::GetString(status, {"phase"}) : "";
  }
  void Suspend(const std::string& name, bool on) {
    ASSERT_TRUE(admin_.Patch(kJobs, namespace_, name, kube::PatchType::kMerge,
                             {{"spec", {{"suspend", on}}}}));
  }

  // One job: created, restarted, suspended, resumed, deleted in any phase. Returns true at its end.
  struct Life {
    std::string name;
    int chapter = 0;
  };
  bool Live(Life& life) {
    switch (life.chapter) {
      case 0: {
        json::Json job = Job(1, {{"restart", {{"maxBackoffSeconds", 1}}}});
        job["metadata"]["name"] = life.name;
        Create(job);
        break;
      }
      case 1:
        if (PhaseOf(life.name, 1) != "Running" || !kubelet_->End(life.name + "-1-0", 1)) {
          return false;
        }
        break;
      case 2:
        if (PhaseOf(life.name, 2) != "Running") {
          return false;
        }
        Suspend(life.name, true);
        break;
      case 3:
        if (PhaseOf(life.name, 2) != "Suspended") {
          return false;
        }
        Suspend(life.name, false);
        break;
      case 4: {
        if (PhaseOf(life.name, 3) != "Running") {
          return false;
        }
        const kube::Selection children{"ddpjob.dev/job-name=" + life.name, ""};
        kube::DeleteOptions now;
        now.grace_seconds = 0;
        EXPECT_TRUE(admin_.Delete(kJobs, namespace_, life.name));
        EXPECT_TRUE(admin_.DeleteCollection(kPods, namespace_, children, now));
        EXPECT_TRUE(admin_.Delete(kServices, namespace_, life.name));
        return true;
      }
    }
    ++life.chapter;
    return false;
  }
};

TEST_F(ChurnTest, MemoryStaysFlatWhileJobsComeAndGo) {
  const unsigned count = Number("DDP_CHAOS_CHURN", 500);
  constexpr size_t kJobsAtOnce = 25;
  OperatorProcess under_test(cluster_.OperatorKubeconfig());
  std::vector<Life> lives;
  unsigned begun = 0;
  unsigned ended = 0;
  double after_a_tenth = 0;
  const auto live_on = [&] {
    while (lives.size() < kJobsAtOnce && begun < count) {
      lives.push_back({Name(++begun)});
    }
    const size_t before = lives.size();
    std::erase_if(lives, [this](Life& life) { return Live(life); });
    ended += static_cast<unsigned>(before - lives.size());
    if (after_a_tenth == 0 && ended >= count / 10) {
      after_a_tenth = ResidentMib(under_test.process().pid());
    }
    return ended == count || HasFailure();
  };
  ASSERT_TRUE(Eventually(count * seconds(2), live_on, kPeriod)) << ended << " of " << count;
  const double at_the_end = ResidentMib(under_test.process().pid());
  std::cout << fmt::format("{} jobs: {:.1f} MiB after a tenth, {:.1f} MiB at the end\n", count,
                           after_a_tenth, at_the_end);
  EXPECT_LE(at_the_end, after_a_tenth * 1.05);
}

}  // namespace
}  // namespace ddp::integration
