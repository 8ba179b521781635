// GETs of small answers from many peers that nobody vouches for, all on one thread. Whatever a peer
// does — says nothing, drips, never ends, redirects, sends headers without end — costs at most
// kDeadline of waiting and kMaxBytes of memory: no redirect is followed, no proxy is asked, no
// name is looked up, a connection is used once. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "operator/base/result.h"

namespace ddp::job {

struct HttpAddress {
  std::string ip;  // numeric, IPv4 or IPv6
  int port = 0;
  bool operator==(const HttpAddress&) const = default;
};

class HttpGetter {
 public:
  static constexpr std::chrono::milliseconds kDeadline{2'000};  // connect to last byte
  static constexpr size_t kMaxBytes = size_t{64} * 1024;        // of a body

  // The body of an answer with status 200, or a sentence part that says what happened instead: the
  // same words for the same trouble.
  using Done = std::function<void(base::Result<std::string>)>;
  using Clock = std::chrono::steady_clock;

  HttpGetter();
  HttpGetter(const HttpGetter&) = delete;
  HttpGetter& operator=(const HttpGetter&) = delete;
  ~HttpGetter();  // forgets what is under way: no callback runs any more

  // Both call back on the getter's thread, never from within the call itself.
  void Get(const HttpAddress& address, const std::string& target, Done done);
  // A later call replaces an earlier one that has not run yet.
  void WakeAt(Clock::time_point when, std::function<void()> then);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp::job
