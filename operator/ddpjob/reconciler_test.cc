// The reconciler over a scripted API server. Its watches stay silent, so the caches are as stale as
// can be: whatever must hold under a stale cache, holds here.
#include "operator/ddpjob/reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>

#include "operator/ddpjob/builders.h"
#include "operator/ddpjob/testing.h"

namespace ddp::job {
namespace {

using controller::Outcome;
using json::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MakeJob;

const char* const kKey = "default/mnist";

Json Stored(const api::DDPJob& job) {
  return {{"apiVersion", api::kApiVersion},
          {"kind", api::kKind},
          {"metadata",
           {{"name", job.metadata.name},
            {"namespace", job.metadata.namespace_name},
            {"uid", job.metadata.uid},
            {"generation", job.metadata.generation},
            {"resourceVersion", "10"}}},
          {"spec", api::SpecToJson(job.spec)},
          {"status", api::StatusToJson(job.status)}};
}

std::string StatusBody(const std::string& reason, const std::string& message,
                       const Json& details = Json::object()) {
  return json::Dump(
      {{"kind", "Status"}, {"reason", reason}, {"message", message}, {"details", details}});
}

// Lists what the test put in; grants every write, but for the answers that the test scripted.
class FakeApi : public kube::HttpTransport {
 public:
  using Script = std::function<std::optional<kube::HttpResponse>(const kube::HttpRequest&)>;

  base::Result<kube::HttpResponse> Send(const kube::HttpRequest& request,
                                        std::stop_token /*stop*/) override {
    std::lock_guard lock(mutex);
    const std::string path = request.target.substr(0, request.target.find('?'));
    if (request.method == "GET" && request.target.find("limit=") != std::string::npos) {
      return List(path);
    }
    if (path.find("/events") == std::string::npos) {
      writes.push_back(request.method + " " + path.substr(path.find("/namespaces/default/") + 20));
    }
    if (script_) {
      if (auto answer = script_(request)) {
        return *std::move(answer);
      }
    }
    if (request.method == "GET") {
      return kube::HttpResponse{404, StatusBody("NotFound", "not there"), {}};
    }
    return kube::HttpResponse{200, Grant(request), {}};
  }
  base::Result<kube::HttpResponse> Stream(
      const kube::HttpRequest& request, std::stop_token stop,
      const std::function<bool(std::string_view)>& /*on_bytes*/) override {
    if (request.target.find("sendInitialEvents") != std::string::npos) {
      return kube::HttpResponse{422, StatusBody("Invalid", "not here"), {}};
    }
    std::mutex silence;
    std::unique_lock lock(silence);
    std::condition_variable_any().wait(lock, stop, [] { return false; });
    return base::Error{base::ErrorCode::kCancelled, "stopped"};
  }

  std::vector<std::string> TakeWrites() {
    std::lock_guard lock(mutex);
    return std::exchange(writes, {});
  }

  // The thread that writes events may be asking meanwhile.
  void Follow(Script script) {
    std::lock_guard lock(mutex);
    script_ = std::move(script);
  }

  std::mutex mutex;
  Json jobs = Json::array();
  Json pods = Json::array();
  Json last_status;
  std::vector<std::string> writes;

