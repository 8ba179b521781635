#include "operator/cli/progress_puller.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "operator/kube/transport.h"

namespace ddp::cli {
namespace {

constexpr std::chrono::milliseconds kInterval{500};
constexpr std::chrono::milliseconds kDeadline{2'000};
constexpr size_t kMaxBytes = size_t{64} * 1024;

std::unique_ptr<kube::HttpTransport> Connect(int port) {
  auto transport = kube::MakeHttpTransport({.server = fmt::format("http://127.0.0.1:{}", port),
                                            .ca = {},
                                            .client_certificate = {},
                                            .client_key = {},
                                            .user_agent = "kubectl-ddp",
                                            .idle_timeout = kDeadline,
                                            .max_body_bytes = kMaxBytes});
  return transport ? *std::move(transport) : nullptr;
}

}  // namespace

ProgressPuller::ProgressPuller()
    : news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this](const std::stop_token& stop) { Loop(stop); }) {}

void ProgressPuller::Watch(int port) {
  const std::lock_guard lock(mutex_);
  port_ = port;
  newest_.reset();
  changed_.notify_all();
}

std::optional<Progress> ProgressPuller::Take() {
  eventfd_t count = 0;
  (void)eventfd_read(news_.get(), &count);  // nothing to read is fine: then there is no news
  const std::lock_guard lock(mutex_);
  return newest_;
}

void ProgressPuller::Loop(const std::stop_token& stop) {
  std::unique_ptr<kube::HttpTransport> transport;
  int connected = 0;
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    changed_.wait(lock, stop, [this] { return port_ != 0; });
    const int port = port_;
    lock.unlock();
    if (port != connected) {
      transport = Connect(port);
      connected = port;
    }
    std::optional<Progress> progress;
    if (transport != nullptr && !stop.stop_requested()) {
      // An endpoint that is not there (yet) is no error: an image without it trains just as well.
      const auto answer = transport->Send({.method = "GET",
                                           .target = "/progress",
                                           .body = {},
                                           .content_type = {},
                                           .bearer = {},
                                           .deadline = kDeadline},
                                          stop);
      if (answer && answer->status == 200) {
        progress = ParseProgress(answer->body);
      }
    }
    lock.lock();
    if (progress && port == port_ && progress != newest_) {
      newest_ = progress;
      (void)eventfd_write(news_.get(), 1);  // full only if the reader has news already
    }
    changed_.wait_for(lock, stop, kInterval, [this, port] { return port_ != port; });
  }
}

}  // namespace ddp::cli
