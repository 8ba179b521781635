#include "runtime/health/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace ddp::rt::health {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using train::AtomicHistogram;

MetricFamily Family(const char* name, const char* help, MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

MetricFamily Gauge(const char* name, const char* help, double value) {
  MetricFamily family = Family(name, help, MetricType::Gauge);
  family.metric.emplace_back().gauge.value = value;
  return family;
}

MetricFamily Counter(const char* name, const char* help, double value) {
  MetricFamily family = Family(name, help, MetricType::Counter);
  family.metric.emplace_back().counter.value = value;
  return family;
}

MetricFamily Histogram(const char* name, const char* help, const AtomicHistogram& observed) {
  MetricFamily family = Family(name, help, MetricType::Histogram);
  auto& histogram = family.metric.emplace_back().histogram;
  uint64_t total = 0;
  for (size_t i = 0; i <= AtomicHistogram::kBounds.size(); ++i) {
    total += observed.count(i);
    const bool last = i == AtomicHistogram::kBounds.size();
    histogram.bucket.push_back({.cumulative_count = total,
                                .upper_bound = last ? std::numeric_limits<double>::infinity()
                                                    : AtomicHistogram::kBounds[i]});
  }
  histogram.sample_count = total;
  histogram.sample_sum = observed.sum();
  return family;
}

template <typename Value>
MetricFamily PerRank(const char* name, const char* help, const Heartbeat::Ranks& ranks,
                     Value value) {
  MetricFamily family = Family(name, help, MetricType::Gauge);
  for (size_t rank = 0; rank < ranks.beats.size(); ++rank) {
    if (const auto& beat = ranks.beats[rank]) {
      ClientMetric& metric = family.metric.emplace_back();
      metric.label.push_back({"rank", std::to_string(rank)});
      metric.gauge.value = value(*beat);
    }
  }
  return family;
}

void AddHistograms(const train::Board& board, std::vector<MetricFamily>& families) {
  const auto add = [&](const char* name, const char* help, const AtomicHistogram& observed) {
    families.push_back(Histogram(name, help, observed));
  };
  add("ddp_step_seconds", "Duration of training steps", board.step_seconds);
  add("ddp_data_wait_seconds", "Of a step: waiting for the next batch", board.data_wait_seconds);
  add("ddp_forward_seconds", "Of a step: forward", board.forward_seconds);
  add("ddp_backward_seconds", "Of a step: backward, with what it did not hide of communication",
      board.backward_seconds);
  add("ddp_optimizer_seconds", "Of a step: the optimizer", board.optimizer_seconds);
  add("ddp_exposed_communication_seconds", "Of a step: communication that backward did not hide",
      board.exposed_communication_seconds);
  add("ddp_checkpoint_seconds", "Duration of saving checkpoints", board.checkpoint_seconds);
  add("ddp_checkpoint_stall_seconds", "Of saving: while training stood still",
      board.checkpoint_stall_seconds);
}

void AddRanks(const Heartbeat::Ranks& ranks, std::vector<MetricFamily>& families) {
  const int64_t furthest = FurthestStep(ranks.beats);
  const auto add = [&](const char* name, const char* help, auto value) {
    families.push_back(PerRank(name, help, ranks, value));
  };
  add("ddp_rank_step", "Steps done by each rank",
      [](const Beat& beat) { return static_cast<double>(beat.step); });
  add("ddp_rank_lag_steps", "Steps behind the rank that is furthest",
      [&](const Beat& beat) { return static_cast<double>(furthest - beat.step); });
  add("ddp_rank_heartbeat_timestamp_seconds", "Last sign of life of each rank",
      [](const Beat& beat) { return beat.time; });
  add("ddp_rank_wait_seconds", "Time that each rank has waited for the others",
      [](const Beat& beat) { return beat.wait_seconds; });
  add("ddp_rank_busy_seconds", "Time that each rank has spent in steps, without waiting",
      [](const Beat& beat) { return beat.busy_seconds; });
  families.push_back(Gauge("ddp_slowest_rank", "The rank that the others wait for, -1 for none",
                           static_cast<double>(ranks.slowest)));
}

}  // namespace

std::string FormatMetrics(const train::Board& board, const Heartbeat::Ranks* ranks) {
  const auto number = [](auto value) { return static_cast<double>(value); };
  const auto saved = board.checkpoint();
  std::vector<MetricFamily> families = {
      Gauge("ddp_step", "Optimizer steps done", number(board.step.load())),
      Gauge("ddp_total_steps", "Optimizer steps of the whole run",
            number(board.total_steps.load())),
      Gauge("ddp_epoch", "Epochs done", number(board.epoch.load())),
      Gauge("ddp_loss", "Training loss, mean over ranks", board.loss),
      Gauge("ddp_learning_rate", "Learning rate of the last step", board.learning_rate),
      Gauge("ddp_samples_per_second", "Training speed of all ranks together",
            board.samples_per_second),
      Gauge("ddp_eval_accuracy", "Share of the test set that is right", board.eval_accuracy),
      Gauge("ddp_eval_loss", "Loss on the test set, mean over samples or tokens", board.eval_loss),
      Gauge("ddp_last_step_timestamp_seconds", "When the last step ended", board.last_step_time),
      Gauge("ddp_checkpoint_step", "Step of the newest complete checkpoint, -1 for none",
            number(saved.step)),
      Gauge("ddp_checkpoint_timestamp_seconds", "When it was complete", saved.time),
      Counter("ddp_samples_total", "Samples that this rank has trained on",
              number(board.samples.load())),
      Counter("ddp_collective_bytes_total", "Bytes of this rank's collectives",
              number(board.reduced_bytes.load())),
      Counter("ddp_collective_wait_seconds_total",
              "Time in collectives until the last rank had come", board.wait_seconds),
      Gauge("ddp_gradient_norm", "Global norm of the last step's gradients, before clipping",
            board.gradient_norm),
      Counter("ddp_skipped_steps_total", "Steps skipped for gradients that were not finite",
              number(board.skipped_steps.load())),
      Counter("ddp_parameter_hash_checks_total", "Comparisons of all ranks' parameters",
              number(board.hash_checks.load())),
      Counter("ddp_parameter_hash_mismatches_total", "Comparisons in which ranks differed",
              number(board.hash_mismatches.load())),
      Counter("ddp_checkpoint_failures_total", "Checkpoints that could not be saved",
              number(board.checkpoint_failures.load())),
  };
  AddHistograms(board, families);
  if (const std::string transport = board.transport(); !transport.empty()) {
    families.push_back(Gauge("ddp_transport_info", "How the ranks exchange gradients", 1));
    families.back().metric.back().label.push_back({"transport", transport});
  }
  if (ranks != nullptr) {
    AddRanks(*ranks, families);
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace ddp::rt::health
