#include "operator/page/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "operator/page/loss_curve.h"

namespace ddp::page {
namespace {

using api::Phase;
using base::TimePoint;

// More lines than a browser or a person likes.
constexpr size_t kMaxJobs = 500;
constexpr size_t kMaxRanks = 256;

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--fg:#1d2530;--dim:#5d6877;--bg:#f6f7f9;--card:#fff;--line:#dde1e7;--bar:#2f6fde;
--ok:#1b7f4b;--bad:#b3261e;--warn:#8a5a00}
@media(prefers-color-scheme:dark){:root{--fg:#e4e8ee;--dim:#98a3b3;--bg:#14181e;--card:#1d232b;--line:#333c48;
--bar:#6d9df0;--ok:#5cc48d;--bad:#f28b82;--warn:#e0b050}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif}
main{max-width:1100px;margin:0 auto;padding:24px 16px}h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:28px 0 8px}
p.sub{margin:0 0 16px;color:var(--dim)}a{color:var(--bar)}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px 16px;overflow-x:auto}
table{border-collapse:collapse;width:100%}th{text-align:left;font-weight:600;color:var(--dim);font-size:13px}
th,td{padding:7px 12px 7px 0;border-bottom:1px solid var(--line);vertical-align:top}tr:last-child td{border-bottom:0}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
progress{width:110px;height:8px;accent-color:var(--bar);vertical-align:middle}
.facts{display:flex;flex-wrap:wrap;gap:20px 36px}.facts div span{display:block;color:var(--dim);font-size:13px}
.ok{color:var(--ok)}.bad{color:var(--bad)}.warn{color:var(--warn)}.dim{color:var(--dim)}
.curve{width:100%;max-width:760px;height:auto}.curve polyline{fill:none;stroke:var(--bar);stroke-width:2;
vector-effect:non-scaling-stroke}.curve .grid{stroke:var(--line)}.curve text{fill:var(--dim);font-size:12px}
)";

std::string Document(std::string_view title, const std::string& content) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta http-equiv=\"refresh\" content=\"5\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>{}</title><style>{}</style>"
      "</head><body><main>{}</main></body></html>\n",
      EscapeHtml(title), kStyle, content);
}

const char* ClassOf(Phase phase) {
  switch (phase) {
    case Phase::kSucceeded:
      return "ok";
    case Phase::kFailed:
      return "bad";
    case Phase::kRestarting:
      return "warn";
    case Phase::kPending:
    case Phase::kSuspended:
      return "dim";
    case Phase::kStarting:
    case Phase::kRunning:
      break;
  }
  return "";
}

std::string PhaseText(const api::Status& status) {
  return fmt::format(R"(<b class="{}">{}</b>)", ClassOf(status.phase), api::Name(status.phase));
}

// What a condition of a job that is not well says, or its Stalled or TransportWarning.
std::string Trouble(const api::Status& status) {
  for (const char* type : {api::kConditionFailed, api::kConditionStalled}) {
    const api::Condition* condition = api::FindCondition(status, type);
    if (condition != nullptr && condition->status == api::ConditionStatus::kTrue) {
      return condition->message;
    }
  }
  const api::Condition* progressing = api::FindCondition(status, api::kConditionProgressing);
  const bool waits = status.phase == Phase::kRestarting || status.phase == Phase::kStarting ||
                     status.phase == Phase::kPending;
  return waits && progressing != nullptr ? progressing->message : "";
}

std::string Bar(const api::Progress& progress) {
  if (!progress.percent) {
    return "";
  }
  return fmt::format(R"(<progress max="100" value="{0:.1f}"></progress> {0:.1f} %)",
                     *progress.percent);
}

std::string StepText(const api::Progress& progress) {
  return progress.total_steps ? fmt::format("{} / {}", progress.step, *progress.total_steps)
                              : fmt::format("{}", progress.step);
}

template <typename Value>
std::string Number(const std::optional<Value>& value, std::string_view format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "";
}

std::string TimeLeft(const api::Progress& progress) {
  return progress.eta_seconds ? Span(std::chrono::seconds(*progress.eta_seconds)) : "";
}

std::string Ago(const std::optional<TimePoint>& time, TimePoint now) {
  return time ? Span(now - *time) + (now - *time < std::chrono::seconds(1) ? "" : " ago") : "";
}

