// The models that a config can name: a few parameters and a forward pass on plain ATen operators.
// Without batch statistics or dropout, so that ranks with a part of the batch each compute what one
// rank with the whole batch does. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/ddp/data_parallel.h"
#include "runtime/train/config.h"

namespace ddp::rt::train {

struct InputShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t classes = 0;
};

class Model {
 public:
  Model() = default;
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Images [batch, 1, rows, columns] to one score a class.
  virtual at::Tensor Forward(const at::Tensor& images) const = 0;

  // In a fixed order; they require gradients.
  const std::vector<NamedTensor>& parameters() const { return parameters_; }

 protected:
  // Adds a parameter with values drawn uniformly from ±1/√fan_in, as torch.nn's layers do.
  at::Tensor AddParameter(const std::string& name, const std::vector<int64_t>& shape,
                          int64_t fan_in, at::Generator& generator);

 private:
  std::vector<NamedTensor> parameters_;
};

// The same seed gives the same parameters. Error(kConfig) if the images are too small for the
// model.
std::unique_ptr<Model> MakeModel(const ModelConfig& config, const InputShape& shape, uint64_t seed);

}  // namespace ddp::rt::train
