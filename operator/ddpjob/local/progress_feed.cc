#include "operator/ddpjob/local/progress_feed.h"

#include <sys/eventfd.h>

#include <utility>

namespace ddp::job {
namespace {

// Somebody looks at a progress bar.
constexpr std::chrono::milliseconds kInterval{500};

}  // namespace

PullOptions ProgressFeed::Options() {
  PullOptions options;
  options.shortest = kInterval;
  options.longest = kInterval;
  return options;
}

ProgressFeed::ProgressFeed()
    : news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      puller_({[this](const std::string& /*key*/) { Wake(); },
               [this](const std::string& /*key*/, const base::Result<ProgressReply>& reply) {
                 if (!reply) {
                   return;  // an image without it trains just as well
                 }
                 {
                   const std::lock_guard lock(mutex_);
                   newest_ = *reply;
                 }
                 Wake();
               }},
              Options()) {}

void ProgressFeed::Wake() const {
  (void)eventfd_write(news_.get(), 1);  // full only if the reader has news already
}

std::optional<ProgressReply> ProgressFeed::Take() {
  eventfd_t count = 0;
  (void)eventfd_read(news_.get(), &count);  // nothing to read is fine: then there is no news
  const std::lock_guard lock(mutex_);
  return std::exchange(newest_, std::nullopt);
}

}  // namespace ddp::job
