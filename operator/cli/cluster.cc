#include "operator/cli/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "operator/api/text.h"
#include "operator/cli/exit_codes.h"
#include "operator/kube/config.h"
#include "operator/kube/watcher.h"

namespace ddp::cli {
namespace {

using base::ErrorCode;
using json::Json;

const kube::Resource kJobs{api::kGroup, api::kVersion, api::kPlural, api::kKind};
const kube::Resource kPods{"", "v1", "pods", "Pod"};
const kube::Resource kEvents{"", "v1", "events", "Event"};

constexpr std::chrono::seconds kDeadline{15};  // somebody sits in front of it

base::Result<JobObject, CliError> Read(Json object) {
  auto job = api::ParseJob(object);
  if (!job) {
    CliError error{kExitUnavailable, {}};
    for (const api::Problem& problem : job.error()) {
      error.lines.push_back(
          fmt::format("the job in the cluster is not understood: {}; is this "
                      "kubectl-ddp as new as the operator?",
                      api::ToString(problem)));
    }
    return error;
  }
  return JobObject{std::move(object), *std::move(job)};
}

std::string TimeOf(const Json& event) {
  for (const char* field : {"lastTimestamp", "eventTime"}) {
    if (std::string time = json::GetString(event, {field}); !time.empty()) {
      return time;
    }
  }
  return json::GetString(event, {"metadata", "creationTimestamp"});
}

}  // namespace

std::optional<std::string> Nearest(const std::string& name, const std::vector<std::string>& names) {
  constexpr size_t kFarthest = 3;
  std::optional<std::string> nearest;
  size_t least = std::min(kFarthest, name.size() / 2) + 1;
  for (const std::string& other : names) {
    const size_t distance = api::EditDistance(name, other, kFarthest);
    if (distance < least) {
      least = distance;
      nearest = other;
    }
  }
  return nearest;
}

Cluster::Result<Cluster> Cluster::Connect(const ClusterOptions& options) {
  auto config = kube::LoadConfig(options.kubeconfig, std::getenv, options.context);
  if (!config) {
    return CliError{kExitUnavailable, {config.error().message}};
  }
  auto transport = kube::MakeHttpTransport(
      config->ToTransportOptions(fmt::format("kubectl-ddp/{}", DDP_VERSION)));
  if (!transport) {
    return CliError{kExitUnavailable, {transport.error().message}};
  }
  kube::Client client(*std::move(transport), config->token);
  return Cluster(client.WithDeadline(kDeadline).WithFieldManager("kubectl-ddp"), config->server,
                 options.name_space.empty() ? config->default_namespace : options.name_space);
}

CliError Cluster::Explain(const kube::ApiError& error) const {
  if (error.http == 0) {
    return {kExitUnavailable,
            {fmt::format("can't talk to the API server {}: {}", server_, error.message)}};
  }
  switch (error.code) {
    case ErrorCode::kUnauthorized:
      return {kExitNoPermission,
              {fmt::format("{} refuses your credentials: {}", server_, error.message),
               "Log in again, or choose another context with --context."}};
    case ErrorCode::kForbidden:
      return {kExitNoPermission, {fmt::format("you may not do this: {}", error.message)}};
    case ErrorCode::kInvalid:
      return {kExitInvalid, {error.message}};
    case ErrorCode::kNotFound:
      if (error.reason.empty()) {
        return {kExitUnavailable,
                {fmt::format("{} knows no DDPJob: the resource is not installed there.", server_),
                 "Install it and the operator (kubectl apply -f manifests/crd, then kubectl apply "
                 "-k manifests/operator, or the Helm chart), or choose another cluster with "
                 "--context."}};
      }
      return {kExitNoInput, {error.message}};
    default:
      return {kExitUnavailable, {fmt::format("{}: {}", server_, error.message)}};
  }
}

CliError Cluster::NoSuchJob(const std::string& name) {
  CliError error{kExitNoInput,
                 {fmt::format("there is no DDPJob '{}' in namespace '{}'", name, namespace_)}};
  const auto names = Names();
  if (!names) {
    return error;  // that it can't be listed is not what was asked
  }
  if (const auto nearest = Nearest(name, *names)) {
    error.lines.push_back(fmt::format("Did you mean '{}'?", *nearest));
  } else if (names->empty()) {
    error.lines.emplace_back("There is none at all; is it in another namespace (-n)?");
  } else {
    constexpr size_t kMost = 5;
    const size_t shown = std::min(kMost, names->size());
    error.lines.push_back(fmt::format(
        "There {}: {}{}", names->size() == 1 ? "is" : "are",
        fmt::join(names->begin(), names->begin() + static_cast<std::ptrdiff_t>(shown), ", "),
        shown < names->size() ? fmt::format(" and {} more", names->size() - shown) : ""));
  }
  return error;
}

Cluster::Result<JobObject> Cluster::Get(const std::string& name) {
  auto object = client_.Get(kJobs, namespace_, name);
  if (object) {
    return Read(*std::move(object));
  }
  const kube::ApiError& error = object.error();
  return error.code == ErrorCode::kNotFound && !error.reason.empty() ? NoSuchJob(name)
                                                                     : Explain(error);
}

Cluster::Result<JobObject> Cluster::Patch(const std::string& name, const Json& patch) {
  auto object = client_.Patch(kJobs, namespace_, name, kube::PatchType::kMerge, patch);
  return object ? Read(*std::move(object)) : Result<JobObject>(Explain(object.error()));
}

Cluster::Result<std::vector<Json>> Cluster::List(const kube::Resource& resource,
                                                 const kube::Selection& selection) {
  std::vector<Json> all;
  kube::ListOptions options;
  options.selection = selection;
  do {
    auto page = client_.List(resource, namespace_, options);
    if (!page) {
      return Explain(page.error());
    }
    std::move(page->items.begin(), page->items.end(), std::back_inserter(all));
    options.continue_token = page->continue_token;
  } while (!options.continue_token.empty());
  return all;
}

Cluster::Result<std::vector<std::string>> Cluster::Names() {
  auto jobs = List(kJobs, {});
  if (!jobs) {
    return jobs.error();
  }
  std::vector<std::string> names;
  for (const Json& job : *jobs) {
    names.push_back(json::GetString(job, {"metadata", "name"}));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Cluster::Result<std::vector<Json>> Cluster::Pods(const api::DDPJob& job) {
  return List(kPods, {fmt::format("{}={}", api::kJobUidLabel, job.metadata.uid), ""});
}

Cluster::Result<std::vector<Json>> Cluster::Events(const api::DDPJob& job) {
  auto events = List(kEvents, {"", "involvedObject.uid=" + job.metadata.uid});
  if (events) {
    std::stable_sort(events->begin(), events->end(),
                     [](const Json& a, const Json& b) { return TimeOf(a) < TimeOf(b); });
  }
  return events;
}

Cluster::Result<JobObject> Cluster::WaitFor(const std::string& name, std::chrono::seconds timeout,
                                            const std::function<bool(const api::DDPJob&)>& done) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::optional<Result<JobObject>> newest(Get(name));  // tells what is wrong before any waiting
  if (!*newest || done((**newest).job)) {
    return *std::move(newest);
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  bool listed = false;
  const auto look = [&](const kube::ObjectEvent& event) {
    using Kind = kube::ObjectEvent::Kind;
    const std::lock_guard lock(mutex);
    if (over) {
      return;
    }
    if (event.kind == Kind::kInitStart) {
      listed = false;
    } else if (event.kind == Kind::kDelete || (event.kind == Kind::kInitDone && !listed)) {
      newest.emplace(CliError{kExitNoInput, {fmt::format("'{}' was deleted", name)}});
      over = true;
    } else if (event.kind != Kind::kInitDone) {
      listed = true;
      newest.emplace(Read(event.object));
      over = !*newest || done((**newest).job);
    }
    changed.notify_all();
  };
  const auto source =
      kube::MakeWatchSource(client_, kJobs, namespace_, {"", "metadata.name=" + name});
  std::jthread watching(
      [&](std::stop_token stop) { kube::Watcher("ddpjobs", *source).Run(std::move(stop), look); });
  std::unique_lock lock(mutex);
  if (!changed.wait_until(lock, deadline, [&over] { return over; })) {
    over = true;
    return CliError{kExitDeadline,
                    {fmt::format("{} s have passed, and '{}' is {}", timeout.count(), name,
                                 api::Name((**newest).job.status.phase))}};
  }
  return *std::move(newest);
}

}  // namespace ddp::cli
