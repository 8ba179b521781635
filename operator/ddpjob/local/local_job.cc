#include "operator/ddpjob/local/local_job.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <thread>

#include "operator/api/names.h"
#include "operator/api/validate.h"
#include "operator/ddpjob/local/expand.h"

namespace ddp::job {
namespace {

namespace fs = std::filesystem;
using api::Problem;
using json::Json;

// What the local body acts on; every other field of a pod is listed as without effect.
const std::set<std::string_view>& KnownPodFields() {
  static const std::set<std::string_view> fields = {"containers", "restartPolicy",
                                                    "terminationGracePeriodSeconds", "volumes"};
  return fields;
}
const std::set<std::string_view>& KnownWorkerFields() {
  static const std::set<std::string_view> fields = {"args", "command", "env", "name",
                                                    "volumeMounts"};
  return fields;
}

void ListUnknown(const Json& object, const std::set<std::string_view>& known,
                 std::vector<std::string>& out) {
  for (const auto& [name, value] : object.items()) {
    if (!known.contains(name) && std::find(out.begin(), out.end(), name) == out.end()) {
      out.push_back(name);
    }
  }
}

// What only a cluster can do is left out, so that the plan does not ask for it.
void LeaveOut(api::Spec& spec, std::vector<std::string>& out) {
  const api::Spec plain;
  const auto reset = [&out](const char* name, auto& field, const auto& value) {
    if (field != value) {
      out.emplace_back(name);
      field = value;
    }
  };
  reset("suspend", spec.suspend, plain.suspend);
  reset("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished,
        plain.ttl_seconds_after_finished);
  reset("cleanPodPolicy", spec.clean_pod_policy, plain.clean_pod_policy);
  reset("managedBy", spec.managed_by, plain.managed_by);
  reset("scheduling", spec.scheduling, plain.scheduling);
}

std::string WorkerPath(const Json& pod_template) {
  const Json& containers = pod_template["spec"]["containers"];
  const Json* worker = api::FindWorker(pod_template);
  return fmt::format("spec.template.spec.containers[{}]", worker - &containers.front());
}

void ReadWords(const Json& worker, const std::string& path, LocalJob& out,
               std::vector<Problem>& problems) {
  for (const char* field : {"command", "args"}) {
    const Json* list = json::Find(worker, {field});
    if (list == nullptr) {
      continue;
    }
    for (size_t i = 0; list->is_array() && i < list->size(); ++i) {
      if (!(*list)[i].is_string()) {
        problems.push_back(
            {fmt::format("{}.{}[{}]", path, field, i), "must be text: put it in quotes"});
        continue;
      }
      out.words.push_back((*list)[i].get<std::string>());
    }
  }
  const Json* command = json::Find(worker, {"command"});
  if (command == nullptr || !command->is_array() || command->empty()) {
    problems.push_back(
        {path + ".command", "is missing: a local run has no image that could bring one"});
  }
}

void ReadEnvironment(const Json& worker, const std::string& path, LocalJob& out,
                     std::vector<Problem>& problems) {
  const Json* list = json::Find(worker, {"env"});
  if (list == nullptr || !list->is_array()) {
    return;
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& variable = (*list)[i];
    const std::string name = json::GetString(variable, {"name"});
    const Json* value = json::Find(variable, {"value"});
    if (value != nullptr && !value->is_string()) {
      problems.push_back(
          {fmt::format("{}.env[{}].value", path, i), "must be text: put it in quotes"});
    } else if (variable.contains("valueFrom")) {
      out.without_effect.push_back(fmt::format("env {} (valueFrom)", name));
    } else if (!name.empty()) {
      out.environment.emplace_back(name, value != nullptr ? value->get<std::string>() : "");
    }
  }
}

std::optional<int> WrittenPort(const Json& manifest, const char* group) {
  const Json* port = json::Find(manifest, {"spec", group, "port"});
  return port != nullptr && port->is_number_integer() ? std::optional(port->get<int>())
                                                      : std::nullopt;
}

// A port that is free now. The worker binds it a moment later; should somebody else be quicker, the
// attempt fails and the next one chooses anew.
base::Result<int> FreePort() {
  const UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  // The sockets interface takes every kind of address through one type.
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (!probe || bind(probe.get(), any, size) != 0 || getsockname(probe.get(), any, &size) != 0) {
    return base::Error{base::ErrorCode::kUnavailable,
                       fmt::format("can't find a free port: {}", std::strerror(errno))};
  }
  return static_cast<int>(ntohs(address.sin_port));
}

// The machine's cores are shared by all ranks, which on a cluster have a node's share each.
void ShareCores(Variables& variables, int replicas) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  variables.emplace("OMP_NUM_THREADS", fmt::format("{}", std::max(1, cores / replicas)));
}

}  // namespace

