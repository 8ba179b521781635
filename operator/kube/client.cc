#include "operator/kube/client.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace ddp::kube {
namespace {

using json::Json;

constexpr const char* kJsonType = "application/json";
// A server that has never heard of it sends the whole object.
constexpr const char* kMetadataOnly =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

std::string PercentEncode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~') {
      out += c;
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

class Query {
 public:
  void Add(std::string_view key, std::string_view value) {
    if (!value.empty()) {
      text_ += fmt::format("{}{}={}", text_.empty() ? '?' : '&', key, PercentEncode(value));
    }
  }
  void Add(const Selection& selection) {
    Add("labelSelector", selection.labels);
    Add("fieldSelector", selection.fields);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

const char* ContentType(PatchType type) {
  switch (type) {
    case PatchType::kMerge:
      return "application/merge-patch+json";
    case PatchType::kJson:
      return "application/json-patch+json";
    case PatchType::kStrategicMerge:
      return "application/strategic-merge-patch+json";
    case PatchType::kApply:
      return "application/apply-patch+yaml";
  }
  return kJsonType;
}

std::string DeleteBody(const DeleteOptions& options) {
  Json body = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  if (options.grace_seconds) {
    body["gracePeriodSeconds"] = *options.grace_seconds;
  }
  if (!options.uid.empty()) {
    body["preconditions"]["uid"] = options.uid;
  }
  if (!options.resource_version.empty()) {
    body["preconditions"]["resourceVersion"] = options.resource_version;
  }
  return json::Dump(body);
}

HttpRequest Request(std::string method, std::string target) {
  HttpRequest request;
  request.method = std::move(method);
  request.target = std::move(target);
  return request;
}

HttpRequest Request(std::string method, std::string target, std::string content_type,
                    std::string body) {
  HttpRequest request = Request(std::move(method), std::move(target));
  request.content_type = std::move(content_type);
  request.body = std::move(body);
  return request;
}

ApiResult<HttpResponse> Judge(base::Result<HttpResponse> response) {
  if (!response) {
    return NoAnswer(response.error());
  }
  if (response->status < 200 || response->status >= 300) {
    return ParseApiError(response->status, response->body, response->retry_after);
  }
  return *std::move(response);
}

ApiResult<Json> ReadJson(const std::string& name, const ApiResult<HttpResponse>& response,
                         const json::Names& leave_out = {}) {
  if (!response) {
    return response.error();
  }
  auto body = leave_out.empty() ? json::Parse(response->body)
                                : json::ParseWithout(response->body, leave_out);
  if (!body) {
    return NoAnswer({base::ErrorCode::kInternal,
                     fmt::format("{}: the answer is {}", name, body.error().message)});
  }
  return *std::move(body);
}

HttpRequest CreateRequest(const Resource& resource, std::string_view name_space, const Json& object,
                          const std::string& manager) {
  return Request(
      "POST",
      ResourcePath(resource, name_space) + "?fieldValidation=Strict&fieldManager=" + manager,
      kJsonType, json::Dump(object));
}

HttpRequest UpdateRequest(const Resource& resource, std::string_view name_space,
                          std::string_view name, const Json& object, std::string_view subresource,
                          const std::string& manager) {
  return Request("PUT",
                 ResourcePath(resource, name_space, name, subresource) +
                     "?fieldValidation=Strict&fieldManager=" + manager,
                 kJsonType, json::Dump(object));
}

ApiResult<base::Done> IgnoreGone(const ApiResult<Json>& result) {
  if (!result && result.error().code != base::ErrorCode::kNotFound) {
    return result.error();
  }
  return base::Done{};
}

}  // namespace

std::string ResourcePath(const Resource& resource, std::string_view name_space,
                         std::string_view name, std::string_view subresource) {
  std::string path = resource.group.empty()
                         ? fmt::format("/api/{}", resource.version)
                         : fmt::format("/apis/{}/{}", resource.group, resource.version);
  if (!name_space.empty()) {
    path += "/namespaces/" + PercentEncode(name_space);
  }
  path += "/" + resource.plural;
  if (!name.empty()) {
    path += "/" + PercentEncode(name);
  }
  if (!subresource.empty()) {
    path += "/" + PercentEncode(subresource);
  }
  return path;
}

HttpRequest Client::Prepared(HttpRequest request) const {
  request.deadline = deadline_;
  request.bearer = token_ != nullptr ? token_->Token() : "";
  return request;
}

void Client::Observe(const HttpRequest& request, const base::Result<HttpResponse>& response) const {
  if (observer_) {
    observer_(request.method, response ? std::to_string(response->status) : "<error>");
  }
}

ApiResult<HttpResponse> Client::Perform(HttpRequest request, const Exchange& exchange) {
  for (int attempt = 0;; ++attempt) {
    request = Prepared(std::move(request));
    auto response = exchange(request);
    Observe(request, response);
    if (response && response->status == 401 && attempt == 0 && token_ != nullptr &&
        token_->Refused(request.bearer)) {
      continue;
    }
    return Judge(std::move(response));
  }
}

ApiResult<Json> Client::SendJson(HttpRequest request, std::stop_token stop,
                                 const json::Names& leave_out) {
  const std::string name = request.method + " " + request.target;
  const auto response = Perform(
      std::move(request), [&](const HttpRequest& built) { return transport_->Send(built, stop); });
  return ReadJson(name, response, leave_out);
}

ApiResult<Json> Client::Get(const Resource& resource, std::string_view name_space,
                            std::string_view name, std::stop_token stop) {
  return SendJson(Request("GET", ResourcePath(resource, name_space, name)), std::move(stop));
}

ApiResult<Json> Client::GetPath(const std::string& path, std::stop_token stop) {
  return SendJson(Request("GET", path), std::move(stop));
}

ApiResult<ListPage> Client::List(const Resource& resource, std::string_view name_space,
                                 const ListOptions& options, std::stop_token stop) {
  Query query;
  query.Add("limit", std::to_string(options.limit));
  query.Add("continue", options.continue_token);
  query.Add(options.selection);
  auto body = SendJson(Request("GET", ResourcePath(resource, name_space) + query.text()),
                       std::move(stop), options.leave_out);
  if (!body) {
    return body.error();
  }
  ListPage page;
  page.continue_token = json::GetString(*body, {"metadata", "continue"});
  page.resource_version = json::GetString(*body, {"metadata", "resourceVersion"});
  const auto items = body->find("items");
  if (items != body->end() && items->is_array()) {
    page.items = std::move(items->get_ref<Json::array_t&>());
  }
  return page;
}

ApiResult<Json> Client::Create(const Resource& resource, std::string_view name_space,
                               const Json& object, std::stop_token stop) {
  return SendJson(CreateRequest(resource, name_space, object, field_manager_), std::move(stop));
}

void Client::CreateMany(size_t count, const std::function<Creation(size_t)>& make, size_t at_once,
                        std::stop_token stop,
                        const std::function<bool(size_t, ApiResult<Json>)>& on_answer) {
  std::map<size_t, HttpRequest> sent;  // by index, until answered
  transport_->SendMany(
      count,
      [&](size_t i) {
        const Creation creation = make(i);
        HttpRequest request =
            CreateRequest(*creation.resource, creation.name_space, creation.object, field_manager_);
        request.accept = kMetadataOnly;
        return sent[i] = Prepared(std::move(request));
      },
      at_once, stop,
      [&](size_t i, base::Result<HttpResponse> response) {
        HttpRequest request = std::move(sent.extract(i).mapped());
        Observe(request, response);
        if (response && response->status == 401 && token_ != nullptr &&
            token_->Refused(request.bearer)) {
          return on_answer(i, SendJson(std::move(request), stop));
        }
        const std::string name = request.method + " " + request.target;
        return on_answer(i, ReadJson(name, Judge(std::move(response))));
      });
}

ApiResult<Json> Client::UpdateStatus(const Resource& resource, std::string_view name_space,
                                     std::string_view name, const Json& object,
                                     std::stop_token stop) {
  HttpRequest request = UpdateRequest(resource, name_space, name, object, "status", field_manager_);
  request.accept = kMetadataOnly;
  return SendJson(std::move(request), std::move(stop));
}

ApiResult<Json> Client::Update(const Resource& resource, std::string_view name_space,
                               std::string_view name, const Json& object,
                               std::string_view subresource, std::stop_token stop) {
  return SendJson(UpdateRequest(resource, name_space, name, object, subresource, field_manager_),
                  std::move(stop));
}

ApiResult<Json> Client::Patch(const Resource& resource, std::string_view name_space,
                              std::string_view name, PatchType type, const Json& patch,
                              std::string_view subresource, std::stop_token stop) {
  std::string target = ResourcePath(resource, name_space, name, subresource) +
                       "?fieldValidation=Strict&fieldManager=" + field_manager_;
  if (type == PatchType::kApply) {
    target += "&force=true";
  }
  return SendJson(Request("PATCH", std::move(target), ContentType(type), json::Dump(patch)),
                  std::move(stop));
}

ApiResult<base::Done> Client::Delete(const Resource& resource, std::string_view name_space,
                                     std::string_view name, const DeleteOptions& options,
                                     std::stop_token stop) {
  return IgnoreGone(SendJson(
      Request("DELETE", ResourcePath(resource, name_space, name), kJsonType, DeleteBody(options)),
      std::move(stop)));
}

ApiResult<base::Done> Client::DeleteCollection(const Resource& resource,
                                               std::string_view name_space,
                                               const Selection& selection,
                                               const DeleteOptions& options, std::stop_token stop) {
  DDP_CHECK(!selection.labels.empty() || !selection.fields.empty(),
            "a collection without a selector would be everything");
  Query query;
  query.Add(selection);
  return IgnoreGone(SendJson(Request("DELETE", ResourcePath(resource, name_space) + query.text(),
                                     kJsonType, DeleteBody(options)),
                             std::move(stop)));
}

ApiResult<base::Done> Client::Watch(const Resource& resource, std::string_view name_space,
                                    const WatchOptions& options, std::stop_token stop,
                                    const std::function<bool(std::string_view)>& on_bytes) {
  Query query;
  query.Add("watch", "true");
  query.Add("allowWatchBookmarks", "true");
  query.Add("resourceVersion", options.resource_version);
  if (options.initial_events) {
    query.Add("sendInitialEvents", "true");
    query.Add("resourceVersionMatch", "NotOlderThan");
  }
  query.Add("timeoutSeconds", std::to_string(options.timeout_seconds));
  query.Add(options.selection);
  auto response =
      Perform(Request("GET", ResourcePath(resource, name_space) + query.text()),
              [&](const HttpRequest& built) { return transport_->Stream(built, stop, on_bytes); });
  if (!response) {
    return response.error();
  }
  return base::Done{};
}

ApiResult<base::Done> Client::ReadLog(std::string_view name_space, std::string_view pod,
                                      const LogOptions& options, std::stop_token stop,
                                      const std::function<bool(std::string_view)>& on_bytes) {
  static const Resource pods{"", "v1", "pods", "Pod"};
  Query query;
  query.Add("container", options.container);
  query.Add("follow", options.follow ? "true" : "");
  query.Add("tailLines", options.tail_lines ? std::to_string(*options.tail_lines) : "");
  query.Add("timestamps", options.timestamps ? "true" : "");
  query.Add("sinceTime", options.since_time);
  auto response =
      Perform(Request("GET", ResourcePath(pods, name_space, pod, "log") + query.text()),
              [&](const HttpRequest& built) { return transport_->Stream(built, stop, on_bytes); });
  if (!response) {
    return response.error();
  }
  return base::Done{};
}

}  // namespace ddp::kube
