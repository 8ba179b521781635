// A transport that lets reading through and nothing else, whoever asks: what a dry run rests on.
#pragma once

#include <memory>

#include "operator/kube/transport.h"

namespace ddp::kube {

// Anything but GET is answered with kForbidden, without being sent.
std::shared_ptr<HttpTransport> MakeReadOnly(std::shared_ptr<HttpTransport> transport);

}  // namespace ddp::kube
