// Counters, gauges and histograms in Prometheus' text form, behind a small interface: only
// metrics.cc includes prometheus-cpp. A handle lives as long as the Metrics that gave it; make all
// of them at start, so that every series is there from the first scrape, at 0. Labels come from
// closed sets only. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ddp::controller {

class Counter {
 public:
  Counter() = default;
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  virtual ~Counter() = default;
  virtual void Increment(double by = 1) = 0;
};

class Gauge {
 public:
  Gauge() = default;
  Gauge(const Gauge&) = delete;
  Gauge& operator=(const Gauge&) = delete;
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
};

class Histogram {
 public:
  Histogram() = default;
  Histogram(const Histogram&) = delete;
  Histogram& operator=(const Histogram&) = delete;
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

using Labels = std::map<std::string, std::string>;

// Series that come and go with what they describe, as of one scrape.
struct GaugeFamily {
  struct Sample {
    Labels labels;
    double value = 0;
  };
  std::string name;
  std::string help;
  std::vector<Sample> samples;
};

class Metrics {
 public:
  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  Counter& AddCounter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& AddGauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& AddHistogram(const std::string& name, const std::string& help,
                          const std::vector<double>& bounds, const Labels& labels = {});
  // Asked at each scrape. `value` must not block for long, and must work as long as Metrics lives.
  void AddGaugeFunction(const std::string& name, const std::string& help, const Labels& labels,
                        std::function<double()> value);
  // As AddGaugeFunction, for series whose number nobody knows beforehand.
  void AddCollector(std::function<std::vector<GaugeFamily>()> collect);

  std::string Text() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// One metric by a label that takes a few known values and anything else: rest_client_requests_total
// by code and method. Series appear when first counted. Thread-safe.
class RequestCounter {
 public:
  explicit RequestCounter(Metrics& metrics);
  ~RequestCounter();
  void Count(std::string_view method, std::string_view code);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

// The process itself: resident memory, threads, open files, start time.
void AddProcessMetrics(Metrics& metrics);

}  // namespace ddp::controller
