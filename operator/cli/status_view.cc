#include "operator/cli/status_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "operator/api/text.h"
#include "operator/cli/progress.h"

namespace ddp::cli {
namespace {

using api::Phase;
using api::TimePoint;
using job::PodRecord;

constexpr size_t kMaxPods = 16;      // shown one by one
constexpr size_t kMaxEvents = 8;     // the newest
constexpr size_t kMaxLogLines = 10;  // of a failure

std::string Ago(const std::optional<TimePoint>& time, TimePoint now) {
  return time ? Age(now - *time) + " ago" : "";
}

// What a pod is doing, in a few words.
std::string StateOf(const PodRecord& pod) {
  if (pod.deletion_time) {
    return "being deleted";
  }
  if (pod.succeeded()) {
    return "succeeded";
  }
  if (pod.failed()) {
    const std::string reason = pod.reason.empty() ? "failed" : pod.reason;
    return pod.exit_code ? fmt::format("{}, exit code {}", reason, *pod.exit_code) : reason;
  }
  if (pod.started) {
    return pod.ready ? "ready" : "running, not ready";
  }
  if (!pod.reason.empty()) {
    return pod.reason;
  }
  return pod.node.empty() ? "waits for a node" : "starting";
}

// Lines of columns that are as wide as they need to be.
class Table {
 public:
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string Text(std::string_view margin, size_t columns) const {
    std::vector<size_t> widths;
    for (const auto& row : rows_) {
      widths.resize(std::max(widths.size(), row.size()));
      for (size_t i = 0; i < row.size(); ++i) {
        widths[i] = std::max(widths[i], row[i].size());
      }
    }
    std::string text;
    for (const auto& row : rows_) {
      std::string line(margin);
      for (size_t i = 0; i < row.size(); ++i) {
        line += i + 1 < row.size() ? fmt::format("{:<{}}  ", row[i], widths[i]) : row[i];
      }
      text += api::Cut(line, columns) + "\n";
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::vector<std::string> LinesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

class Writer {
 public:
  Writer(const StatusView& view, TimePoint now, size_t columns)
      : view_(view), status_(view.job.status), now_(now), columns_(columns) {}

  std::string Write() {
    Head();
    Progress();
    Pods();
    Restarts();
    Failure();
    Conditions();
    Events();
    for (const std::string& note : view_.notes) {
      text_ += fmt::format("({})\n", note);
    }
    return std::move(text_);
  }

 private:
  void Head() {
    const api::Metadata& meta = view_.job.metadata;
    text_ += fmt::format("{}/{}: {}", meta.namespace_name, meta.name, api::Name(status_.phase));
    if (status_.attempt > 0) {
      text_ += fmt::format(", attempt {}", status_.attempt);
    }
    if (status_.finished() && status_.start_time && status_.completion_time) {
      text_ +=
          fmt::format(", took {}, ended {}", Age(*status_.completion_time - *status_.start_time),
                      Ago(status_.completion_time, now_));
    } else if (status_.phase == Phase::kRunning && status_.running_time) {
      text_ += fmt::format(" for {}", Age(now_ - *status_.running_time));
    }
    if (meta.creation_time) {
      text_ += fmt::format("; created {}", Ago(meta.creation_time, now_));
    }
    text_ += "\n";
    if (view_.job.spec.suspend && status_.phase != Phase::kSuspended && !status_.finished()) {
      text_ += "spec.suspend is set: it is being suspended\n";
    }
    Reason();
  }

  // Why it is not simply running.
  void Reason() {
    const char* type = status_.phase == Phase::kFailed      ? api::kConditionFailed
                       : status_.phase == Phase::kSuspended ? api::kConditionSuspended
                                                            : api::kConditionProgressing;
    const api::Condition* condition = api::FindCondition(status_, type);
    if (condition != nullptr && status_.phase != Phase::kSucceeded &&
        status_.phase != Phase::kRunning && !condition->message.empty()) {
      text_ += fmt::format("{}: {}\n", condition->reason, condition->message);
    }
  }

  void Progress() {
    if (status_.progress) {
      text_ += Bar(*status_.progress, std::nullopt, columns_) + "\n";
      if (status_.progress->last_step_time && !status_.finished()) {
        text_ += fmt::format("last step {}", Ago(status_.progress->last_step_time, now_));
        if (status_.progress->slowest_rank) {
          text_ += fmt::format(", slowest is rank {}", *status_.progress->slowest_rank);
        }
        text_ += "\n";
      }
    }
    if (status_.checkpoint) {
      text_ += fmt::format(
          "checkpoint: step {}{}\n", status_.checkpoint->step,
          status_.checkpoint->time ? ", " + Ago(status_.checkpoint->time, now_) : std::string());
    }
  }

  void Pods() {
    const api::ReplicaCounts& counts = status_.replicas;
    text_ += fmt::format("pods: {}/{} ready", counts.ready, view_.job.spec.replicas);
    if (counts.succeeded > 0) {
      text_ += fmt::format(", {} succeeded", counts.succeeded);
    }
    if (counts.failed > 0) {
      text_ += fmt::format(", {} failed", counts.failed);
    }
    if (!status_.succeeded_ranks.empty() && !status_.finished()) {
      text_ += fmt::format("; done: {}", status_.succeeded_ranks.ToString());
    }
    text_ += "\n";
    std::vector<const PodRecord*> shown;
    for (const PodRecord& pod : view_.pods) {
      if (pod.attempt == status_.attempt) {
        shown.push_back(&pod);
      }
    }
    std::sort(shown.begin(), shown.end(),
              [](const PodRecord* a, const PodRecord* b) { return a->rank < b->rank; });
    if (shown.size() > kMaxPods) {
      // Those that are as they should be tell nothing.
      std::erase_if(shown, [](const PodRecord* pod) {
        return !pod->deletion_time && ((pod->started && pod->ready) || pod->succeeded());
      });
    }
    Table table;
    for (size_t i = 0; i < std::min(shown.size(), kMaxPods); ++i) {
      const PodRecord& pod = *shown[i];
      table.Add({pod.name, pod.node.empty() ? "-" : pod.node, StateOf(pod),
                 pod.started || pod.terminated() ? "" : pod.message});
    }
    text_ += table.Text("  ", columns_);
    if (shown.size() > kMaxPods) {
      text_ += fmt::format("  and {} more that are not ready\n", shown.size() - kMaxPods);
    }
  }

  void Restarts() {
    api::RestartCounts counts = status_.restarts;
    if (counts.Total() == 0) {
      return;
    }
    std::vector<std::string> causes;
    for (const api::Cause cause :
         {api::Cause::kApplication, api::Cause::kStall, api::Cause::kInfrastructure,
          api::Cause::kPreemption, api::Cause::kStartup}) {
      if (counts.Of(cause) > 0) {
        causes.push_back(fmt::format("{} {}", api::Name(cause), counts.Of(cause)));
      }
    }
    text_ += fmt::format("restarts: {} ({}); {} of {} used since the last progress\n",
                         counts.Total(), fmt::join(causes, ", "), status_.budget.counted,
                         view_.job.spec.restart.max_restarts);
  }

  void Failure() {
    if (status_.failures.empty()) {
      return;
    }
    const api::Failure& failure = status_.failures.front();
    text_ +=
        fmt::format("last failure: attempt {}, rank {} (pod {}{}) {}: {}", failure.attempt,
                    failure.rank, failure.pod, failure.node.empty() ? "" : ", node " + failure.node,
                    Ago(failure.time, now_), failure.reason);
    if (failure.signal) {
      text_ += fmt::format(", signal {}", *failure.signal);
    } else if (failure.exit_code) {
      text_ += fmt::format(", exit code {}", *failure.exit_code);
    }
    text_ += fmt::format(" [{}]\n", api::Name(failure.cause));
    const std::vector<std::string> lines = LinesOf(failure.message);
    const size_t first = lines.size() > kMaxLogLines ? lines.size() - kMaxLogLines : 0;
    for (size_t i = first; i < lines.size(); ++i) {
      text_ += api::Cut("  | " + lines[i], columns_) + "\n";
    }
  }

  void Conditions() {
    for (const char* type : {api::kConditionStalled, api::kConditionTransportWarning}) {
      Say(type, api::ConditionStatus::kTrue);
    }
    if (status_.phase == Phase::kRunning) {
      Say(api::kConditionProgressAvailable, api::ConditionStatus::kFalse);
    }
  }

  void Say(const char* type, api::ConditionStatus if_it_is) {
    const api::Condition* condition = api::FindCondition(status_, type);
    if (condition != nullptr && condition->status == if_it_is) {
      text_ +=
          fmt::format("{}{} for {}: {}\n", if_it_is == api::ConditionStatus::kTrue ? "" : "not ",
                      type, Age(now_ - condition->last_transition_time), condition->message);
    }
  }

  void Events() {
    if (view_.events.empty()) {
      return;
    }
    text_ += "events:\n";
    Table table;
    const size_t size = view_.events.size();
    for (size_t i = size > kMaxEvents ? size - kMaxEvents : 0; i < size; ++i) {
      const SeenEvent& event = view_.events[i];
      table.Add({Ago(event.time, now_), event.warning ? "Warning" : "Normal", event.reason,
                 event.count > 1 ? fmt::format("{} ({} times)", event.message, event.count)
                                 : event.message});
    }
    text_ += table.Text("  ", columns_);
  }

  const StatusView& view_;
  const api::Status& status_;
  const TimePoint now_;
  const size_t columns_;
  std::string text_;
};

}  // namespace

SeenEvent ReadEvent(const json::Json& event) {
  SeenEvent seen;
  for (const char* field : {"lastTimestamp", "eventTime"}) {
    if (const auto time = base::ParseTime(json::GetString(event, {field})); time && !seen.time) {
      seen.time = *time;
    }
  }
  if (const auto last = base::ParseTime(json::GetString(event, {"series", "lastObservedTime"}))) {
    seen.time = *last;
  }
  seen.warning = json::GetString(event, {"type"}) == "Warning";
  seen.reason = json::GetString(event, {"reason"});
  seen.message = json::GetString(event, {"message"}, json::GetString(event, {"note"}));
  seen.count = static_cast<int>(std::clamp<int64_t>(
      std::max(json::GetInt(event, {"count"}, 1), json::GetInt(event, {"series", "count"}, 1)), 1,
      1'000'000));
  return seen;
}

std::string Age(base::Duration duration) {
  const auto seconds =
      std::max<int64_t>(0, std::chrono::floor<std::chrono::seconds>(duration).count());
  struct Unit {
    int64_t size;
    char name;
  };
  static constexpr Unit kUnits[] = {{86'400, 'd'}, {3'600, 'h'}, {60, 'm'}, {1, 's'}};
  // Two units tell enough.
  for (size_t i = 0; i + 1 < std::size(kUnits); ++i) {
    if (seconds >= kUnits[i].size) {
      const int64_t rest = seconds % kUnits[i].size / kUnits[i + 1].size;
      const std::string more = rest > 0 ? fmt::format("{}{}", rest, kUnits[i + 1].name) : "";
      return fmt::format("{}{}{}", seconds / kUnits[i].size, kUnits[i].name, more);
    }
  }
  return fmt::format("{}s", seconds);
}

std::string Printable(std::string text) {
  std::erase_if(text, [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
  });
  return text;
}

std::string Describe(const StatusView& view, api::TimePoint now, size_t columns) {
  return Printable(Writer(view, now, columns).Write());
}

std::string Line(const api::DDPJob& job) {
  std::string text = fmt::format("{}: {}", job.metadata.name, api::Name(job.status.phase));
  if (job.status.attempt > 0) {
    text += fmt::format(", attempt {}", job.status.attempt);
  }
  if (!job.status.finished() && job.status.attempt > 0) {
    text += fmt::format(", {}/{} ready", job.status.replicas.ready, job.spec.replicas);
  }
  if (job.status.progress) {
    text += ", " + Describe(*job.status.progress, std::nullopt);
  }
  return Printable(std::move(text));
}

}  // namespace ddp::cli
