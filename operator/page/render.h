// The status page as HTML: no script, nothing loaded from elsewhere, all text escaped. Shows what a
// status holds but for the log lines in its failures: those may tell secrets, and whoever may see
// them has `kubectl`. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/types.h"
#include "operator/page/training_history.h"

namespace ddp::page {

struct JobView {
  api::Metadata metadata;
  api::Status status;
  std::string problem;  // why the operator can't read it; "" as a rule
};

std::string EscapeHtml(std::string_view text);

// One line a job, those that run first.
std::string RenderJobs(std::vector<JobView> jobs, base::TimePoint now);
std::string RenderJob(const JobView& view, const Training& training, base::TimePoint now);
std::string RenderNotFound(std::string_view what);

// "4 s", "12 min", "3 h 5 min", "2 d 4 h"; "now" for less than a second.
std::string Span(base::Duration length);

}  // namespace ddp::page
