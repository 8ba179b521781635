#include "tests/integration/scenario.h"

#include <unistd.h>

namespace ddp::integration {
namespace {

const kube::Resource kNamespaces{"", "v1", "namespaces", "Namespace"};

std::string NextNamespace() {
  static int count = 0;
  return "test-" + std::to_string(++count);
}

}  // namespace

Scenario::Scenario() : namespace_(NextNamespace()) {
  auto created = admin_.Create(
      kNamespaces, "",
      {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", namespace_}}}});
  DDP_CHECK(created.has_value(), created ? "" : created.error().message);
  kubelet_ = std::make_unique<FakeKubelet>(admin_, namespace_);
}

Scenario::~Scenario() {
  kubelet_.reset();
  // Nothing of this test is left for the operators of the next ones.
  (void)admin_.DeleteCollection(kJobs, namespace_, {"", "metadata.name!=none"});
  kube::DeleteOptions now;
  now.grace_seconds = 0;
  (void)admin_.DeleteCollection(kPods, namespace_, {"", "metadata.name!=none"}, now);
}

json::Json Scenario::Job(int replicas, const json::Json& more) {
  json::Json spec = {
      {"replicas", replicas},
      {"template",
       {{"spec", {{"containers", {{{"name", "worker"}, {"image", "example/train:1"}}}}}}}}};
  spec.update(more);
  return {{"apiVersion", "ddpjob.dev/v1alpha1"},
          {"kind", "DDPJob"},
          {"metadata", {{"name", "train"}}},
          {"spec", std::move(spec)}};
}

void Scenario::Create(const json::Json& job) {
  auto created = admin_.Create(kJobs, namespace_, job);
  ASSERT_TRUE(created) << created.error().message;
}

json::Json Scenario::Read(const kube::Resource& resource, const std::string& name) {
  auto object = admin_.Get(resource, namespace_, name);
  return object ? *std::move(object) : json::Json::object();
}

void Scenario::WaitForPhase(const std::string& phase) {
  ASSERT_TRUE(Eventually(kLongest, [&] { return Phase() == phase; }))
      << "not " << phase << ": " << Read(kJobs, "train")["status"].dump(1);
}

void Scenario::WaitForRunningAttempt(int attempt, int replicas) {
  ASSERT_TRUE(Eventually(kLongest,
                         [&] {
                           const json::Json status = Read(kJobs, "train")["status"];
                           return json::GetInt(status, {"attempt"}) == attempt &&
                                  json::GetString(status, {"phase"}) == "Running" &&
                                  json::GetInt(status, {"replicas", "ready"}) == replicas;
                         }))
      << "attempt " << attempt << " does not run: " << Read(kJobs, "train")["status"].dump(1);
}

void Scenario::Change(const json::Json& spec) {
  auto changed =
      admin_.Patch(kJobs, namespace_, "train", kube::PatchType::kMerge, {{"spec", spec}});
  ASSERT_TRUE(changed) << changed.error().message;
}

std::string Scenario::WaitForReason(const std::string& condition, const std::string& reason) {
  std::string message;
  EXPECT_TRUE(Eventually(kLongest,
                         [&] {
                           const json::Json job = Read(kJobs, "train");
                           const json::Json* list = json::Find(job, {"status", "conditions"});
                           for (const json::Json& item :
                                list != nullptr ? *list : json::Json::array()) {
                             if (item["type"] == condition && item["reason"] == reason) {
                               message = item["message"];
                               return true;
                             }
                           }
                           return false;
                         }))
      << condition << " is not " << reason << ": " << Read(kJobs, "train")["status"].dump(1);
  return message;
}

std::set<std::string> Scenario::LivePods() {
  std::set<std::string> names;
  auto page = admin_.List(kPods, namespace_, {});
  for (const json::Json& pod : page ? page->items : std::vector<json::Json>{}) {
    if (!pod["metadata"].contains("deletionTimestamp")) {
      names.insert(json::GetString(pod, {"metadata", "name"}));
    }
  }
  return names;
}

void Scenario::EndAll(int attempt, int replicas, int exit_code) {
  for (int rank = 0; rank < replicas; ++rank) {
    ASSERT_TRUE(Eventually(kLongest, [&] { return kubelet_->End(Pod(attempt, rank), exit_code); }))
        << Pod(attempt, rank) << " is not there";
  }
}

void Scenario::WaitUntilGone(const std::string& pod) {
  EXPECT_TRUE(Eventually(kLongest, [&] { return Read(kPods, pod).empty(); }))
      << pod << " is still there";
}

void Scenario::ExpectNoPodMadeTwice() {
  for (const auto& [name, uids] : kubelet_->Ever()) {
    EXPECT_EQ(uids.size(), 1U) << name << " was made more than once";
  }
}

}  // namespace ddp::integration