std::string JobLine(const JobView& view, TimePoint now) {
  const api::Metadata& meta = view.metadata;
  const api::Status& status = view.status;
  const api::Progress progress = status.progress.value_or(api::Progress{});
  const bool told = status.progress.has_value();
  const std::string path = EscapeHtml(meta.namespace_name + "/" + meta.name);
  std::string line = fmt::format(R"(<tr><td><a href="/job/{0}">{0}</a></td><td>{1}</td>)", path,
                                 PhaseText(status));
  line += fmt::format(R"(<td>{}</td><td class="n">{}</td>)", told ? Bar(progress) : "",
                      told ? StepText(progress) : "");
  line += fmt::format(R"(<td class="n">{}</td><td class="n">{}</td><td class="n">{}</td>)",
                      Number(progress.loss, "{:.4g}"),
                      Number(progress.samples_per_second, "{:.0f}"), TimeLeft(progress));
  line += fmt::format(R"(<td class="n">{}</td><td class="n">{}</td></tr>)", status.restarts.Total(),
                      meta.creation_time ? Span(now - *meta.creation_time) : "");
  const std::string trouble = view.problem.empty() ? Trouble(status) : view.problem;
  if (!trouble.empty()) {
    line += fmt::format(R"(<tr><td></td><td colspan="8" class="{}">{}</td></tr>)",
                        ClassOf(status.phase), EscapeHtml(trouble));
  }
  return line;
}

std::string Fact(std::string_view name, const std::string& value) {
  return value.empty() ? "" : fmt::format("<div><span>{}</span>{}</div>", name, value);
}

std::string Facts(const JobView& view, TimePoint now) {
  const api::Status& status = view.status;
  const api::Progress progress = status.progress.value_or(api::Progress{});
  std::string facts = Fact("Phase", PhaseText(status));
  facts += Fact("Attempt", fmt::format("{}", status.attempt));
  facts +=
      Fact("Pods ready", fmt::format("{} of {}", status.replicas.ready, status.replicas.desired));
  if (status.progress) {
    facts += Fact("Progress", Bar(progress)) + Fact("Step", StepText(progress));
  }
  facts += Fact("Epoch", Number(progress.epoch, "{}"));
  facts += Fact("Loss", Number(progress.loss, "{:.5g}"));
  facts += Fact("Samples/s", Number(progress.samples_per_second, "{:.1f}"));
  facts += Fact("Time left", TimeLeft(progress));
  facts += Fact("Last step", Ago(progress.last_step_time, now));
  if (status.checkpoint) {
    const std::string age = Ago(status.checkpoint->time, now);
    facts += Fact("Checkpoint", fmt::format("step {}{}{}", status.checkpoint->step,
                                            age.empty() ? "" : ", ", age));
  }
  const api::RestartCounts& restarts = status.restarts;
  facts +=
      Fact("Restarts", fmt::format("{} application, {} stall, {} infrastructure, {} "
                                   "preemption, {} startup",
                                   restarts.application, restarts.stall, restarts.infrastructure,
                                   restarts.preemption, restarts.startup));
  return fmt::format(R"(<div class="card facts">{}</div>)", facts);
}

// The furthest behind first.
std::string Ranks(std::vector<job::RankProgress> ranks, const std::optional<int>& slowest,
                  TimePoint now) {
  if (ranks.empty()) {
    return "";
  }
  const int64_t front =
      std::max_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
        return a.step < b.step;
      })->step;
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  std::string rows;
  for (size_t i = 0; i < std::min(ranks.size(), kMaxRanks); ++i) {
    const job::RankProgress& rank = ranks[i];
    const bool is_slowest = slowest && rank.rank == *slowest;
    rows += fmt::format(
        R"(<tr><td class="n">{}</td><td class="n">{}</td><td class="n">{}</td><td class="n">{}</td><td>{}</td><td class="warn">{}</td></tr>)",
        rank.rank, rank.step, front - rank.step, Number(rank.wait_seconds, "{:.1f} s"),
        Ago(rank.last_heartbeat, now), is_slowest ? "slowest" : "");
  }
  const std::string more =
      ranks.size() > kMaxRanks
          ? fmt::format(R"(<p class="dim">and {} more, nearer to the front</p>)",
                        ranks.size() - kMaxRanks)
          : "";
  return fmt::format(
      R"(<h2>Ranks</h2><div class="card"><table><tr><th class="n">rank</th><th class="n">step</th><th class="n">steps behind</th><th class="n">waited for others</th><th>last heard of</th><th></th></tr>{}</table>{}</div>)",
      rows, more);
}

std::string Failures(const std::vector<api::Failure>& failures, TimePoint now) {
  if (failures.empty()) {
    return "";
  }
  std::string rows;
  for (const api::Failure& failure : failures) {
    std::string end = failure.reason;
    if (failure.signal) {
      end += fmt::format("{}signal {}", end.empty() ? "" : ", ", *failure.signal);
    } else if (failure.exit_code) {
      end += fmt::format("{}exit code {}", end.empty() ? "" : ", ", *failure.exit_code);
    }
    rows += fmt::format(
        R"(<tr><td>{}</td><td class="n">{}</td><td class="n">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>)",
        Ago(failure.time, now), failure.attempt, failure.rank, EscapeHtml(failure.pod),
        EscapeHtml(failure.node), api::Name(failure.cause), EscapeHtml(end));
  }
  return fmt::format(
      R"(<h2>Last failures</h2><div class="card"><table><tr><th>when</th><th class="n">attempt</th><th class="n">rank</th><th>pod</th><th>node</th><th>booked as</th><th>how it ended</th></tr>{}</table><p class="dim">Their last log lines: kubectl ddp status</p></div>)",
      rows);
}

