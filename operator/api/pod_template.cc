#include "operator/api/pod_template.h"

#include <charconv>

#include "operator/api/constants.h"
#include "operator/api/validate.h"

namespace ddp::api {
namespace {

// A whole number, given as such or as text; a quantity with a suffix is no count of GPUs.
int64_t Count(const Json& value) {
  if (value.is_number_integer()) {
    return value.get<int64_t>();
  }
  int64_t count = 0;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    std::from_chars(text.data(), text.data() + text.size(), count);
  }
  return count;
}

int64_t GpuLimit(const Json& worker) {
  const Json* limits = json::Find(worker, {"resources", "limits"});
  if (limits == nullptr || !limits->is_object()) {
    return 0;
  }
  for (const auto& [name, value] : limits->items()) {
    if (name.ends_with("/gpu")) {
      return Count(value);
    }
  }
  return 0;
}

std::string DataMountPath(const Json& worker) {
  const Json* mounts = json::Find(worker, {"volumeMounts"});
  if (mounts != nullptr && mounts->is_array()) {
    for (const Json& mount : *mounts) {
      if (json::GetString(mount, {"name"}) == kDataVolume) {
        return json::GetString(mount, {"mountPath"});
      }
    }
  }
  return "";
}

std::optional<int64_t> GracePeriod(const Json& given) {
  const Json* grace = json::Find(given, {"spec", "terminationGracePeriodSeconds"});
  return grace != nullptr && grace->is_number_integer() ? std::optional(grace->get<int64_t>())
                                                        : std::nullopt;
}

}  // namespace

PodTemplate::PodTemplate(const Json& given) {
  const Json* worker = FindWorker(given);
  kept_ = std::make_shared<const Kept>(
      Kept{.text = json::Compact(given),
           .host_network = json::GetBool(given, {"spec", "hostNetwork"}),
           .gpu_limit = worker != nullptr ? GpuLimit(*worker) : 0,
           .grace_period_seconds = GracePeriod(given),
           .priority_class = json::GetString(given, {"spec", "priorityClassName"}),
           .data_mount_path = worker != nullptr ? DataMountPath(*worker) : ""});
}

}  // namespace ddp::api
