// The models that a config can name: parameters, buffers, and a forward pass on plain ATen
// operators. Where there are no batch statistics and no dropout, ranks with a part of the batch
// each compute what one rank with the whole batch does; with model resnet18 that takes
// SynchronizeBatchNorms. Not thread-safe.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/process_group.h"
#include "runtime/data/dataset.h"
#include "runtime/ddp/named_tensor.h"
#include "runtime/train/config.h"

namespace ddp::rt::train {

class Model {
 public:
  Model(uint64_t seed, const at::Device& device);
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Images [batch, channels, rows, columns] to one score a class, or tokens [batch, length] to
  // [batch, length, classes]. `training`: with dropout, and with the statistics of this batch.
  virtual at::Tensor Forward(const at::Tensor& input, bool training) = 0;

  // In a fixed order; they require gradients.
  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  // Running statistics.
  const std::vector<NamedTensor>& buffers() const { return buffers_; }

  // From now on batch statistics are of all ranks' batches. A collective call in each training
  // pass; the group outlives the model's use.
  void SynchronizeBatchNorms(comm::ProcessGroup& group) { batch_norm_group_ = &group; }

 protected:
  // A weight and a bias, which may be undefined.
  struct Layer {
    at::Tensor weight;
    at::Tensor bias;
  };
  struct BatchNorm {
    Layer layer;
    at::Tensor mean;
    at::Tensor variance;
  };

  // Adds a parameter with values drawn uniformly from ±1/√fan_in, as torch.nn's layers do.
  at::Tensor AddUniform(const std::string& name, const std::vector<int64_t>& shape, int64_t fan_in);
  at::Tensor AddNormal(const std::string& name, const std::vector<int64_t>& shape,
                       double deviation);
  at::Tensor AddConstant(const std::string& name, const std::vector<int64_t>& shape, double value);
  Layer AddLinear(const std::string& name, int64_t in, int64_t out);
  BatchNorm AddBatchNorm(const std::string& name, int64_t channels);

  at::Tensor Normalize(const BatchNorm& norm, const at::Tensor& input, bool training) const;

 private:
  at::Tensor Add(const std::string& name, const at::Tensor& values);

  at::Generator generator_;
  const at::Device device_;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  comm::ProcessGroup* batch_norm_group_ = nullptr;
};

// The same seed gives the same parameters, on any device. Error(kConfig) if the data does not suit
// the model.
std::unique_ptr<Model> MakeModel(const ModelConfig& config, const data::DataShape& shape,
                                 uint64_t seed, const at::Device& device = at::kCPU);

}  // namespace ddp::rt::train
