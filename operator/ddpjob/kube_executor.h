// Carries out a plan's actions against an API server. One request a pod; rank 0 alone first,
// then a few and the service, then all the rest, a bounded number under way, so that a refused
// template costs one request and a thousand pods are not made one by one. Each write is announced
// to OwnWrites. Thread-safe: several workers, each with another job.
#pragma once

#include <stop_token>

#include "operator/controller/metrics.h"
#include "operator/ddpjob/kube_extras.h"
#include "operator/ddpjob/own_writes.h"
#include "operator/ddpjob/plan.h"
#include "operator/kube/client.h"

namespace ddp::job {

// What became of the actions. Plain data.
struct Execution {
  std::optional<CreateFailure> create_failure;  // of CreatePods
  std::optional<std::chrono::seconds> retry_after;
  bool created_pods = false;
  bool service_taken = false;           // a service of that name is somebody else's
  std::map<Extra, ExtraView> extras;    // of CreateExtra; one that blocks ended the actions
  NodeLooks nodes;                      // of AskNodes
  std::optional<kube::ApiError> error;  // of anything else; the rest was left undone
};

class KubeExecutor {
 public:
  // `namespaces`: see KubeExtras.
  KubeExecutor(kube::Client client, OwnWrites& own_writes, controller::Metrics& metrics,
               std::vector<std::string> namespaces = {},
               const base::Clock& clock = base::SystemClock());

  // In order; ends at the first that fails.
  Execution Execute(const Observed& observed, const std::vector<Action>& actions,
                    const std::stop_token& stop);
  // Writes the whole status on the condition that nobody wrote since `job` was read; returns the
  // job as it is then.
  kube::ApiResult<api::DDPJob> WriteStatus(const api::DDPJob& job, const api::Status& status,
                                           const std::stop_token& stop);
  // Whether the job's service name is still somebody else's; true when that can't be told.
  bool ForeignServiceExists(const api::DDPJob& job, const std::stop_token& stop);

 private:
  void Perform(const Observed& observed, const CreateService& action, const std::stop_token& stop,
               Execution& result);
  void Perform(const Observed& observed, const CreatePods& action, const std::stop_token& stop,
               Execution& result);
  void Perform(const Observed& observed, const DeletePods& action, const std::stop_token& stop,
               Execution& result);
  void Perform(const Observed& observed, const CreateExtra& action, const std::stop_token& stop,
               Execution& result);
  void Perform(const Observed& observed, const ForceDeletePod& action, const std::stop_token& stop,
               Execution& result);
  void Perform(const Observed& observed, const AskNodes& action, const std::stop_token& stop,
               Execution& result);
  void Perform(const Observed& observed, const DeleteJob& action, const std::stop_token& stop,
               Execution& result);
  void Create(const Observed& observed, const CreatePods& action, bool with_service,
              const std::stop_token& stop, Execution& result);
  std::optional<kube::ApiError> CreateBatch(const api::DDPJob& job, const json::Json& pod_template,
                                            int attempt, const std::vector<int>& ranks,
                                            bool with_service, const std::stop_token& stop,
                                            Execution& result);
  std::optional<kube::ApiError> NotePod(const api::DDPJob& job, int attempt, int rank,
                                        kube::ApiResult<json::Json> answer,
                                        const std::stop_token& stop);
  void NoteService(const api::DDPJob& job, kube::ApiResult<json::Json> answer,
                   const std::stop_token& stop, Execution& result);

  kube::Client client_;
  KubeExtras extras_;
  OwnWrites& own_writes_;
  const base::Clock& clock_;
  controller::Counter& pods_created_;
  controller::Counter& pods_refused_;
  controller::Counter& deletions_;
  controller::Counter& status_writes_;
  controller::Counter& status_conflicts_;
};

}  // namespace ddp::job
