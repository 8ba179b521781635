// What rank 0 tells about the training (its /progress), as text for people. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::cli {

struct Progress {
  int64_t step = 0;
  int64_t total_steps = 0;
  int64_t epoch = 0;
  int64_t epochs = 0;
  std::optional<double> loss;
  std::optional<double> samples_per_second;
  std::optional<double> eta_seconds;
  bool operator==(const Progress&) const = default;
};

// Nothing for a text that is no progress. Numbers out of range or not finite are left out.
std::optional<Progress> ParseProgress(std::string_view text);

// "step 430/1000  epoch 3/15  loss 0.1234  5120 samples/s  0:21 left"
std::string Describe(const Progress& progress);
// "[=====>    ]  43%  " + Describe(), cut to `columns`
std::string Bar(const Progress& progress, size_t columns);

}  // namespace ddp::cli
