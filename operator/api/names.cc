#include "operator/api/names.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddp::api {

std::string PodName(std::string_view job, int attempt, int rank) {
  return fmt::format("{}-{}-{}", job, attempt, rank);
}

std::string MasterAddress(const Metadata& job, int attempt) {
  return fmt::format("{}.{}.{}.svc", PodName(job.name, attempt, 0), job.name, job.namespace_name);
}

size_t MaxJobNameLength(int replicas) {
  const size_t rank_digits = fmt::formatted_size("{}", std::max(replicas - 1, 0));
  return kMaxLabelLength - (1 + kAttemptDigits) - rank_digits - 1;
}

bool IsDnsLabel(std::string_view name) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto inner = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '-'; };
  return !name.empty() && name.size() <= kMaxLabelLength && letter(name.front()) &&
         name.back() != '-' && std::all_of(name.begin(), name.end(), inner);
}

std::map<std::string, std::string> JobLabels(const Metadata& job) {
  return {{kJobNameLabel, job.name}, {kJobUidLabel, job.uid}};
}

std::map<std::string, std::string> PodLabels(const Metadata& job, int attempt, int rank) {
  auto labels = JobLabels(job);
  labels[kAttemptLabel] = fmt::format("{}", attempt);
  labels[kRankLabel] = fmt::format("{}", rank);
  return labels;
}

}  // namespace ddp::api
