#include "tests/integration/story.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace ddp::integration {
namespace {

using json::Json;

const kube::Resource kNamespaces{"", "v1", "namespaces", "Namespace"};
const kube::Resource kJobs{"ddpjob.dev", "v1alpha1", "ddpjobs", "DDPJob"};
const kube::Resource kPods{"", "v1", "pods", "Pod"};
const kube::Resource kServices{"", "v1", "services", "Service"};

std::string NextNamespace() {
  static int count = 0;
  return fmt::format("story-{}", ++count);
}

}  // namespace

Story::Story(Cluster& cluster, unsigned seed)
    : cluster_(cluster),
      admin_(cluster.admin()),
      seed_(seed),
      random_(seed),
      namespace_(NextNamespace()),
      replicas_(2 + static_cast<int>(random_() % 3)) {
  for (int i = 1 + static_cast<int>(random_() % 3); i > 0; --i) {
    troubles_.push_back(static_cast<Trouble>(random_() % 3));
  }
  const auto made = admin_.Create(
      kNamespaces, "",
      {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", namespace_}}}});
  DDP_CHECK(made.has_value(), made ? "" : made.error().message);
  kubelet_ = std::make_unique<FakeKubelet>(admin_, namespace_);
  const auto job = admin_.Create(kJobs, namespace_, Job());
  DDP_CHECK(job.has_value(), job ? "" : job.error().message);
}

Story::~Story() = default;

Json Story::Job() const {
  const Json container = {{"name", "worker"}, {"image", "example/train:1"}};
  Json spec = {{"replicas", replicas_},
               {"restart", {{"maxRestarts", 10}, {"maxBackoffSeconds", 1}}}};
  spec["template"]["spec"]["containers"] = Json::array({container});
  return {{"apiVersion", "ddpjob.dev/v1alpha1"},
          {"kind", "DDPJob"},
          {"metadata", {{"name", "train"}}},
          {"spec", std::move(spec)}};
}

Json Story::ReadStatus() {
  auto job = admin_.Get(kJobs, namespace_, "train");
  return job && job->contains("status") ? (*job)["status"] : Json::object();
}

size_t Story::Count(const char* plural) {
  const auto page = admin_.List({"", "v1", plural, ""}, namespace_, {});
  return page ? page->items.size() : 1;  // what can't be told is not gone
}

bool Story::Step() {
  if (done_) {
    return true;
  }
  const Json status = ReadStatus();
  const std::string phase = json::GetString(status, {"phase"});
  if (phase == "Succeeded" || phase == "Failed") {
    return done_ = true;
  }
  if (suspended_) {
    if (phase == "Suspended" && kubelet_->Running().empty()) {
      suspended_ = !admin_.Patch(kJobs, namespace_, "train", kube::PatchType::kMerge,
                                 {{"spec", {{"suspend", false}}}});
    }
    return false;
  }
  if (phase != "Running" || json::GetInt(status, {"attempt"}) != attempt_ ||
      kubelet_->Running().size() != static_cast<size_t>(replicas_)) {
    return false;
  }
  if (!troubles_.empty()) {
    Cause(troubles_.back());
    troubles_.pop_back();
    return false;
  }
  for (int rank = 0; rank < replicas_; ++rank) {
    kubelet_->End(fmt::format("train-{}-{}", attempt_, rank), 0);
  }
  return false;
}

void Story::Cause(Trouble trouble) {
  const std::string pod =
      fmt::format("train-{}-{}", attempt_, random_() % static_cast<unsigned>(replicas_));
  switch (trouble) {
    case Trouble::kFail:
      ASSERT_TRUE(kubelet_->End(pod, 1)) << pod;
      ++failed_;
      break;
    case Trouble::kDeletePod: {
      kube::DeleteOptions now;
      now.grace_seconds = 0;
      ASSERT_TRUE(admin_.Delete(kPods, namespace_, pod, now)) << pod;
      ++deleted_;
      break;
    }
    case Trouble::kSuspend:
      ASSERT_TRUE(admin_.Patch(kJobs, namespace_, "train", kube::PatchType::kMerge,
                               {{"spec", {{"suspend", true}}}}));
      suspended_ = true;
      break;
  }
  ++attempt_;
}

void Story::ExpectCalmEnd() {
  const Json status = ReadStatus();
  SCOPED_TRACE(fmt::format("DDP_TEST_SEED={} namespace {}: {}", seed_, namespace_, status.dump(1)));
  EXPECT_EQ(json::GetString(status, {"phase"}), "Succeeded");
  EXPECT_EQ(json::GetInt(status, {"attempt"}), attempt_);
  EXPECT_EQ(json::GetInt(status, {"restarts", "application"}), failed_);
  EXPECT_EQ(json::GetInt(status, {"restarts", "infrastructure"}), deleted_);
  EXPECT_EQ(json::GetInt(status, {"restarts", "preemption"}), 0);
  EXPECT_EQ(json::GetInt(status, {"restarts", "startup"}), 0);
  EXPECT_EQ(json::GetString(status, {"succeededRanks"}), fmt::format("0-{}", replicas_ - 1));
  const auto ever = kubelet_->Ever();
  EXPECT_EQ(ever.size(), static_cast<size_t>(attempt_ * replicas_));
  for (int attempt = 1; attempt <= attempt_; ++attempt) {
    for (int rank = 0; rank < replicas_; ++rank) {
      const std::string pod = fmt::format("train-{}-{}", attempt, rank);
      const auto it = ever.find(pod);
      EXPECT_EQ(it == ever.end() ? 0U : it->second.size(), 1U) << pod;
    }
  }
}

void Story::ExpectNothingLeft() {
  SCOPED_TRACE(fmt::format("DDP_TEST_SEED={} namespace {}", seed_, namespace_));
  ASSERT_TRUE(admin_.Delete(kJobs, namespace_, "train"));
  const auto collect = [this] {
    kube::DeleteOptions now;
    now.grace_seconds = 0;
    const kube::Selection all{"", "metadata.name!=none"};
    (void)admin_.DeleteCollection(kPods, namespace_, all, now);
    (void)admin_.DeleteCollection(kServices, namespace_, all);
  };
  collect();
  EXPECT_TRUE(Eventually(std::chrono::seconds(10), [&] {
    return Count("pods") + Count("services") == 0 || (collect(), false);
  }));
}

}  // namespace ddp::integration
