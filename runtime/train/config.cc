#include "runtime/train/config.h"

#include <fmt/format.h>

#include "runtime/train/yaml_section.h"

namespace ddp::rt::train {
namespace {

constexpr int64_t kMany = 1'000'000'000;
constexpr int64_t kMaxWidth = 65'536;
constexpr int kMaxSeconds = 86'400;

void Read(YamlSection section, ModelConfig& model) {
  section.ReadChoice("name", {"convnet", "mlp"}, model.name);
  if (model.name == "convnet") {
    section.Read("channels", 1, kMaxWidth, model.channels);
  } else {
    section.Forbid("channels", "is of model convnet only; remove it");
  }
  section.Read("hidden", 1, kMaxWidth, model.hidden);
  section.Finish();
}

void Read(YamlSection section, DataConfig& data) {
  section.Read("path", data.path);
  YamlSection augment = section.Sub("augment");
  augment.Read("rotateDegrees", 0, 180, data.augment.rotate_degrees);
  augment.Read("scale", 0, 0.9, data.augment.scale);
  augment.Read("shiftPixels", 0, 1000, data.augment.shift_pixels);
  augment.Finish();
  section.Finish();
}

void Read(YamlSection section, OptimizerConfig& optimizer) {
  section.ReadChoice("name", {"sgd", "adamw"}, optimizer.name);
  section.Read("learningRate", 0, 1000, optimizer.learning_rate);
  section.Read("weightDecay", 0, 1, optimizer.weight_decay);
  if (optimizer.name == "sgd") {
    section.Read("momentum", 0, 1, optimizer.momentum);
    section.Forbid("beta1", "is of optimizer adamw only; remove it");
    section.Forbid("beta2", "is of optimizer adamw only; remove it");
  } else {
    section.Read("beta1", 0, 1, optimizer.beta1);
    section.Read("beta2", 0, 1, optimizer.beta2);
    section.Forbid("momentum", "is of optimizer sgd only; adamw has beta1");
  }
  section.Finish();
}

void Read(YamlSection section, ScheduleConfig& schedule) {
  section.ReadChoice("name", {"constant", "cosine"}, schedule.name);
  section.Read("warmupSteps", 0, kMany, schedule.warmup_steps);
  section.Finish();
}

void Read(YamlSection section, TrainConfig& train) {
  section.Read("epochs", 1, kMany, train.epochs);
  section.Read("maxSteps", 0, kMany, train.max_steps);
  section.Read("batchSize", 1, kMany, train.batch_size);
  section.Read("seed", train.seed);
  section.Read("threads", 0, 1024, train.threads);
  section.Read("deterministic", train.deterministic);
  section.Read("verifyEverySteps", 0, kMany, train.verify_every_steps);
  section.Read("logHashes", train.log_hashes);
  section.Read("stopSeconds", 1, kMaxSeconds, train.stop_seconds);
  section.Finish();
}

void Read(YamlSection section, CheckpointConfig& checkpoint) {
  section.Read("dir", checkpoint.dir);
  section.Read("everySteps", 0, kMany, checkpoint.every_steps);
  section.Read("keep", 1, 1000, checkpoint.keep);
  section.Finish();
}

void Read(YamlSection section, DistributedConfig& distributed) {
  section.ReadChoice("transport", {"auto", "shm", "tcp", "nccl"}, distributed.transport);
  section.Read("initTimeoutSeconds", 1, kMaxSeconds, distributed.init_timeout_seconds);
  section.Read("timeoutSeconds", 1, kMaxSeconds, distributed.timeout_seconds);
  section.Finish();
}

}  // namespace

Config ParseConfig(std::string_view yaml, const std::string& source) {
  Config config;
  YamlSection root(LoadDocument(yaml, source), "", source);
  Read(root.Sub("model"), config.model);
  Read(root.Sub("data"), config.data);
  Read(root.Sub("optimizer"), config.optimizer);
  Read(root.Sub("schedule"), config.schedule);
  Read(root.Sub("train"), config.train);
  Read(root.Sub("checkpoint"), config.checkpoint);
  Read(root.Sub("distributed"), config.distributed);
  root.Finish();
  return config;
}

std::string Fingerprint(const Config& c) {
  return fmt::format(
      "model {} {} {}\ndata {} {} {} {}\noptimizer {} {} {} {} {} {}\nschedule {} {}\n"
      "train {} {} {} {}\n",
      c.model.name, c.model.channels, c.model.hidden, c.data.path, c.data.augment.rotate_degrees,
      c.data.augment.scale, c.data.augment.shift_pixels, c.optimizer.name,
      c.optimizer.learning_rate, c.optimizer.momentum, c.optimizer.beta1, c.optimizer.beta2,
      c.optimizer.weight_decay, c.schedule.name, c.schedule.warmup_steps, c.train.epochs,
      c.train.batch_size, c.train.seed, c.train.deterministic);
}

}  // namespace ddp::rt::train
