#include "operator/api/names.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddp::api {

std::string PodName(std::string_view job, int attempt, int replica) {
  return fmt::format("{}-{}-{}", job, attempt, replica);
}

std::string MasterAddress(const Metadata& job, int attempt) {
  return fmt::format("{}.{}.{}.svc", PodName(job.name, attempt, 0), job.name, job.namespace_name);
}

size_t MaxJobNameLength(int replicas) {
  const size_t rank_digits = fmt::formatted_size("{}", std::max(replicas, 1) - 1);
  return kMaxLabelLength - (1 + kAttemptDigits) - rank_digits - 1;
}

bool IsDns1123Label(std::string_view name) {
  const auto alphanumeric = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= kMaxLabelLength && alphanumeric(name.front()) &&
         alphanumeric(name.back()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return alphanumeric(c) || c == '-'; });
}

bool IsDnsLabel(std::string_view name) {
  return IsDns1123Label(name) && name.front() >= 'a';  // digits sort before letters
}

std::map<std::string, std::string> JobLabels(const Metadata& job) {
  return {{kJobNameLabel, job.name}, {kJobUidLabel, job.uid}};
}

std::map<std::string, std::string> PodLabels(const Metadata& job, int attempt, int replica,
                                             int processes) {
  auto labels = JobLabels(job);
  labels[kAttemptLabel] = fmt::format("{}", attempt);
  labels[kReplicaLabel] = fmt::format("{}", replica);
  labels[kRankLabel] = fmt::format("{}", replica * processes);
  return labels;
}

std::string ClaimName(std::string_view job) { return fmt::format("{}-checkpoint", job); }

std::string PodGroupName(std::string_view job, int attempt) {
  return fmt::format("{}-{}", job, attempt);
}

}  // namespace ddp::api
