#include "operator/kube/read_only.h"

#include <utility>

namespace ddp::kube {
namespace {

class ReadOnlyTransport : public HttpTransport {
 public:
  explicit ReadOnlyTransport(std::shared_ptr<HttpTransport> transport)
      : transport_(std::move(transport)) {}

  base::Result<HttpResponse> Send(const HttpRequest& request, std::stop_token stop) override {
    return request.method == "GET" ? transport_->Send(request, std::move(stop)) : Refuse(request);
  }
  base::Result<HttpResponse> Stream(
      const HttpRequest& request, std::stop_token stop,
      const std::function<bool(std::string_view)>& on_bytes) override {
    return request.method == "GET" ? transport_->Stream(request, std::move(stop), on_bytes)
                                   : Refuse(request);
  }

 private:
  static base::Result<HttpResponse> Refuse(const HttpRequest& request) {
    return base::Error{base::ErrorCode::kForbidden, "not sent, because this is a dry run: " +
                                                        request.method + " " + request.target};
  }

  const std::shared_ptr<HttpTransport> transport_;
};

}  // namespace

std::shared_ptr<HttpTransport> MakeReadOnly(std::shared_ptr<HttpTransport> transport) {
  return std::make_shared<ReadOnlyTransport>(std::move(transport));
}

}  // namespace ddp::kube
