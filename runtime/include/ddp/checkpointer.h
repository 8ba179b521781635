// Checkpoints that are either whole or not there: written off the training thread, synced,
// checksummed; the newest valid one is loaded, whatever was killed while it wrote another.
#pragma once

#include <torch/nn/module.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/optimizer.h"

namespace torch::optim {
class Optimizer;
}

namespace ddp {

// Where in the run: what the training loop wants to know when it goes on.
struct Progress {
  std::int64_t step = 0;    // done; names the checkpoint
  std::int64_t epoch = 0;   // of the next step
  std::int64_t cursor = 0;  // samples of that epoch used already, over all ranks
};

struct CheckpointerOptions {
  int keep = 2;                                                  // the newest so many; at least one
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // for one save
  // Save also saves each rank's default random generators (torch::manual_seed's, of the CPU and of
  // its GPU), and Load sets them: dropout goes on as it would have. A rank that the run that saved
  // did not have keeps its own.
  bool random_generators = true;
};

// All methods are collective calls. Files are `<folder>/step-000000000120/model.safetensors` (names
// of the inner module, readable by Python's safetensors), optimizer.safetensors and state.json.
class Checkpointer {
 public:
  // Only rank 0 uses the folder: the others need not see the volume. Error(kConfig) on all ranks if
  // it can't be written to.
  explicit Checkpointer(const std::filesystem::path& folder,
                        const CheckpointerOptions& options = {});
  // Waits for the save that runs.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // More tensors for every Save, and to be restored in place by every Load: Keep("scaler",
  // scaler.state()) of a GradScaler, say. Equal on all ranks: rank 0's are saved. Before the first
  // Load. They may live on any device.
  void Keep(const std::string& name, const std::vector<rt::NamedTensor>& tensors);

  // Copies what is to be saved and returns; rank 0 writes meanwhile. A second Save waits for the
  // first. Throws the failure of an earlier save. Of a ZeroOptimizer rank 0 gathers all parts.
  void Save(const Progress& progress, const torch::nn::Module& module);
  void Save(const Progress& progress, const torch::nn::Module& module, const Optimizer& optimizer);
  void Save(const Progress& progress, const torch::nn::Module& module,
            const torch::optim::Optimizer& optimizer);

  // Gives all ranks the newest valid checkpoint, or returns nothing and changes nothing. The number
  // of ranks may differ from that of the run that saved it. Call it before the model is wrapped or
  // after. Error(kConfig) names a tensor that is missing or has another shape.
  std::optional<Progress> Load(const torch::nn::Module& module);
  std::optional<Progress> Load(const torch::nn::Module& module, Optimizer& optimizer);
  std::optional<Progress> Load(const torch::nn::Module& module, torch::optim::Optimizer& optimizer);

  // Returns, on all ranks, when what was saved is on stable storage.
  void Wait();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
