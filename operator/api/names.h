// Names and labels of what a job owns. Pure functions.
#pragma once

#include <map>
#include <string>

#include "operator/api/types.h"

namespace ddp::api {

std::string PodName(std::string_view job, int attempt, int replica);  // "<job>-<attempt>-<replica>"
// "<job>-<attempt>-0.<job>.<namespace>.svc": new in each attempt, so no cache holds the old
// address.
std::string MasterAddress(const Metadata& job, int attempt);
// The longest name a job may have for all its pods' names to be labels.
size_t MaxJobNameLength(int replicas);
// A DNS-1035 label of any allowed length: [a-z]([-a-z0-9]*[a-z0-9])?
bool IsDnsLabel(std::string_view name);
// A DNS-1123 label, which may start with a digit: namespaces, volumes, containers.
bool IsDns1123Label(std::string_view name);

std::map<std::string, std::string> JobLabels(const Metadata& job);  // of all its children
// `replica` is which pod of the attempt, `processes` how many ranks each has.
std::map<std::string, std::string> PodLabels(const Metadata& job, int attempt, int replica,
                                             int processes = 1);

std::string ClaimName(std::string_view job);                  // of a claim from a template
std::string PodGroupName(std::string_view job, int attempt);  // Kubernetes' and Kueue's

}  // namespace ddp::api
