// Typed paths to the resources of an API server: what to do is a method, where is a Resource.
// Bodies are JSON; each caller turns them into its own small types. Every failure is an ApiError.
// A 401 makes it read the token again and try once more. Thread-safe; blocks the calling thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "operator/json/json.h"
#include "operator/kube/error.h"
#include "operator/kube/token.h"
#include "operator/kube/transport.h"

namespace ddp::kube {

struct Resource {
  std::string group;  // "" for the core group
  std::string version;
  std::string plural;
  std::string kind;

  std::string ApiVersion() const { return group.empty() ? version : group + "/" + version; }
};

// "/apis/ddpjob.dev/v1alpha1/namespaces/default/ddpjobs/mnist/status"; parts left empty are left
// out: no namespace means all of them, no name the collection.
std::string ResourcePath(const Resource& resource, std::string_view name_space,
                         std::string_view name = "", std::string_view subresource = "");

struct Selection {
  std::string labels;  // "ddpjob.dev/job-uid=…,ddpjob.dev/attempt=3"
  std::string fields;
};

struct ListOptions {
  Selection selection;
  int limit = 500;
  std::string continue_token;
  json::Names leave_out;  // of each item
};

struct ListPage {
  std::vector<json::Json> items;
  std::string continue_token;  // empty: this was the last page
  std::string resource_version;
};

struct DeleteOptions {
  std::optional<int64_t> grace_seconds;
  std::string uid;               // precondition: delete only this very object
  std::string resource_version;  // precondition
};

struct WatchOptions {
  Selection selection;
  std::string resource_version;
  int timeout_seconds = 300;  // when the server ends it cleanly
  // Begins with what is there, then a bookmark that says so; resource_version is empty.
  bool initial_events = false;
};

struct LogOptions {
  std::string container;
  bool follow = false;
  std::optional<int64_t> tail_lines;
  bool timestamps = false;
  std::string since_time;  // RFC 3339
};

enum class PatchType { kMerge, kJson, kStrategicMerge, kApply };

class Client {
 public:
  // Called once per answered or failed request: for metrics. `code` is "200", … or "<error>".
  using Observer = std::function<void(std::string_view method, std::string_view code)>;

  Client(std::shared_ptr<HttpTransport> transport, std::shared_ptr<TokenSource> token,
         Observer observer = nullptr)
      : transport_(std::move(transport)),
        token_(std::move(token)),
        observer_(std::move(observer)) {}

  ApiResult<json::Json> Get(const Resource& resource, std::string_view name_space,
                            std::string_view name, std::stop_token stop = {});
  // What is no resource: the discovery documents, "/apis/scheduling.k8s.io".
  ApiResult<json::Json> GetPath(const std::string& path, std::stop_token stop = {});
  ApiResult<ListPage> List(const Resource& resource, std::string_view name_space,
                           const ListOptions& options, std::stop_token stop = {});
  // With strict field validation: an unknown or doubled field is kInvalid, not dropped.
  ApiResult<json::Json> Create(const Resource& resource, std::string_view name_space,
                               const json::Json& object, std::stop_token stop = {});
  // Several of them, the i-th made by `make` when its turn comes, at most `at_once` under way; the
  // answers, in the order in which they arrive, hold the objects' metadata only. When on_answer
  // returns false no more are begun.
  struct Creation {
    const Resource* resource = nullptr;
    std::string name_space;
    json::Json object;
  };
  void CreateMany(size_t count, const std::function<Creation(size_t)>& make, size_t at_once,
                  std::stop_token stop,
                  const std::function<bool(size_t, ApiResult<json::Json>)>& on_answer);
  // The answer holds the object's metadata only.
  ApiResult<json::Json> UpdateStatus(const Resource& resource, std::string_view name_space,
                                     std::string_view name, const json::Json& object,
                                     std::stop_token stop = {});
  ApiResult<json::Json> Update(const Resource& resource, std::string_view name_space,
                               std::string_view name, const json::Json& object,
                               std::string_view subresource = "", std::stop_token stop = {});
  ApiResult<json::Json> Patch(const Resource& resource, std::string_view name_space,
                              std::string_view name, PatchType type, const json::Json& patch,
                              std::string_view subresource = "", std::stop_token stop = {});
  // What is already gone is deleted: kNotFound never comes back from these two.
  ApiResult<base::Done> Delete(const Resource& resource, std::string_view name_space,
                               std::string_view name, const DeleteOptions& options = {},
                               std::stop_token stop = {});
  ApiResult<base::Done> DeleteCollection(const Resource& resource, std::string_view name_space,
                                         const Selection& selection,
                                         const DeleteOptions& options = {},
                                         std::stop_token stop = {});
  // Hands over the raw stream; see LineDecoder. Returns when the server ends it cleanly.
  ApiResult<base::Done> Watch(const Resource& resource, std::string_view name_space,
                              const WatchOptions& options, std::stop_token stop,
                              const std::function<bool(std::string_view)>& on_bytes);

  // A container's log as text, piece by piece; returns at its end, with `follow` when the container
  // ends.
  ApiResult<base::Done> ReadLog(std::string_view name_space, std::string_view pod,
                                const LogOptions& options, std::stop_token stop,
                                const std::function<bool(std::string_view)>& on_bytes);

  // Who is said to have made a change.
  Client WithFieldManager(std::string name) const {
    Client copy = *this;
    copy.field_manager_ = std::move(name);
    return copy;
  }
  // The deadline of each call but Watch and ReadLog; calls that guard a lease want less.
  Client WithDeadline(std::chrono::milliseconds deadline) const {
    Client copy = *this;
    copy.deadline_ = deadline;
    return copy;
  }

 private:
  using Exchange = std::function<base::Result<HttpResponse>(const HttpRequest&)>;
  ApiResult<HttpResponse> Perform(HttpRequest request, const Exchange& exchange);
  HttpRequest Prepared(HttpRequest request) const;
  void Observe(const HttpRequest& request, const base::Result<HttpResponse>& response) const;
  ApiResult<json::Json> SendJson(HttpRequest request, std::stop_token stop,
                                 const json::Names& leave_out = {});

  std::shared_ptr<HttpTransport> transport_;
  std::shared_ptr<TokenSource> token_;
  Observer observer_;
  std::chrono::milliseconds deadline_{30'000};
  std::string field_manager_ = "ddp-operator";
};

}  // namespace ddp::kube
