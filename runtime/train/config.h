// What the user can set, as read from YAML (docs in the sample manifest). Plain data; every value
// has been checked when ParseConfig returns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/data/augment.h"

namespace ddp::rt::train {

struct ModelConfig {
  std::string name = "convnet";  // convnet, mlp, resnet18, gpt
  int64_t channels = 16;         // convnet: of the first layer; the second has twice as many
  int64_t hidden = 128;          // convnet, mlp: width of the hidden layer
  int64_t hidden_layers = 1;     // mlp
  int64_t layers = 6;            // gpt, as all that follow
  int64_t heads = 6;
  int64_t width = 384;         // a multiple of heads
  int64_t context = 256;       // tokens of a sample, and the most that the model can look back on
  int64_t vocabulary = 50304;  // of data of tokens; text has its own
  double dropout = 0;
  bool bias = true;
  bool tie_weights = true;  // the last layer's are the token embedding's

  bool takes_tokens() const { return name == "gpt"; }
};

struct DataConfig {
  std::string path = "digits";
  std::string format = "auto";     // auto, idx, cifar10, tokens, text
  std::string token_type = "u16";  // u16, u32: of token files without a header
  double evaluation_part = 0.1;    // text: its end is not trained on
  data::Augmentation augment;      // none unless asked for
  int loader_threads = 1;          // 0 = the training thread makes its batches itself
  int prefetch_steps = 4;
  bool drop_last = false;  // the smaller batch at an epoch's end
};

struct OptimizerConfig {
  std::string name = "sgd";  // sgd, adam, adamw
  double learning_rate = 0.05;
  double momentum = 0.9;             // sgd
  bool nesterov = false;             // sgd
  double beta1 = 0.9;                // adam, adamw
  double beta2 = 0.999;              // adam, adamw
  double weight_decay = 0.0;         // decoupled in adamw
  bool decay_matrices_only = false;  // not biases and norms
  double clip_norm = 0;              // of all gradients together; 0 = any
  bool sharded = false;              // ZeRO-1: each rank keeps its part of the optimizer's state
};

struct ScheduleConfig {
  std::string name = "constant";  // constant, cosine (down at the last step)
  int64_t warmup_steps = 0;       // linear from zero
  double floor = 0;               // cosine: of the learning rate at its end, as a part of it
};

struct TrainConfig {
  int64_t epochs = 10;
  int64_t max_steps = 0;    // 0 = as many as the epochs have
  int64_t batch_size = 64;  // samples a step, over all ranks
  int64_t accumulate = 1;   // backward passes a step
  uint64_t seed = 1;
  int threads = 0;                    // 0 = cores / ranks on this host
  std::string device = "auto";        // auto, cpu, cuda
  std::string precision = "float32";  // float32, bfloat16, float16: of the forward pass
  double loss_scale = 65536;          // float16: at first
  std::string non_finite = "abort";   // abort, skip, rollback: if gradients are not finite
  bool deterministic = true;
  int64_t evaluate_every_steps = 0;  // 0 = after each epoch only
  int64_t generate_tokens = 0;       // text: print so many at the end
  int64_t verify_every_steps = 100;  // compare parameters over ranks; 0 = only at the end
  bool log_hashes = false;           // each rank logs the hash of its parameters after each step
  bool log_samples = false;          // each rank logs the samples of each step
  int stop_seconds = 20;             // from the signal until the program must have ended
};

struct CheckpointConfig {
  std::string dir;            // "" = DDP_CHECKPOINT_DIR; none = no checkpoints
  int64_t every_steps = 100;  // 0 = only at the end
  int keep = 2;
  std::string on_failure = "continue";  // continue, fail: when one can't be saved
};

struct DistributedConfig {
  std::string transport = "auto";    // auto, shm, tcp, nccl
  std::string compression = "none";  // none, bfloat16, float16: of gradients on their way
  bool find_unused_parameters = false;
  bool sync_batch_norm = false;
  double bucket_megabytes = 25;
  int init_timeout_seconds = 300;
  int timeout_seconds = 300;  // of a step
  int evaluation_timeout_seconds = 1800;
  int checkpoint_timeout_seconds = 600;
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
