#include "operator/ddpjob/kube_executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/api/names.h"
#include "operator/ddpjob/builders.h"

namespace ddp::job {
namespace {

using json::Json;
using kube::ApiError;
using kube::ApiResult;

// Requests under way at once for one job. The server's own fairness holds all clients together.
constexpr size_t kMaxParallel = 32;
// After rank 0 alone, and before all the rest: a quota that is used up costs few requests.
constexpr size_t kSecondBatch = 15;

std::string AttemptSelector(const api::DDPJob& job, int attempt) {
  return fmt::format("{}={},{}={}", api::kJobUidLabel, job.metadata.uid, api::kAttemptLabel,
                     attempt);
}

bool IsOurs(const api::DDPJob& job, const Json& object) {
  const auto owner = ReadOwner(object);
  return owner && owner->uid == job.metadata.uid;
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

// Pods of which only the phase does not say yet that they have ended, as terms of a field selector.
// The address of a request is limited: of very many that end in the same second some logs are lost.
std::string ButThoseThatEnd(const Observed& observed, const DeletePods& action) {
  constexpr size_t kMost = 4096;  // bytes; servers and proxies take 8 KiB and more
  std::string terms;
  for (const PodRecord& pod : observed.pods) {
    if (pod.attempt == action.attempt && pod.ended() && !pod.terminated() && terms.size() < kMost) {
      terms += ",metadata.name!=" + pod.name;
    }
  }
  return terms;
}

std::vector<const PodRecord*> PodsToDelete(const Observed& observed, const DeletePods& action) {
  std::vector<const PodRecord*> pods;
  for (const PodRecord& pod : observed.pods) {
    if (pod.attempt == action.attempt && !(action.keep_ended && pod.ended())) {
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
  auto written = client_.UpdateStatus(JobResource(), meta.namespace_name, meta.name, object, stop);
  if (!written) {
    if (written.error().code == base::ErrorCode::kConflict) {
      status_conflicts_.Increment();
    }
    return written.error();
  }
  status_writes_.Increment();
  // On the condition that nobody wrote in between: so all else is as it was.
  api::DDPJob now = job;
  now.metadata.resource_version = json::GetString(*written, {"metadata", "resourceVersion"});
  now.status = status;
  own_writes_.WroteStatus(meta.resource_version, now);
  return now;
}

Execution KubeExecutor::Execute(const Observed& observed, const std::vector<Action>& actions,
                                const std::stop_token& stop) {
  Execution result;
  for (size_t i = 0; i < actions.size(); ++i) {
    const bool both = i + 1 < actions.size() && std::holds_alternative<CreateService>(actions[i]) &&
                      std::holds_alternative<CreatePods>(actions[i + 1]);
    if (both) {  // pods need not wait for the service
      Create(observed, std::get<CreatePods>(actions[++i]), true, stop, result);
    } else {
      std::visit([&](const auto& typed) { Perform(observed, typed, stop, result); }, actions[i]);
    }
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

void KubeExecutor::NoteService(const api::DDPJob& job, ApiResult<Json> answer,
                               const std::stop_token& stop, Execution& result) {
  auto service = OursIfTaken(
      client_, ServiceResource(), job.metadata.namespace_name, job.metadata.name, std::move(answer),
      [&job](const Json& there) { return IsOurs(job, there); }, stop);
  if (service) {
    own_writes_.CreatedService(job.metadata.uid, json::GetString(*service, {"metadata", "uid"}));
  } else if (service.error().code == base::ErrorCode::kAlreadyExists) {
    result.service_taken = true;
  } else {
    result.error = service.error();
  }
}

void KubeExecutor::Perform(const Observed& observed, const CreateService& /*action*/,
                           const std::stop_token& stop, Execution& result) {
  const api::DDPJob& job = observed.job;
  NoteService(
      job, client_.Create(ServiceResource(), job.metadata.namespace_name, BuildService(job), stop),
      stop, result);
}

// The pod of a rank was asked for: what came of it. Nothing: it is there.
std::optional<ApiError> KubeExecutor::NotePod(const api::DDPJob& job, int attempt, int rank,
                                              ApiResult<Json> answer, const std::stop_token& stop) {
  PodRecord record;
  record.name = api::PodName(job.metadata.name, attempt, rank);
  record.attempt = attempt;
  record.rank = rank;
  if (answer) {
    record.uid = json::GetString(*answer, {"metadata", "uid"});
  } else {
    answer = OursIfTaken(
        client_, PodResource(), job.metadata.namespace_name, record.name, std::move(answer),
        [&job](const Json& there) { return IsOurs(job, there); }, stop);
    auto there = answer ? ReadPod(*answer) : std::nullopt;
    if (!there) {
      own_writes_.DidNotCreatePod(job.metadata.uid, record.name);
      pods_refused_.Increment();
      return answer
                 ? kube::NoAnswer({base::ErrorCode::kInternal, "the server answered with no pod"})
                 : answer.error();
    }
    record = *std::move(there);
  }
  pods_created_.Increment();
  own_writes_.CreatedPod(job.metadata.uid, std::move(record));
  return std::nullopt;
}

// All of a batch at once, a bounded number under way; the first refusal keeps the rest from
// starting. The service goes with the batch when it is due too.
std::optional<ApiError> KubeExecutor::CreateBatch(const api::DDPJob& job, const Json& pod_template,
                                                  int attempt, const std::vector<int>& ranks,
                                                  bool with_service, const std::stop_token& stop,
                                                  Execution& result) {
  std::optional<ApiError> refusal;
  client_.CreateMany(
      ranks.size() + (with_service ? 1 : 0),
      [&](size_t i) {
        const std::string& name_space = job.metadata.namespace_name;
        if (i == ranks.size()) {
          return kube::Client::Creation{&ServiceResource(), name_space, BuildService(job)};
        }
        const int rank = ranks[i];
        own_writes_.WillCreatePod(job.metadata.uid, api::PodName(job.metadata.name, attempt, rank));
        return kube::Client::Creation{&PodResource(), name_space,
                                      BuildPod(job, pod_template, attempt, rank)};
      },
      kMaxParallel, stop,
      [&](size_t i, ApiResult<Json> answer) {
        if (i == ranks.size()) {
          NoteService(job, std::move(answer), stop, result);
          return !result.error && !result.service_taken;
        }
        auto no = NotePod(job, attempt, ranks[i], std::move(answer), stop);
        result.created_pods = result.created_pods || !no;
        if (no && !refusal) {
          refusal = std::move(no);
        }
        return !refusal;
      });
  return refusal;
}

void KubeExecutor::Create(const Observed& observed, const CreatePods& action, bool with_service,
                          const std::stop_token& stop, Execution& result) {
  const Json pod_template = observed.job.spec.pod_template.Parsed();
  size_t batch = 1;
  for (size_t done = 0; done < action.ranks.size() && !stop.stop_requested();) {
    const size_t size = std::min(batch, action.ranks.size() - done);
    const auto first = action.ranks.begin() + static_cast<std::ptrdiff_t>(done);
    const std::vector<int> ranks(first, first + static_cast<std::ptrdiff_t>(size));
    // Rank 0 has the server for itself; where there are others, the service goes with them.
    const bool service_now = with_service && done == (action.ranks.size() > 1 ? 1 : 0);
    auto refusal =
        CreateBatch(observed.job, pod_template, action.attempt, ranks, service_now, stop, result);
    if (result.service_taken && result.created_pods) {
      // They would hold their GPUs while nothing can be done with them.
      Perform(observed, DeletePods{action.attempt, false, 0}, stop, result);
    }
    if (refusal) {
      NoteRefusal(*refusal, action.attempt, result);
    }
    if (refusal || result.error || result.service_taken) {
      return;
    }
    done += size;
    batch = batch == 1 ? kSecondBatch : action.ranks.size();
  }
}

void KubeExecutor::Perform(const Observed& observed, const CreatePods& action,
                           const std::stop_token& stop, Execution& result) {
  Create(observed, action, false, stop, result);
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
  if (action.keep_ended) {
    selection.fields =
        "status.phase!=Succeeded,status.phase!=Failed" + ButThoseThatEnd(observed, action);
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