std::string Conditions(const api::Status& status, TimePoint now) {
  std::string rows;
  for (const api::Condition& condition : status.conditions) {
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                        EscapeHtml(condition.type), api::Name(condition.status),
                        Ago(condition.last_transition_time, now), EscapeHtml(condition.reason),
                        EscapeHtml(condition.message));
  }
  return rows.empty()
             ? ""
             : fmt::format(
                   R"(<h2>Conditions</h2><div class="card"><table><tr><th>type</th><th>status</th><th>since</th><th>reason</th><th>message</th></tr>{}</table></div>)",
                   rows);
}

// What somebody who looks would want to see first.
int Weight(const api::Status& status) {
  switch (status.phase) {
    case Phase::kRestarting:
      return 0;
    case Phase::kRunning:
    case Phase::kStarting:
      return 1;
    case Phase::kPending:
      return 2;
    case Phase::kSuspended:
      return 3;
    case Phase::kFailed:
    case Phase::kSucceeded:
      break;
  }
  return 4;
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string Span(base::Duration length) {
  const int64_t seconds = std::chrono::floor<std::chrono::seconds>(length).count();
  constexpr int64_t kMinute = 60;
  constexpr int64_t kHour = 60 * kMinute;
  constexpr int64_t kDay = 24 * kHour;
  if (seconds < 1) {
    return "now";
  }
  if (seconds < kMinute) {
    return fmt::format("{} s", seconds);
  }
  if (seconds < kHour) {
    return fmt::format("{} min", seconds / kMinute);
  }
  if (seconds < kDay) {
    return fmt::format("{} h {} min", seconds / kHour, seconds % kHour / kMinute);
  }
  return fmt::format("{} d {} h", seconds / kDay, seconds % kDay / kHour);
}

std::string RenderJobs(std::vector<JobView> jobs, TimePoint now) {
  std::sort(jobs.begin(), jobs.end(), [](const JobView& a, const JobView& b) {
    return std::tuple(Weight(a.status), a.metadata.namespace_name, a.metadata.name) <
           std::tuple(Weight(b.status), b.metadata.namespace_name, b.metadata.name);
  });
  std::string rows;
  for (size_t i = 0; i < std::min(jobs.size(), kMaxJobs); ++i) {
    rows += JobLine(jobs[i], now);
  }
  std::string content =
      fmt::format(R"(<h1>DDPJobs</h1><p class="sub">{} in all, as of {}; renewed every 5 s</p>)",
                  jobs.size(), base::FormatTime(now));
  if (jobs.empty()) {
    return Document("DDPJobs", content + R"(<div class="card">There are none.</div>)");
  }
  content += fmt::format(
      R"(<div class="card"><table><tr><th>job</th><th>phase</th><th>progress</th><th class="n">step</th><th class="n">loss</th><th class="n">samples/s</th><th class="n">time left</th><th class="n">restarts</th><th class="n">age</th></tr>{}</table></div>)",
      rows);
  if (jobs.size() > kMaxJobs) {
    content += fmt::format(R"(<p class="dim">and {} more: kubectl get ddp -A</p>)",
                           jobs.size() - kMaxJobs);
  }
  return Document("DDPJobs", content);
}

std::string RenderJob(const JobView& view, const Training& training, TimePoint now) {
  const api::Metadata& meta = view.metadata;
  const api::Status& status = view.status;
  const std::string name = meta.namespace_name + "/" + meta.name;
  std::string content = fmt::format(
      R"(<h1>{}</h1><p class="sub"><a href="/">all jobs</a> · as of {}; renewed every 5 s</p>)",
      EscapeHtml(name), base::FormatTime(now));
  if (!view.problem.empty()) {
    content += fmt::format(R"(<p class="bad">{}</p>)", EscapeHtml(view.problem));
  }
  content += Facts(view, now);
  if (const std::string curve = LossCurve(training.losses); !curve.empty()) {
    content += fmt::format(R"(<h2>Loss</h2><div class="card">{}</div>)", curve);
  }
  if (!status.finished()) {
    content +=
        Ranks(training.ranks, status.progress ? status.progress->slowest_rank : std::nullopt, now);
  }
  content += Failures(status.failures, now) + Conditions(status, now);
  return Document(name, content);
}

std::string RenderNotFound(std::string_view what) {
  return Document(
      "Not found",
      fmt::format(R"(<h1>Not found</h1><p>{} <a href="/">All jobs</a></p>)", EscapeHtml(what)));
}

}  // namespace ddp::page
