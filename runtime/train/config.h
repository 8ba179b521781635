// What the user can set, as read from YAML (docs in the sample manifest). Plain data; every value
// has been checked when ParseConfig returns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/data/augment.h"

namespace ddp::rt::train {

struct ModelConfig {
  std::string name = "convnet";  // convnet, mlp
  int64_t channels = 16;         // convnet: of the first layer; the second has twice as many
  int64_t hidden = 128;          // width of the hidden layer
};

struct DataConfig {
  std::string path = "digits";
  data::Augmentation augment;  // none unless asked for
};

struct OptimizerConfig {
  std::string name = "sgd";  // sgd, adamw
  double learning_rate = 0.05;
  double momentum = 0.9;      // sgd
  double beta1 = 0.9;         // adamw
  double beta2 = 0.999;       // adamw
  double weight_decay = 0.0;  // decoupled in adamw
};

struct ScheduleConfig {
  std::string name = "constant";  // constant, cosine (to zero at the last step)
  int64_t warmup_steps = 0;       // linear from zero
};

struct TrainConfig {
  int64_t epochs = 10;
  int64_t max_steps = 0;    // 0 = as many as the epochs have
  int64_t batch_size = 64;  // over all ranks
  uint64_t seed = 1;
  int threads = 0;  // 0 = cores / ranks on this host
  bool deterministic = true;
  int64_t verify_every_steps =
      0;                    // compare parameters over ranks; 0 = only when resuming and at the end
  bool log_hashes = false;  // each rank logs the hash of its parameters after each step
  int stop_seconds = 20;    // from the signal until the program must have ended
};

struct CheckpointConfig {
  std::string dir;            // "" = DDP_CHECKPOINT_DIR; none = no checkpoints
  int64_t every_steps = 100;  // 0 = only at the end
  int keep = 2;
};

struct DistributedConfig {
  std::string transport = "auto";  // auto, shm, tcp, nccl
  int init_timeout_seconds = 300;
  int timeout_seconds = 300;
};

struct Config {
  ModelConfig model;
  DataConfig data;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  TrainConfig train;
  CheckpointConfig checkpoint;
  DistributedConfig distributed;
};

// `source` is the file, or the variable, that errors name. Error(kConfig): "SOURCE:LINE: sentence".
Config ParseConfig(std::string_view yaml, const std::string& source);

// All that decides what is computed (not where checkpoints go, timeouts and so on), one setting a
// line: two runs with equal text can go on from each other's checkpoints bit for bit.
std::string Fingerprint(const Config& config);

}  // namespace ddp::rt::train
