// Runs the watch machine against a server: one call of Run is one resource kept in view, on the
// calling thread, until stopped. Everything the handler hears comes on that thread, in order; the
// handler must not block (nothing pushes back on the stream: bytes would pile up in memory).
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "operator/base/clock.h"
#include "operator/kube/client.h"
#include "operator/kube/watch_machine.h"

namespace ddp::kube {

// The seam to the network; tests script it.
class WatchSource {
 public:
  WatchSource() = default;
  WatchSource(const WatchSource&) = delete;
  WatchSource& operator=(const WatchSource&) = delete;
  virtual ~WatchSource() = default;
  // Whether a watch may begin with what is there, instead of a list.
  virtual bool may_stream() const { return false; }
  virtual ApiResult<ListPage> List(const ListRequest& request, std::stop_token stop) = 0;
  // on_line returns false to end the stream.
  virtual ApiResult<base::Done> Watch(const WatchRequest& request, std::stop_token stop,
                                      const std::function<bool(WatchLine)>& on_line) = 0;
};

// One resource of an API server, in one namespace ("" for all), narrowed by a selection. Members
// with a name that is left out are not seen, wherever they stand in an object.
std::unique_ptr<WatchSource> MakeWatchSource(Client client, Resource resource,
                                             std::string name_space, Selection selection,
                                             json::Names leave_out = {"managedFields"});

class Watcher {
 public:
  // `name` is for logs: "pods". The source is borrowed.
  Watcher(std::string name, WatchSource& source, const base::Clock& clock = base::SystemClock());

  void Run(std::stop_token stop, const std::function<void(ObjectEvent)>& handler);

 private:
  WatchOutput PerformList(const ListRequest& request, std::stop_token stop);
  WatchOutput PerformWatch(const WatchRequest& request, std::stop_token stop,
                           const std::function<void(ObjectEvent)>& handler);
  WatchOutput Failed(ApiError error, const char* what);
  WatchOutput Feed(WatchInput input);
  double Random();

  const std::string name_;
  WatchSource& source_;
  const base::Clock& clock_;
  WatchState state_;
  uint64_t random_state_;
};

}  // namespace ddp::kube
