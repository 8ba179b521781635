// What rank 0 of a job may answer to a pull.
#include <cmath>
#include <string_view>

#include "operator/ddpjob/progress/read_progress.h"
#include "tests/fuzz/fuzz.h"

namespace {

void CheckFinite(const std::optional<double>& value) {
  DDP_CHECK(!value || std::isfinite(*value), "what is kept is finite");
}

void CheckTime(const std::optional<ddp::api::TimePoint>& time) {
  DDP_CHECK(!time || ddp::base::ParseTime(ddp::base::FormatTime(*time)).value() == *time,
            "a time can be written and read again");
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto reply = ddp::job::ReadProgress({reinterpret_cast<const char*>(data), size});
  if (!reply) {
    DDP_CHECK(!reply.error().message.empty() && reply.error().message.size() < 100,
              "a refusal is a short sentence part");
    return 0;
  }
  const auto& progress = reply->progress;
  DDP_CHECK(progress.step >= 0, "steps count from 0");
  DDP_CHECK(!progress.percent || (*progress.percent >= 0 && *progress.percent <= 100), "percent");
  DDP_CHECK(!progress.eta_seconds || *progress.eta_seconds >= 0, "time left");
  DDP_CHECK(!progress.slowest_rank || *progress.slowest_rank >= 0, "slowest rank");
  CheckFinite(progress.loss);
  CheckFinite(progress.samples_per_second);
  CheckTime(progress.last_step_time);
  if (reply->checkpoint) {
    DDP_CHECK(reply->checkpoint->step >= 0, "checkpoint");
    CheckTime(reply->checkpoint->time);
  }
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  return {
      R"({"step":25,"totalSteps":100,"epoch":1,"epochs":4,"percent":25.0,"loss":0.5,)"
      R"("samplesPerSecond":640.0,"etaSeconds":7.5,"slowestRank":1,)"
      R"("lastStepTime":"2025-11-30T22:34:56Z","evalAccuracy":0.975,)"
      R"("checkpoint":{"step":20,"time":"2025-11-30T22:34:50.123+01:00","path":"/c"},)"
      R"("ranks":[{"rank":0,"step":25,"waitSeconds":1.5}]})",
      R"({"step":1e3,"totalSteps":-1,"percent":null,"etaSeconds":1e308,"slowestRank":2147483648})",
      R"({"step":9007199254740992,"lastStepTime":"0001-01-01T00:00:00Z","checkpoint":{}})"};
}