 private:
  base::Result<kube::HttpResponse> List(const std::string& path) const {
    const Json items = path.ends_with("ddpjobs") ? jobs
                       : path.ends_with("pods")  ? pods
                                                 : Json::array();
    return kube::HttpResponse{
        200, json::Dump({{"metadata", {{"resourceVersion", "10"}}}, {"items", items}}), {}};
  }
  std::string Grant(const kube::HttpRequest& request) {
    Json object = request.body.empty() ? Json::object() : *json::Parse(request.body);
    if (request.method == "POST") {
      object["metadata"]["uid"] = "uid-" + std::to_string(++version_);
    }
    if (request.method == "PUT") {
      last_status = object["status"];
      object["spec"] = jobs[0]["spec"];
      object["metadata"] = jobs[0]["metadata"];
    }
    object["metadata"]["resourceVersion"] = std::to_string(100 + ++version_);
    return json::Dump(object);
  }
  int version_ = 0;
  Script script_;
};

class ReconcilerTest : public ::testing::Test {
 protected:
  void Start(const api::DDPJob& job) {
    api_->jobs.push_back(Stored(job));
    for (controller::Source* source : {static_cast<controller::Source*>(&caches_.jobs()),
                                       static_cast<controller::Source*>(&caches_.pods()),
                                       static_cast<controller::Source*>(&caches_.services())}) {
      threads_.emplace_back([source](std::stop_token stop) { source->Run(std::move(stop)); });
      ASSERT_TRUE(
          source->WaitForSync({}, std::chrono::steady_clock::now() + std::chrono::seconds(20)));
    }
  }
  Outcome Turn() { return reconciler_.Reconcile(kKey, {}); }
  // Answers requests of a method whose path ends so.
  void Answer(const std::string& method, const std::string& end, int status,
              const std::string& body) {
    api_->Follow([=](const kube::HttpRequest& request) -> std::optional<kube::HttpResponse> {
      const std::string path = request.target.substr(0, request.target.find('?'));
      if (request.method == method && path.ends_with(end)) {
        return kube::HttpResponse{status, body, {}};
      }
      return std::nullopt;
    });
  }
  std::string Phase() const { return json::GetString(api_->last_status, {"phase"}); }
  std::string Progressing() const {
    for (const Json& condition : api_->last_status["conditions"]) {
      if (condition["type"] == "Progressing") {
        return condition["reason"].get<std::string>() + ": " +
               condition["message"].get<std::string>();
      }
    }
    return "";
  }

