// The transports behind MakeHttpTransport. Only operator/kube includes this.
#pragma once

#include "operator/kube/transport.h"

namespace ddp::kube {

// By cpprestsdk: http:// servers, and those https:// servers that offer no HTTP/2. The options have
// been checked. One connection for each request under way.
base::Result<std::unique_ptr<HttpTransport>> MakeHttp1Transport(const TransportOptions& options);

}  // namespace ddp::kube
