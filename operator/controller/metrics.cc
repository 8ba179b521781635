#include "operator/controller/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>

namespace ddp::controller {
namespace {

class PromCounter : public Counter {
 public:
  explicit PromCounter(prometheus::Counter& counter) : counter_(counter) {}
  void Increment(double by) override { counter_.Increment(by); }

 private:
  prometheus::Counter& counter_;
};

class PromGauge : public Gauge {
 public:
  explicit PromGauge(prometheus::Gauge& gauge) : gauge_(gauge) {}
  void Set(double value) override { gauge_.Set(value); }

 private:
  prometheus::Gauge& gauge_;
};

class PromHistogram : public Histogram {
 public:
  explicit PromHistogram(prometheus::Histogram& histogram) : histogram_(histogram) {}
  void Observe(double value) override { histogram_.Observe(value); }

 private:
  prometheus::Histogram& histogram_;
};

prometheus::MetricFamily ToPrometheus(GaugeFamily& family) {
  prometheus::MetricFamily out;
  out.name = std::move(family.name);
  out.help = std::move(family.help);
  out.type = prometheus::MetricType::Gauge;
  out.metric.reserve(family.samples.size());
  for (GaugeFamily::Sample& sample : family.samples) {
    prometheus::ClientMetric& metric = out.metric.emplace_back();
    metric.gauge.value = sample.value;
    metric.label.reserve(sample.labels.size());
    for (const auto& [name, value] : sample.labels) {
      metric.label.push_back({name, value});
    }
  }
  return out;
}

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double total = 0;
  double resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double EntriesOf(const char* folder) {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    ++count;
  }
  return count;
}

}  // namespace

struct Metrics::Impl {
  struct Function {
    prometheus::Gauge& gauge;
    std::function<double()> value;
  };

  prometheus::Registry registry;
  mutable std::mutex mutex;  // the lists below; held while a scrape asks the functions
  std::deque<std::unique_ptr<Counter>> counters;
  std::deque<std::unique_ptr<Gauge>> gauges;
  std::deque<std::unique_ptr<Histogram>> histograms;
  std::deque<Function> functions;
  std::deque<std::function<std::vector<GaugeFamily>()>> collectors;
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

Counter& Metrics::AddCounter(const std::string& name, const std::string& help,
                             const Labels& labels) {
  std::lock_guard lock(impl_->mutex);
  auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(impl_->registry);
  return *impl_->counters.emplace_back(std::make_unique<PromCounter>(family.Add(labels)));
}

Gauge& Metrics::AddGauge(const std::string& name, const std::string& help, const Labels& labels) {
  std::lock_guard lock(impl_->mutex);
  auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry);
  return *impl_->gauges.emplace_back(std::make_unique<PromGauge>(family.Add(labels)));
}

Histogram& Metrics::AddHistogram(const std::string& name, const std::string& help,
                                 const std::vector<double>& bounds, const Labels& labels) {
  std::lock_guard lock(impl_->mutex);
  auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(impl_->registry);
  return *impl_->histograms.emplace_back(
      std::make_unique<PromHistogram>(family.Add(labels, bounds)));
}

void Metrics::AddGaugeFunction(const std::string& name, const std::string& help,
                               const Labels& labels, std::function<double()> value) {
  std::lock_guard lock(impl_->mutex);
  auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry);
  impl_->functions.push_back({family.Add(labels), std::move(value)});
}

void Metrics::AddCollector(std::function<std::vector<GaugeFamily>()> collect) {
  std::lock_guard lock(impl_->mutex);
  impl_->collectors.push_back(std::move(collect));
}

std::string Metrics::Text() const {
  std::lock_guard lock(impl_->mutex);
  for (const Impl::Function& function : impl_->functions) {
    function.gauge.Set(function.value());
  }
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  for (const auto& collect : impl_->collectors) {
    for (GaugeFamily& family : collect()) {
      families.push_back(ToPrometheus(family));
    }
  }
  return prometheus::TextSerializer().Serialize(families);
}

struct RequestCounter::Impl {
  explicit Impl(Metrics& m) : metrics(m) {}
  Metrics& metrics;
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Counter*> by_label;
};

RequestCounter::RequestCounter(Metrics& metrics) : impl_(std::make_unique<Impl>(metrics)) {}
RequestCounter::~RequestCounter() = default;

void RequestCounter::Count(std::string_view method, std::string_view code) {
  std::lock_guard lock(impl_->mutex);
  Counter*& counter = impl_->by_label[{std::string(method), std::string(code)}];
  if (counter == nullptr) {
    counter = &impl_->metrics.AddCounter(
        "rest_client_requests_total", "HTTP requests to the API server, by method and answer",
        {{"method", std::string(method)}, {"code", std::string(code)}});
  }
  counter->Increment();
}

void AddProcessMetrics(Metrics& metrics) {
  metrics.AddGaugeFunction("process_resident_memory_bytes", "Resident memory", {}, ResidentBytes);
  metrics.AddGaugeFunction("process_threads", "Threads", {},
                           [] { return EntriesOf("/proc/self/task"); });
  metrics.AddGaugeFunction("process_open_fds", "Open file descriptors", {},
                           [] { return EntriesOf("/proc/self/fd"); });
  metrics
      .AddGauge("process_start_time_seconds",
                "When the process started, in seconds since the epoch")
      .Set(static_cast<double>(std::time(nullptr)));
}

}  // namespace ddp::controller
