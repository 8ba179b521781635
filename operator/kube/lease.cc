#include "operator/kube/lease.h"

namespace ddp::kube {
namespace {

using json::Json;

base::TimePoint TimeOrZero(const Json& object, const char* field) {
  const auto time = base::ParseTime(json::GetString(object, {"spec", field}));
  return time ? *time : base::TimePoint{};
}

LeaseRecord FromJson(const Json& object) {
  LeaseRecord record;
  record.holder = json::GetString(object, {"spec", "holderIdentity"});
  record.duration = std::chrono::seconds(json::GetInt(object, {"spec", "leaseDurationSeconds"}));
  record.acquire_time = TimeOrZero(object, "acquireTime");
  record.renew_time = TimeOrZero(object, "renewTime");
  record.transitions = static_cast<int>(json::GetInt(object, {"spec", "leaseTransitions"}));
  record.resource_version = json::GetString(object, {"metadata", "resourceVersion"});
  return record;
}

class KubeLeaseClient : public LeaseClient {
 public:
  KubeLeaseClient(Client client, std::string name_space, std::string name)
      : client_(std::move(client)), namespace_(std::move(name_space)), name_(std::move(name)) {}

  ApiResult<LeaseRecord> Get(std::chrono::milliseconds deadline) override {
    return Typed(client_.WithDeadline(deadline).Get(Leases(), namespace_, name_));
  }
  ApiResult<LeaseRecord> Create(const LeaseRecord& record,
                                std::chrono::milliseconds deadline) override {
    return Typed(client_.WithDeadline(deadline).Create(Leases(), namespace_, ToJson(record)));
  }
  ApiResult<LeaseRecord> Update(const LeaseRecord& record,
                                std::chrono::milliseconds deadline) override {
    return Typed(
        client_.WithDeadline(deadline).Update(Leases(), namespace_, name_, ToJson(record)));
  }

 private:
  static Resource Leases() { return {"coordination.k8s.io", "v1", "leases", "Lease"}; }

  static ApiResult<LeaseRecord> Typed(const ApiResult<Json>& object) {
    if (!object) {
      return object.error();
    }
    return FromJson(*object);
  }

  Json ToJson(const LeaseRecord& record) const {
    Json object = {{"apiVersion", "coordination.k8s.io/v1"},
                   {"kind", "Lease"},
                   {"metadata", {{"name", name_}, {"namespace", namespace_}}},
                   {"spec",
                    {{"holderIdentity", record.holder},
                     {"leaseDurationSeconds", record.duration.count()},
                     {"acquireTime", base::FormatMicroTime(record.acquire_time)},
                     {"renewTime", base::FormatMicroTime(record.renew_time)},
                     {"leaseTransitions", record.transitions}}}};
    if (!record.resource_version.empty()) {
      object["metadata"]["resourceVersion"] = record.resource_version;
    }
    return object;
  }

  Client client_;
  const std::string namespace_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<LeaseClient> MakeLeaseClient(Client client, std::string name_space,
                                             std::string name) {
  return std::make_unique<KubeLeaseClient>(std::move(client), std::move(name_space),
                                           std::move(name));
}

}  // namespace ddp::kube
