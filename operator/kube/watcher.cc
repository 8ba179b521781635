#include "operator/kube/watcher.h"

#include <condition_variable>
#include <mutex>
#include <random>

#include "operator/base/log.h"
#include "operator/kube/line_decoder.h"

namespace ddp::kube {
namespace {

using json::Json;

class ClientWatchSource : public WatchSource {
 public:
  ClientWatchSource(Client client, Resource resource, std::string name_space, Selection selection,
                    json::Names leave_out)
      : client_(std::move(client)),
        resource_(std::move(resource)),
        namespace_(std::move(name_space)),
        selection_(std::move(selection)),
        leave_out_(std::move(leave_out)) {}

  bool may_stream() const override { return true; }

  ApiResult<ListPage> List(const ListRequest& request, std::stop_token stop) override {
    ListOptions options;
    options.selection = selection_;
    options.continue_token = request.continue_token;
    options.leave_out = leave_out_;
    return client_.List(resource_, namespace_, options, std::move(stop));
  }

  ApiResult<base::Done> Watch(const WatchRequest& request, std::stop_token stop,
                              const std::function<bool(WatchLine)>& on_line) override {
    WatchOptions options;
    options.selection = selection_;
    options.resource_version = request.resource_version;
    options.timeout_seconds = request.timeout_seconds;
    options.initial_events = request.initial_events;
    LineDecoder decoder;
    base::Result<base::Done> decoded = base::Done{};
    bool wanted = true;
    auto result =
        client_.Watch(resource_, namespace_, options, std::move(stop), [&](std::string_view bytes) {
          decoded = decoder.Feed(bytes, [&](std::string_view text) {
            if (wanted) {
              auto line = ParseWatchLine(text, leave_out_);
              wanted = on_line(std::move(line));
            }
          });
          return wanted && decoded;
        });
    if (!decoded) {
      return NoAnswer(decoded.error());
    }
    if (result && wanted && decoder.pending() > 0) {
      return NoAnswer({base::ErrorCode::kUnavailable, "the watch ended in the middle of a line"});
    }
    return result;
  }

 private:
  Client client_;
  const Resource resource_;
  const std::string namespace_;
  const Selection selection_;
  const json::Names leave_out_;
};

void WaitFor(std::chrono::milliseconds delay, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, delay, [] { return false; });
}

}  // namespace

std::unique_ptr<WatchSource> MakeWatchSource(Client client, Resource resource,
                                             std::string name_space, Selection selection,
                                             json::Names leave_out) {
  return std::make_unique<ClientWatchSource>(std::move(client), std::move(resource),
                                             std::move(name_space), std::move(selection),
                                             std::move(leave_out));
}

Watcher::Watcher(std::string name, WatchSource& source, const base::Clock& clock)
    : name_(std::move(name)),
      source_(source),
      clock_(clock),
      random_state_(std::random_device{}()) {
  if (!source.may_stream()) {
    state_.can_stream = false;
    state_.phase = WatchState::Phase::kListing;
  }
}

void Watcher::Run(std::stop_token stop, const std::function<void(ObjectEvent)>& handler) {
  WatchOutput out = FirstRequest(state_, Random());
  while (!stop.stop_requested()) {
    if (out.delay.count() > 0) {
      WaitFor(out.delay, stop);
      if (stop.stop_requested()) {
        return;
      }
    }
    const auto request = *std::move(out.next);
    if (const auto* list = std::get_if<ListRequest>(&request)) {
      out = PerformList(*list, stop);
    } else {
      out = PerformWatch(std::get<WatchRequest>(request), stop, handler);
    }
    for (ObjectEvent& event : out.events) {
      handler(std::move(event));
    }
    out.events.clear();
  }
}

WatchOutput Watcher::PerformList(const ListRequest& request, std::stop_token stop) {
  auto page = source_.List(request, std::move(stop));
  return page ? Feed(*std::move(page)) : Failed(page.error(), "list failed");
}

WatchOutput Watcher::PerformWatch(const WatchRequest& request, std::stop_token stop,
                                  const std::function<void(ObjectEvent)>& handler) {
  Feed(WatchStarted{});
  std::optional<WatchOutput> ended;
  auto result = source_.Watch(request, std::move(stop), [&](WatchLine line) {
    if (line.type == "ERROR") {
      base::Log(base::Level::kInfo, "watch got an error event",
                {{"resource", name_}, {"message", json::GetString(line.object, {"message"})}});
    }
    WatchOutput out = Feed(std::move(line));
    for (ObjectEvent& event : out.events) {
      handler(std::move(event));
    }
    if (out.next) {
      out.events.clear();
      ended = std::move(out);
    }
    return !ended;
  });
  if (ended) {
    return *std::move(ended);
  }
  return result ? Feed(WatchClosed{}) : Failed(result.error(), "watch failed");
}

WatchOutput Watcher::Failed(ApiError error, const char* what) {
  if (error.code != base::ErrorCode::kCancelled) {
    const bool loud =
        error.code == base::ErrorCode::kForbidden || error.code == base::ErrorCode::kUnauthorized;
    base::Log(loud ? base::Level::kError : base::Level::kInfo, what,
              {{"resource", name_}, {"code", Name(error.code)}, {"error", error.message}});
  }
  return Feed(RequestFailed{std::move(error)});
}

WatchOutput Watcher::Feed(WatchInput input) {
  return Step(state_, std::move(input), clock_.Steady(), Random());
}

double Watcher::Random() {
  std::minstd_rand generator(static_cast<std::minstd_rand::result_type>(random_state_));
  random_state_ = generator();
  return std::generate_canonical<double, 32>(generator);
}

}  // namespace ddp::kube
