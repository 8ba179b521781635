// For tests: ranks as threads that share a store, and a small model of plain tensors.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>

#include <functional>
#include <vector>

#include "runtime/comm/ranks_test.h"
#include "runtime/ddp/data_parallel.h"

namespace ddp::rt {

// Runs body(rank, group, store) in a thread each.
inline void RunReplicas(int world_size, comm::TransportKind transport,
                        const std::function<void(int, comm::ProcessGroup&, store::Store&)>& body) {
  const auto store = std::make_shared<store::HashStore>();
  comm::RunRanks(world_size, [&](int rank) {
    const auto group = CreateProcessGroup(*store, comm::TestOptions(rank, world_size, transport));
    body(rank, *group, *store);
    group->Shutdown(std::chrono::seconds(20));
  });
}

// Small buckets, so that even small models have several.
inline DataParallelOptions SmallBuckets() {
  DataParallelOptions options;
  options.first_bucket_bytes = 2000;
  options.bucket_bytes = 5000;
  options.last_bucket_bytes = 500;
  options.timeout = std::chrono::seconds(20);
  return options;
}

inline at::Tensor RandomTensor(at::IntArrayRef shape, std::uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kFloat));
}

// Two linear layers. The same seed gives the same parameters.
class TinyModel {
 public:
  static constexpr std::int64_t kInputs = 20;
  static constexpr std::int64_t kHidden = 33;  // odd: parts of ranks end within tensors
  static constexpr std::int64_t kOutputs = 5;

  explicit TinyModel(std::uint64_t seed) {
    Add("first.weight", {kHidden, kInputs}, seed);
    Add("first.bias", {kHidden}, seed + 1);
    Add("second.weight", {kOutputs, kHidden}, seed + 2);
    Add("second.bias", {kOutputs}, seed + 3);
  }
  at::Tensor Forward(const at::Tensor& x) const {
    return at::linear(at::tanh(at::linear(x, tensor(0), tensor(1))), tensor(2), tensor(3));
  }
  // The mean over samples of a squared error: zero at outputs of one.
  at::Tensor Loss(const at::Tensor& x) const { return (Forward(x) - 1).square().sum(1).mean(); }

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const at::Tensor& tensor(std::size_t i) const { return parameters_[i].tensor; }

 private:
  void Add(const std::string& name, at::IntArrayRef shape, std::uint64_t seed) {
    at::Tensor tensor = RandomTensor(shape, seed) * 0.2;
    tensor.requires_grad_(true);
    parameters_.push_back({name, tensor});
  }
  std::vector<NamedTensor> parameters_;
};

inline at::Tensor Inputs(std::int64_t samples, std::uint64_t seed) {
  return RandomTensor({samples, TinyModel::kInputs}, seed);
}

// The share of one of `parts` ranks.
inline at::Tensor Share(const at::Tensor& batch, int rank, int parts) {
  const std::int64_t n = batch.size(0) / parts;
  return batch.narrow(0, rank * n, n);
}

inline double LargestDifference(const std::vector<NamedTensor>& a,
                                const std::vector<NamedTensor>& b) {
  const at::NoGradGuard no_grad;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, (a[i].tensor - b[i].tensor).abs().max().item<double>());
  }
  return largest;
}

}  // namespace ddp::rt