  std::shared_ptr<FakeApi> api_ = std::make_shared<FakeApi>();
  base::FakeClock clock_{testing::kStart};
  controller::Metrics metrics_;
  kube::Client client_{api_, nullptr};
  OwnWrites own_writes_{clock_};
  controller::WorkQueue queue_{"ddpjob", metrics_, clock_};
  Caches caches_{client_, "", queue_, own_writes_};
  KubeExecutor executor_{client_, own_writes_, metrics_, {}, clock_};
  controller::EventRecorder events_{client_, metrics_, "ddp-operator", "test"};
  JobReconciler reconciler_{
      caches_, own_writes_, executor_, events_, metrics_, JobReconciler::Options{}, clock_};
  std::vector<std::jthread> threads_;
};

TEST_F(ReconcilerTest, TheFirstAttemptBeginsWithRank0ThenTheOthersAndTheServiceThenOneStatus) {
  Start(MakeJob(2));
  EXPECT_TRUE(Turn().after) << "the status waits until other jobs have had their turn";
  EXPECT_THAT(api_->TakeWrites(), ElementsAre("POST pods", "POST pods", "POST services"));
  Turn();
  EXPECT_THAT(api_->TakeWrites(), ElementsAre("PUT ddpjobs/mnist/status"));
  EXPECT_FALSE(json::GetString(api_->last_status, {"podsCreatedTime"}).empty());
}

TEST_F(ReconcilerTest, AttemptsOfManyPodsBeginWithTheStatus) {
  Start(MakeJob(64));
  Turn();
  const auto writes = api_->TakeWrites();
  ASSERT_EQ(writes.size(), 66U);
  EXPECT_EQ(writes[0], "PUT ddpjobs/mnist/status");
  EXPECT_EQ(writes[1], "POST pods");
}

TEST_F(ReconcilerTest, AStaleCacheMakesNoPodTwice) {
  Start(MakeJob(8));
  Turn();
  Turn();
  EXPECT_EQ(api_->TakeWrites().size(), 10U);
  for (int i = 0; i < 5; ++i) {  // the caches show neither pods nor service nor the status
    Turn();
    EXPECT_THAT(api_->TakeWrites(), IsEmpty());
  }
}

TEST(ReadJob, WhatIsNoObjectIsNoJob) {
  for (const Json& odd : {Json("text"), Json(3), Json::array({1}), Json(), Json::object()}) {
    EXPECT_FALSE(ReadJob(odd)) << odd;
  }
}

TEST_F(ReconcilerTest, ADryRunWritesNothing) {
  JobReconciler dry_run(caches_, own_writes_, executor_, events_, metrics_, {.dry_run = true},
                        clock_);
  Start(MakeJob(2));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(dry_run.Reconcile(kKey, {}).kind, Outcome::Kind::kDone);
    clock_.Advance(std::chrono::minutes(1));
  }
  EXPECT_THAT(api_->TakeWrites(), IsEmpty());
}

TEST_F(ReconcilerTest, EndsAreCounted) {
  Start(MakeJob(1));
  Answer("POST", "/pods", 422, StatusBody("Invalid", "no"));
  Turn();
  Turn();
  Turn();
  EXPECT_EQ(Phase(), "Failed");
  EXPECT_THAT(metrics_.Text(), HasSubstr("ddpjob_jobs_finished_total{result=\"Failed\"} 1"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("ddpjob_jobs_finished_total{result=\"Succeeded\"} 0"));
}

TEST_F(ReconcilerTest, AConflictStopsTheTurnQuietly) {
  Start(MakeJob(2));
  Answer("PUT", "/status", 409, StatusBody("Conflict", "modified"));
  Turn();
  EXPECT_EQ(Turn().kind, Outcome::Kind::kConflict);
  EXPECT_EQ(api_->TakeWrites().back(), "PUT ddpjobs/mnist/status");
  Turn();  // what was created is not created again
  EXPECT_THAT(api_->TakeWrites(), ElementsAre("PUT ddpjobs/mnist/status"));
}

TEST_F(ReconcilerTest, ARefusedTemplateCostsOneRequestAndFailsTheJobWithTheServersSentence) {
  Start(MakeJob(64));
  Answer("POST", "/pods", 422, StatusBody("Invalid", "spec.containers[0].image: Required value"));
  Turn();
  EXPECT_THAT(api_->TakeWrites(), ElementsAre("PUT ddpjobs/mnist/status", "POST pods"));
  Turn();
  EXPECT_EQ(Phase(), "Failed");
  EXPECT_THAT(json::Dump(api_->last_status), HasSubstr("image: Required value"));
  api_->TakeWrites();
  clock_.Advance(std::chrono::hours(1));
  Turn();
  EXPECT_THAT(api_->TakeWrites(), IsEmpty());
}

TEST_F(ReconcilerTest, AQuotaIsReportedAndTriedAgainAfterAWhile) {
  Start(MakeJob(2));
  Answer("POST", "/pods", 403, StatusBody("Forbidden", "exceeded quota: gpus"));
  EXPECT_EQ(Turn().kind, Outcome::Kind::kDone);
  EXPECT_THAT(api_->TakeWrites(), ElementsAre("POST pods"));
  Turn();  // the service has no quota to wait for
  EXPECT_THAT(api_->TakeWrites(), ElementsAre("PUT ddpjobs/mnist/status", "POST services"));
  EXPECT_THAT(Progressing(), HasSubstr("exceeded quota"));
  Turn();
  EXPECT_THAT(api_->TakeWrites(), IsEmpty());
  api_->Follow(nullptr);
  clock_.Advance(api::kBlockedRetry);
  Turn();
  EXPECT_THAT(api_->TakeWrites(), ElementsAre("POST pods", "POST pods"));
}

TEST_F(ReconcilerTest, ATakenNameThatIsOursCountsAsCreated) {
  api::DDPJob job = MakeJob(1);
  Start(job);
  Json pod = BuildPod(job, 1, 0);
  pod["metadata"]["uid"] = "there";
  api_->Follow([pod](const kube::HttpRequest& request) -> std::optional<kube::HttpResponse> {
    if (request.target.find("/pods") == std::string::npos) {
      return std::nullopt;
    }
    return request.method == "POST"
               ? kube::HttpResponse{409, StatusBody("AlreadyExists", "exists"), {}}
               : kube::HttpResponse{200, json::Dump(pod), {}};
  });
  Turn();
  EXPECT_THAT(api_->TakeWrites(), ElementsAre("POST pods", "GET pods/mnist-1-0", "POST services"));
  Turn();
  EXPECT_THAT(api_->TakeWrites(), ElementsAre("PUT ddpjobs/mnist/status"));
  Turn();
  EXPECT_THAT(api_->TakeWrites(), IsEmpty());
}

TEST_F(ReconcilerTest, ATakenNameThatIsForeignRaisesTheAttempt) {
  Start(MakeJob(1));
  const Json foreign = {{"metadata", {{"name", "mnist-1-0"}, {"uid", "x"}}}};
  api_->Follow([foreign](const kube::HttpRequest& request) -> std::optional<kube::HttpResponse> {
    if (request.method == "POST" && request.body.find("\"mnist-1-0\"") != std::string::npos) {
      return kube::HttpResponse{409, StatusBody("AlreadyExists", "exists"), {}};
    }
    if (request.method == "GET") {
      return kube::HttpResponse{200, json::Dump(foreign), {}};
    }
    return std::nullopt;
  });
  Turn();
  Turn();
  Turn();
  EXPECT_EQ(json::GetInt(api_->last_status, {"attempt"}), 2);
  EXPECT_EQ(json::GetInt(api_->last_status, {"restarts", "application"}), 0);
  const auto writes = api_->TakeWrites();
  ASSERT_GT(writes.size(), 2U);
  EXPECT_EQ(writes[writes.size() - 2], "POST pods");
}

TEST_F(ReconcilerTest, AForeignServiceIsAConditionAndNoPodStays) {
  Start(MakeJob(2));
  api_->Follow([](const kube::HttpRequest& request) -> std::optional<kube::HttpResponse> {
    if (request.target.find("/services") == std::string::npos) {
      return std::nullopt;
    }
    return request.method == "POST"
               ? kube::HttpResponse{409, StatusBody("AlreadyExists", "exists"), {}}
               : kube::HttpResponse{200, R"({"metadata":{"name":"mnist"}})", {}};
  });
  Turn();
  Turn();
  EXPECT_THAT(Progressing(), HasSubstr("ServiceNameTaken"));
  EXPECT_THAT(api_->TakeWrites(),
              ElementsAre("POST pods", "POST pods", "POST services", "GET services/mnist",
                          "DELETE pods", "PUT ddpjobs/mnist/status"));
  clock_.Advance(api::kBlockedRetry);
  Turn();
  EXPECT_THAT(api_->TakeWrites(), ElementsAre("GET services/mnist"));
  api_->Follow(nullptr);
  clock_.Advance(2 * OwnWrites::kBelievedFor);  // no watch tells here that the pods have gone
  Turn();
  EXPECT_THAT(api_->TakeWrites(), ElementsAre("GET services/mnist", "PUT ddpjobs/mnist/status",
                                              "POST pods", "POST pods", "POST services"));
}

TEST_F(ReconcilerTest, ANamespaceThatEndsIsLeftAlone) {
  Start(MakeJob(2));
  Answer("POST", "/services", 403,
         StatusBody("Forbidden", "being terminated",
                    {{"causes", {{{"reason", "NamespaceTerminating"}}}}}));
  EXPECT_EQ(Turn().kind, Outcome::Kind::kDone);
}

TEST_F(ReconcilerTest, AFailureIsWrittenBeforeItsPodsAreDeletedByOneRequest) {
  api::DDPJob job = MakeJob(2);
  job.status.phase = api::Phase::kRunning;
  job.status.attempt = 1;
  job.status.start_time = job.status.pods_created_time = job.status.running_time = testing::kStart;
  for (const int rank : {0, 1}) {
    Json pod = BuildPod(job, 1, rank);
    pod["metadata"]["uid"] = "p" + std::to_string(rank);
    const Json ended = {{"terminated",
                         {{"exitCode", 1},
                          {"startedAt", base::FormatTime(testing::kStart)},
                          {"finishedAt", base::FormatTime(testing::kStart)}}}};
    const Json running = {{"running", Json::object()}};
    pod["status"] = {
        {"phase", rank == 1 ? "Failed" : "Running"},
        {"containerStatuses", {{{"name", "worker"}, {"state", rank == 1 ? ended : running}}}}};
    api_->pods.push_back(pod);
  }
  Start(job);
  Turn();
  EXPECT_EQ(Phase(), "Restarting");
  EXPECT_EQ(json::GetInt(api_->last_status, {"restarts", "application"}), 1);
  EXPECT_THAT(api_->TakeWrites(), ElementsAre("PUT ddpjobs/mnist/status", "DELETE pods"));
  Turn();
  // the cache still shows them running: not deleted again, not counted again
  EXPECT_THAT(api_->TakeWrites(), IsEmpty());
  EXPECT_EQ(json::GetInt(api_->last_status, {"restarts", "application"}), 1);
  EXPECT_THAT(metrics_.Text(), HasSubstr("ddpjob_restarts_total{cause=\"application\"} 1"));
}

TEST_F(ReconcilerTest, AJobThatIsNotThereIsDone) {
  Start(MakeJob(1));
  EXPECT_EQ(reconciler_.Reconcile("default/other", {}).kind, Outcome::Kind::kDone);
  EXPECT_THAT(api_->TakeWrites(), IsEmpty());
}

}  // namespace
}  // namespace ddp::job
