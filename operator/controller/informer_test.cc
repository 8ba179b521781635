#include "operator/controller/informer.h"

#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <thread>

namespace ddp::controller {
namespace {

struct Thing {
  std::string name;
  std::string owner;
};

json::Json Object(const std::string& name, const std::string& uid, const std::string& version,
                  const std::string& owner = "o") {
  return {{"metadata",
           {{"namespace", "ns"}, {"name", name}, {"uid", uid}, {"resourceVersion", version}}},
          {"owner", owner}};
}

// Answers lists and watches from a script, then stays silent until stopped.
class ScriptedSource : public kube::WatchSource {
 public:
  std::deque<kube::ListPage> lists;
  std::deque<std::vector<kube::WatchLine>> watches;

  kube::ApiResult<kube::ListPage> List(const kube::ListRequest& /*request*/,
                                       std::stop_token /*stop*/) override {
    kube::ListPage page = std::move(lists.front());
    lists.pop_front();
    return page;
  }
  kube::ApiResult<base::Done> Watch(const kube::WatchRequest& /*request*/, std::stop_token stop,
                                    const std::function<bool(kube::WatchLine)>& on_line) override {
    if (!watches.empty()) {
      const auto lines = std::move(watches.front());
      watches.pop_front();
      for (const kube::WatchLine& line : lines) {
        if (!on_line(line)) {
          return base::Done{};
        }
      }
    }
    if (watches.empty() && lists.empty()) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any().wait(lock, stop, [] { return false; });
    }
    return base::Done{};
  }
};

class InformerTest : public ::testing::Test {
 protected:
  // Runs until `count` changes were told; returns them as text.
  std::vector<std::string> Run(std::unique_ptr<ScriptedSource> source, size_t count) {
    informer_ = std::make_unique<Informer<Thing>>(
        "things", std::move(source),
        [](const json::Json& object) -> std::optional<Thing> {
          Thing thing{json::GetString(object, {"metadata", "name"}),
                      json::GetString(object, {"owner"})};
          return thing.owner == "nobody" ? std::nullopt : std::make_optional(thing);
        },
        [](const Thing& thing) { return thing.owner; },
        [this](const auto& before, const auto& now) {
          std::lock_guard lock(mutex_);
          if (now == nullptr) {
            last_owner_ = before->owner;
          }
          told_.push_back(before == nullptr ? "+" + now->name
                                            : (now == nullptr ? "-" : "~") + before->name);
          changed_.notify_all();
        });
    thread_ = std::jthread([this](std::stop_token stop) { informer_->Run(std::move(stop)); });
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return told_.size() >= count; });
    return told_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> told_;
  std::string last_owner_;  // of what is gone
  std::unique_ptr<Informer<Thing>> informer_;
  std::jthread thread_;
};

using Told = std::vector<std::string>;
const kube::WatchLine kGone{"ERROR", {{"kind", "Status"}, {"code", 410}}};

TEST_F(InformerTest, TellsListedAndWatchedChanges) {
  auto source = std::make_unique<ScriptedSource>();
  source->lists.push_back({{Object("a", "u1", "1")}, "", "5"});
  source->watches.push_back({{"ADDED", Object("b", "u2", "6")},
                             {"MODIFIED", Object("a", "u1", "7")},
                             {"ADDED", Object("c", "u3", "8", "nobody")},
                             {"DELETED", Object("b", "u2", "9", "new owner")}});
  EXPECT_EQ(Run(std::move(source), 4), (Told{"+a", "+b", "~a", "-b"}));
  EXPECT_EQ(last_owner_, "new owner") << "the deletion tells of the last state";
  EXPECT_TRUE(informer_->synced());
  EXPECT_TRUE(informer_->WaitForSync({}, std::chrono::steady_clock::now()));
  EXPECT_EQ(informer_->store().size(), 1U);
  EXPECT_EQ(informer_->store().Get("ns/a").version, "7");
  EXPECT_EQ(informer_->store().Get("ns/c").object, nullptr);
}

TEST_F(InformerTest, ARelistTellsMissedDeletesAndOnlyDifferences) {
  auto source = std::make_unique<ScriptedSource>();
  source->lists.push_back({{Object("same", "u1", "1"), Object("lost", "u2", "1"),
                            Object("again", "u3", "1"), Object("newer", "u4", "1")},
                           "",
                           "5"});
  source->watches.push_back({kGone});
  source->lists.push_back(
      {{Object("same", "u1", "1"), Object("again", "u9", "8"), Object("newer", "u4", "2")},
       "",
       "9"});
  Told told = Run(std::move(source), 8);
  ASSERT_EQ(told.size(), 8U);
  Told second(told.begin() + 4, told.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(second, (Told{"+again", "-again", "-lost", "~newer"}));
}

TEST_F(InformerTest, AnObjectThatChangesItsGroupIsFoundInTheNewOne) {
  auto source = std::make_unique<ScriptedSource>();
  source->lists.push_back({{Object("a", "u1", "1", "x"), Object("b", "u2", "1", "x")}, "", "5"});
  source->watches.push_back({{"MODIFIED", Object("a", "u1", "6", "y")}});
  Run(std::move(source), 3);
  EXPECT_EQ(informer_->store().ByGroup("x").size(), 1U);
  ASSERT_EQ(informer_->store().ByGroup("y").size(), 1U);
  EXPECT_EQ(informer_->store().ByGroup("y")[0].object->name, "a");
  EXPECT_TRUE(informer_->store().ByGroup("z").empty());
}

TEST(Informer, WhileItIsHeldTheStoreAndTheHandlerTellOfTheSameMoment) {
  auto source = std::make_unique<ScriptedSource>();
  source->lists.push_back({{Object("a", "u", "1")}, "", "5"});
  std::promise<void> entered;
  std::promise<void> go_on;
  std::atomic<size_t> told{0};
  Informer<Thing> informer(
      "things", std::move(source), [](const json::Json&) { return std::optional(Thing()); },
      nullptr,
      [&](const auto& /*before*/, const auto& /*now*/) {
        entered.set_value();  // the store has it by now
        go_on.get_future().wait();
        ++told;
      });
  std::jthread runner([&](std::stop_token stop) { informer.Run(std::move(stop)); });
  entered.get_future().wait();
  auto seen = std::async(std::launch::async, [&] {
    const auto hold = informer.Hold();
    return std::pair(informer.store().size(), told.load());
  });
  EXPECT_EQ(seen.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  go_on.set_value();
  EXPECT_EQ(seen.get(), std::pair(size_t{1}, size_t{1}));
}

TEST(Store, ReadersNeverSeeHalfOfAReplacement) {
  Store<int> store([](const int&) { return std::string("all"); });
  const auto content = [](int value) {
    Store<int>::Entries entries;
    for (int i = 0; i < 20; ++i) {
      entries[std::to_string(i)] = {"u", "1", std::make_shared<const int>(value)};
    }
    return entries;
  };
  store.Replace(content(0));
  std::atomic<bool> torn{false};
  {
    std::jthread reader([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const auto all = store.ByGroup("all");
        for (const auto& entry : all) {
          torn = torn || all.size() != 20 || *entry.object != *all.front().object;
        }
      }
    });
    for (int i = 1; i < 500; ++i) {
      store.Replace(content(i));
    }
  }
  EXPECT_FALSE(torn);
}

}  // namespace
}  // namespace ddp::controller
