// Lines of a watch, whatever they say: the machine that follows a watch goes on, and whatever looks
// like an object of ours can be taken into a cache.
#include <string_view>

#include "operator/ddpjob/cached.h"
#include "operator/kube/line_decoder.h"
#include "operator/kube/watch_machine.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddp;
  kube::WatchState state;
  state.phase = kube::WatchState::Phase::kWatching;
  state.resource_version = "1";
  std::chrono::steady_clock::time_point now{std::chrono::hours(1)};
  kube::LineDecoder decoder;
  bool open = true;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)decoder.Feed(text, [&](std::string_view line) {
    if (!open) {
      return;
    }
    now += std::chrono::seconds(1);
    const auto output = kube::Step(state, kube::ParseWatchLine(line), now, 0.5);
    open = !output.next.has_value();  // a stream that is ended is read no further
    DDP_CHECK(output.delay >= std::chrono::milliseconds(0), "waits are not negative");
    for (const kube::ObjectEvent& event : output.events) {
      (void)job::ReadJob(event.object);
      (void)job::ReadCachedPod(event.object);
      (void)job::ReadCachedService(event.object);
    }
  });
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  return {
      R"({"type":"ADDED","object":{"apiVersion":"ddpjob.dev/v1alpha1","kind":"DDPJob","metadata":)"
      R"({"name":"a","namespace":"b","uid":"u","resourceVersion":"2","generation":1},"spec":)"
      R"({"replicas":2,"template":{"spec":{"containers":[{"name":"w"}]}}},"status":{"phase":)"
      R"("Running","attempt":1,"conditions":[{"type":"Ready","status":"True","lastTransitionTime":)"
      R"("2026-01-01T00:00:00Z"}],"failures":[{"rank":0,"exitCode":1}],"succeededRanks":"0-3,5"}}})"
      "\n",
      R"({"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"a-1-0","uid":"p","labels":)"
      R"({"ddpjob.dev/attempt":"1","ddpjob.dev/rank":"0","ddpjob.dev/replica":"0"},)"
      R"("ownerReferences":[{"apiVersion":"ddpjob.dev/v1alpha1","kind":"DDPJob","name":"a",)"
      R"("uid":"u","controller":true}],"resourceVersion":"3"},"spec":{"containers":[{"name":"w"}]},)"
      R"("status":{"phase":"Failed","podIP":"10.0.0.1","containerStatuses":[{"name":"w","state":)"
      R"({"terminated":{"exitCode":137,"reason":"OOMKilled","finishedAt":"2026-01-01T00:00:00Z"}}}]}}})"
      "\n",
      R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}})"
      "\n"
      R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}})"
      "\n",
      R"({"kind":"Status","code":500})"
      "\n[1]\nnonsense\n"};
}