base::Result<LocalJob, std::vector<Problem>> PrepareLocal(api::DDPJob job, const Json& manifest) {
  LocalJob out;
  std::vector<Problem> problems;
  const Json pod_template = job.spec.pod_template.Parsed();
  const Json& pod = pod_template["spec"];
  const Json& worker = *api::FindWorker(pod_template);
  const std::string path = WorkerPath(pod_template);
  ReadWords(worker, path, out, problems);
  ReadEnvironment(worker, path, out, problems);
  if (!problems.empty()) {
    return problems;
  }
  ListUnknown(pod, KnownPodFields(), out.without_effect);
  ListUnknown(worker, KnownWorkerFields(), out.without_effect);
  for (const Json& container : pod["containers"]) {
    if (&container != &worker) {
      out.without_effect.push_back(
          fmt::format("container {}", json::GetString(container, {"name"})));
    }
  }
  if (const Json* volumes = json::Find(pod, {"volumes"}); volumes != nullptr) {
    for (const Json& volume : *volumes) {
      out.volumes.push_back(json::GetString(volume, {"name"}));
      out.has_data_volume = out.has_data_volume || out.volumes.back() == api::kDataVolume;
    }
  }
  LeaveOut(job.spec, out.without_effect);
  out.written_rendezvous_port = WrittenPort(manifest, "rendezvous");
  out.written_progress_port = WrittenPort(manifest, "progress");
  out.job = std::move(job);
  return out;
}

base::Result<LocalPorts> ChoosePorts(const LocalJob& job) {
  LocalPorts ports;
  const auto choose = [](const std::optional<int>& written) {
    return written ? base::Result<int>(*written) : FreePort();
  };
  const auto rendezvous = choose(job.written_rendezvous_port);
  if (!rendezvous) {
    return rendezvous.error();
  }
  ports.rendezvous = *rendezvous;
  for (int rank = 0; rank < job.job.spec.replicas; ++rank) {
    // One machine has a written port once: rank 0 gets it.
    const auto port = choose(rank == 0 ? job.written_progress_port : std::nullopt);
    if (!port) {
      return port.error();
    }
    ports.progress.push_back(*port);
  }
  return ports;
}

base::Result<std::string> FindProgram(const std::string& name, const fs::path& own_folder,
                                      const std::string& path_variable) {
  const auto runs = [](const fs::path& path) {
    std::error_code error;
    return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    if (runs(name)) {
      return fs::absolute(name).string();
    }
    return base::Error{base::ErrorCode::kNotFound,
                       fmt::format("'{}' is not a program on this machine", name)};
  }
  if (name == "ddp-worker" && runs(own_folder / name)) {
    return (own_folder / name).string();
  }
  size_t begin = 0;
  while (begin <= path_variable.size()) {
    const size_t end = std::min(path_variable.find(':', begin), path_variable.size());
    const std::string folder = path_variable.substr(begin, end - begin);
    if (!folder.empty() && runs(fs::path(folder) / name)) {
      return (fs::path(folder) / name).string();
    }
    begin = end + 1;
  }
  return base::Error{
      base::ErrorCode::kNotFound,
      fmt::format("'{}' is not a program on this machine; looked in {}{}", name,
                  name == "ddp-worker" ? own_folder.string() + " and " : "", path_variable)};
}

Variables ProcessVariables() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (const size_t equals = text.find('='); equals != std::string_view::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

base::Result<RankCommand> BuildRankCommand(const LocalJob& local, int attempt, int rank,
                                           const LocalPorts& ports, const StateFolder& folder,
                                           const fs::path& own_folder, const Variables& inherited) {
  const api::DDPJob& job = local.job;
  api::RankPlace place;
  place.master_addr = "127.0.0.1";
  place.master_port = ports.rendezvous;
  place.progress_port = ports.progress[static_cast<size_t>(rank)];
  place.checkpoint_dir =
      folder.checkpoints() / fmt::format("{}-{}", job.metadata.namespace_name, job.metadata.name);
  place.data_dir = local.has_data_volume ? folder.Volume(api::kDataVolume).string() : "";
  // Only declared variables are known to $(…), each to those after it.
  Variables declared;
  for (const auto& [name, value] : api::RankEnv(job, attempt, rank, place)) {
    declared[name] = value;
  }
  for (const auto& [name, value] : local.environment) {
    declared[name] = Expand(value, declared);
  }
  Variables all = declared;
  all.insert(inherited.begin(), inherited.end());
  ShareCores(all, job.spec.replicas);

  RankCommand command;
  for (const std::string& word : local.words) {
    command.command.push_back(Expand(word, declared));
  }
  auto program = FindProgram(command.command.front(), own_folder, all["PATH"]);
  if (!program) {
    return program.error();
  }
  command.command.front() = *program;
  for (const auto& [name, value] : all) {
    command.environment.push_back(fmt::format("{}={}", name, value));
  }
  command.log = folder.LogOf(api::PodName(job.metadata.name, attempt, rank));
  command.pipe_output = rank == 0;
  command.lock_fd = folder.lock_fd();
  return command;
}

}  // namespace ddp::job
