#include "operator/ddpjob/kube_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "operator/api/names.h"
#include "operator/ddpjob/builders.h"

namespace ddp::job {
namespace {

using json::Json;
using kube::ApiError;
using kube::ApiResult;

// Requests under way at once for one job. The server's own fairness holds all clients together.
constexpr size_t kMaxParallel = 16;
constexpr size_t kMaxBatch = 512;

std::string AttemptSelector(const api::DDPJob& job, int attempt) {
  return fmt::format("{}={},{}={}", api::kJobUidLabel, job.metadata.uid, api::kAttemptLabel,
                     attempt);
}

bool IsOurs(const api::DDPJob& job, const Json& object) {
  const auto owner = ReadOwner(object);
  return owner && owner->uid == job.metadata.uid;
}

ApiResult<Json> CreateChild(kube::Client& client, const api::DDPJob& job,
                            const kube::Resource& resource, const Json& object,
                            const std::stop_token& stop) {
  return CreateOrGetOurs(
      client, resource, job.metadata.namespace_name, object,
      [&job](const Json& there) { return IsOurs(job, there); }, stop);
}

// What stands in the way of the pods, if the server said so; a server that says nothing is an error
// like any other.
void NoteRefusal(const ApiError& error, int attempt, Execution& result) {
  if (kube::IsNamespaceTerminating(error) || error.code == base::ErrorCode::kCancelled) {
    return;
  }
  if (error.http == 0) {
    result.error = error;
    return;
  }
  CreateFailure& failure = result.create_failure.emplace();
  failure.attempt = attempt;
  failure.message = error.message;
  result.retry_after = error.retry_after;
  if (error.code == base::ErrorCode::kInvalid) {
    failure.kind = CreateFailure::Kind::kRefused;
  } else if (error.code == base::ErrorCode::kAlreadyExists) {
    failure.kind = CreateFailure::Kind::kNameTaken;
  }
}

std::vector<const PodRecord*> PodsToDelete(const Observed& observed, const DeletePods& action) {
  std::vector<const PodRecord*> pods;
  for (const PodRecord& pod : observed.pods) {
    if (pod.attempt == action.attempt && !(action.keep_terminated && pod.terminated())) {
      pods.push_back(&pod);
    }
  }
  return pods;
}

}  // namespace

KubeExecutor::KubeExecutor(kube::Client client, OwnWrites& own_writes, controller::Metrics& metrics,
                           std::vector<std::string> namespaces, const base::Clock& clock)
    : client_(std::move(client)),
      extras_(client_, std::move(namespaces)),
      own_writes_(own_writes),
      clock_(clock),
      pods_created_(metrics.AddCounter("ddpjob_pods_created_total", "Pods created")),
      pods_refused_(
          metrics.AddCounter("ddpjob_pod_create_failures_total", "Pods that could not be created")),
      deletions_(metrics.AddCounter("ddpjob_attempt_deletions_total",
                                    "Deletions of an attempt's pods, one request each")),
      status_writes_(metrics.AddCounter("ddpjob_status_writes_total", "Status writes")),
      status_conflicts_(metrics.AddCounter("ddpjob_status_conflicts_total",
                                           "Status writes lost to another writer")) {}

ApiResult<api::DDPJob> KubeExecutor::WriteStatus(const api::DDPJob& job, const api::Status& status,
                                                 const std::stop_token& stop) {
  const api::Metadata& meta = job.metadata;
  // The spec is not sent: the server keeps its own in a write of the status subresource.
  const Json object = {{"apiVersion", api::kApiVersion},
                       {"kind", api::kKind},
                       {"metadata",
                        {{"name", meta.name},
                         {"namespace", meta.namespace_name},
                         {"uid", meta.uid},
                         {"resourceVersion", meta.resource_version}}},
                       {"status", api::StatusToJson(status)}};
  auto written =
      client_.Update(JobResource(), meta.namespace_name, meta.name, object, "status", stop);
  if (!written) {
    if (written.error().code == base::ErrorCode::kConflict) {
      status_conflicts_.Increment();
    }
    return written.error();
  }
  status_writes_.Increment();
  auto now = ReadJob(*written);
  if (!now) {
    return kube::NoAnswer({base::ErrorCode::kInternal, "the server answered with no DDPJob"});
  }
  own_writes_.WroteStatus(meta.resource_version, now->job);
  return std::move(now->job);
}

Execution KubeExecutor::Execute(const Observed& observed, const std::vector<Action>& actions,
                                const std::stop_token& stop) {
  Execution result;
  for (const Action& action : actions) {
    std::visit([&](const auto& typed) { Perform(observed, typed, stop, result); }, action);
    const bool blocked = std::any_of(result.extras.begin(), result.extras.end(), [](const auto& e) {
      return e.second.state != ExtraView::State::kThere;
    });
    if (result.error || result.create_failure || result.service_taken || blocked ||
        stop.stop_requested()) {
      break;
    }
  }
  return result;
}

bool KubeExecutor::ForeignServiceExists(const api::DDPJob& job, const std::stop_token& stop) {
  auto there = client_.Get(ServiceResource(), job.metadata.namespace_name, job.metadata.name, stop);
  if (!there) {
    return there.error().code != base::ErrorCode::kNotFound;
  }
  return !IsOurs(job, *there);
}

void KubeExecutor::Perform(const Observed& observed, const CreateService& /*action*/,
                           const std::stop_token& stop, Execution& result) {
  const api::DDPJob& job = observed.job;
  auto service = CreateChild(client_, job, ServiceResource(), BuildService(job), stop);
  if (service) {
    own_writes_.CreatedService(job.metadata.uid, json::GetString(*service, {"metadata", "uid"}));
  } else if (service.error().code == base::ErrorCode::kAlreadyExists) {
    result.service_taken = true;
  } else {
    result.error = service.error();
  }
}

std::optional<ApiError> KubeExecutor::CreatePod(const api::DDPJob& job, int attempt, int rank,
                                                const std::stop_token& stop) {
  const std::string name = api::PodName(job.metadata.name, attempt, rank);
  own_writes_.WillCreatePod(job.metadata.uid, name);
  auto pod = CreateChild(client_, job, PodResource(), BuildPod(job, attempt, rank), stop);
  auto record = pod ? ReadPod(*pod) : std::nullopt;
  if (record) {
    pods_created_.Increment();
    own_writes_.CreatedPod(job.metadata.uid, *std::move(record));
    return std::nullopt;
  }
  own_writes_.DidNotCreatePod(job.metadata.uid, name);
  pods_refused_.Increment();
  return pod ? kube::NoAnswer({base::ErrorCode::kInternal, "the server answered with no pod"})
             : pod.error();
}

// All of a batch at once, a bounded number under way; the first refusal keeps the rest from
// starting.
std::optional<ApiError> KubeExecutor::CreateBatch(const api::DDPJob& job, int attempt,
                                                  const std::vector<int>& ranks,
                                                  const std::stop_token& stop) {
  std::mutex mutex;
  std::optional<ApiError> refusal;
  std::atomic<size_t> next{0};
  std::atomic<bool> refused{false};
  const auto work = [&] {
    for (size_t i = next++; i < ranks.size() && !refused; i = next++) {
      if (auto no = CreatePod(job, attempt, ranks[i], stop)) {
        refused = true;
        std::lock_guard lock(mutex);
        refusal = std::move(no);
      }
    }
  };
  std::vector<std::jthread> helpers;
  for (size_t i = 1; i < std::min(ranks.size(), kMaxParallel); ++i) {
    helpers.emplace_back(work);
  }
  work();
  helpers.clear();
  return refusal;
}

void KubeExecutor::Perform(const Observed& observed, const CreatePods& action,
                           const std::stop_token& stop, Execution& result) {
  size_t batch = 1;
  for (size_t done = 0; done < action.ranks.size() && !stop.stop_requested();) {
    const size_t size = std::min(batch, action.ranks.size() - done);
    const auto first = action.ranks.begin() + static_cast<std::ptrdiff_t>(done);
    const std::vector<int> ranks(first, first + static_cast<std::ptrdiff_t>(size));
    auto refusal = CreateBatch(observed.job, action.attempt, ranks, stop);
    result.created_pods = result.created_pods || !refusal;
    if (refusal) {
      NoteRefusal(*refusal, action.attempt, result);
      return;
    }
    done += size;
    batch = std::min(batch * 2, kMaxBatch);
  }
}

void KubeExecutor::Perform(const Observed& observed, const DeletePods& action,
                           const std::stop_token& stop, Execution& result) {
  const api::DDPJob& job = observed.job;
  const std::vector<const PodRecord*> pods = PodsToDelete(observed, action);
  std::vector<std::string> uids;
  uids.reserve(pods.size());
  for (const PodRecord* pod : pods) {
    uids.push_back(pod->uid);
  }
  const auto grace =
      std::chrono::seconds(action.grace_seconds.value_or(api::kKubernetesGraceSeconds));
  own_writes_.WillDelete(job.metadata.uid, uids, clock_.Now() + grace);
  kube::DeleteOptions options;
  if (action.grace_seconds) {
    options.grace_seconds = *action.grace_seconds;
  }
  kube::Selection selection{AttemptSelector(job, action.attempt), ""};
  if (action.keep_terminated) {
    selection.fields = "status.phase!=Succeeded,status.phase!=Failed";
  }
  auto deleted = client_.DeleteCollection(PodResource(), job.metadata.namespace_name, selection,
                                          options, stop);
  deletions_.Increment();
  if (!deleted) {
    own_writes_.DidNotDelete(job.metadata.uid, uids);
    result.error = deleted.error();
  }
}

void KubeExecutor::Perform(const Observed& observed, const CreateExtra& action,
                           const std::stop_token& stop, Execution& result) {
  auto view = extras_.Create(observed.job, action.extra, action.attempt, stop);
  if (view) {
    result.extras[action.extra] = *view;
  } else {
    result.error = view.error();
  }
}

void KubeExecutor::Perform(const Observed& observed, const ForceDeletePod& action,
                           const std::stop_token& stop, Execution& result) {
  kube::DeleteOptions options;
  options.grace_seconds = 0;
  options.uid = action.uid;
  const auto deleted = client_.Delete(PodResource(), observed.job.metadata.namespace_name,
                                      action.name, options, stop);
  if (!deleted) {
    result.error = deleted.error();
  }
}

void KubeExecutor::Perform(const Observed& /*observed*/, const AskNodes& action,
                           const std::stop_token& stop, Execution& result) {
  static const kube::Resource nodes{"", "v1", "nodes", "Node"};
  for (const std::string& name : action.nodes) {
    const auto node = client_.Get(nodes, "", name, stop);
    if (!node && node.error().code == base::ErrorCode::kForbidden) {
      // An operator of one namespace may not look at nodes: what it does not know proves nothing.
      result.nodes[name] = {.time = clock_.Now()};
      continue;
    }
    if (!node && node.error().code != base::ErrorCode::kNotFound) {
      result.error = node.error();
      return;
    }
    result.nodes[name] = ReadNode(node ? &*node : nullptr, clock_.Now());
  }
}

void KubeExecutor::Perform(const Observed& observed, const DeleteJob& /*action*/,
                           const std::stop_token& stop, Execution& result) {
  const api::Metadata& meta = observed.job.metadata;
  kube::DeleteOptions options;
  options.uid = meta.uid;
  const auto deleted = client_.Delete(JobResource(), meta.namespace_name, meta.name, options, stop);
  if (!deleted) {
    result.error = deleted.error();
  }
}

}  // namespace ddp::job
