// The one object behind leader election, coordination.k8s.io/v1 Lease, as a typed record.
// Thread-safe as its client is.
#pragma once

#include <chrono>
#include <string>

#include "operator/base/clock.h"
#include "operator/kube/client.h"

namespace ddp::kube {

struct LeaseRecord {
  std::string holder;  // empty: released
  std::chrono::seconds duration{0};
  base::TimePoint acquire_time{};
  base::TimePoint renew_time{};
  int transitions = 0;
  std::string resource_version;  // of the read; Update fails (kConflict) if it has changed since

  bool operator==(const LeaseRecord&) const = default;
};

class LeaseClient {
 public:
  LeaseClient() = default;
  LeaseClient(const LeaseClient&) = delete;
  LeaseClient& operator=(const LeaseClient&) = delete;
  virtual ~LeaseClient() = default;
  // Each gives up after `deadline`. Create and Update return what is stored.
  virtual ApiResult<LeaseRecord> Get(std::chrono::milliseconds deadline) = 0;
  virtual ApiResult<LeaseRecord> Create(const LeaseRecord& record,
                                        std::chrono::milliseconds deadline) = 0;
  virtual ApiResult<LeaseRecord> Update(const LeaseRecord& record,
                                        std::chrono::milliseconds deadline) = 0;
};

std::unique_ptr<LeaseClient> MakeLeaseClient(Client client, std::string name_space,
                                             std::string name);

}  // namespace ddp::kube
