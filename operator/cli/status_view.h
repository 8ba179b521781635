// A job in a cluster, as text for people. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/types.h"
#include "operator/ddpjob/observed.h"

namespace ddp::cli {

struct SeenEvent {
  std::optional<api::TimePoint> time;
  bool warning = false;
  std::string reason;
  std::string message;
  int count = 1;
};
// An event as the server stores it.
SeenEvent ReadEvent(const json::Json& event);

struct StatusView {
  api::DDPJob job;
  std::vector<job::PodRecord> pods;  // of any attempt
  std::vector<SeenEvent> events;     // eldest first
  std::vector<std::string> notes;    // what could not be looked up, and why
};

// Without what could move a terminal's cursor or change its colours: logs and messages come from
// whoever trains.
std::string Printable(std::string text);

// "12s", "3m12s", "2h5m", "4d3h"
std::string Age(base::Duration duration);

std::string Describe(const StatusView& view, api::TimePoint now, size_t columns);

// One line for those who wait: "mnist: Running, attempt 2, 7/8 ready, step 430/1000"
std::string Line(const api::DDPJob& job);

}  // namespace ddp::cli
