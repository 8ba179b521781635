#include "operator/page/status_page.h"

#include <algorithm>
#include <cctype>

#include "operator/page/render.h"

namespace ddp::page {
namespace {

using controller::HttpAnswer;

constexpr std::string_view kJobPath = "/job/";

HttpAnswer Page(int status, std::string html) {
  HttpAnswer answer{status, "text/html; charset=utf-8", std::move(html)};
  answer.is_page = true;
  return answer;
}

JobView ViewOf(const job::CachedJob& cached) {
  return {cached.job.metadata, cached.job.status, api::Join(cached.problems)};
}

HttpAnswer Jobs(const controller::Store<job::CachedJob>& jobs, TrainingHistory& history,
                base::TimePoint now) {
  history.Prune([&jobs](const std::string& key) { return jobs.Get(key).object != nullptr; });
  std::vector<JobView> views;
  jobs.ForEach([&views](const job::CachedJob& cached) { views.push_back(ViewOf(cached)); });
  return Page(200, RenderJobs(std::move(views), now));
}

}  // namespace

bool IsOwnHost(std::string_view host) {
  const size_t colon = host.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && colon + 1 < host.size() &&
      std::all_of(host.begin() + static_cast<std::ptrdiff_t>(colon) + 1, host.end(),
                  [](unsigned char c) { return std::isdigit(c) != 0; });
  const std::string_view name = has_port ? host.substr(0, colon) : host;
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

controller::HttpServer::Handler StatusPage(const controller::Store<job::CachedJob>& jobs,
                                           TrainingHistory& history, const base::Clock& clock) {
  return [&jobs, &history, &clock](const controller::HttpQuestion& question) -> HttpAnswer {
    if (!IsOwnHost(question.host)) {
      return {403, "text/plain",
              "this page is for http://localhost through a port-forward, not under another name\n"};
    }
    if (question.path == "/") {
      return Jobs(jobs, history, clock.Now());
    }
    if (!question.path.starts_with(kJobPath)) {
      return Page(404, RenderNotFound("There is no such page."));
    }
    const std::string key(question.path.substr(kJobPath.size()));
    const auto entry = jobs.Get(key);
    if (entry.object == nullptr) {
      return Page(404, RenderNotFound("There is no job " + key + " (any more)."));
    }
    return Page(200, RenderJob(ViewOf(*entry.object), history.Of(key), clock.Now()));
  };
}

}  // namespace ddp::page
