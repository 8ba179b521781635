// Answers the status page's requests from the operator's caches: "/" and "/job/NAMESPACE/NAME".
// Reads only. Whoever asks under another name than this machine's own (a web page that points its
// name at 127.0.0.1) is refused. Thread-safe.
#pragma once

#include "operator/base/clock.h"
#include "operator/controller/http_server.h"
#include "operator/controller/store.h"
#include "operator/ddpjob/cached.h"
#include "operator/page/training_history.h"

namespace ddp::page {

// All borrowed.
controller::HttpServer::Handler StatusPage(const controller::Store<job::CachedJob>& jobs,
                                           TrainingHistory& history,
                                           const base::Clock& clock = base::SystemClock());

// "localhost", "127.0.0.1" or "[::1]", with any port: what a browser sends through a port-forward.
bool IsOwnHost(std::string_view host);

}  // namespace ddp::page
