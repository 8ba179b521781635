#include "runtime/train/config.h"

#include <fmt/format.h>

#include <initializer_list>

#include "runtime/train/yaml_section.h"

namespace ddp::rt::train {
namespace {

constexpr int64_t kMany = 1'000'000'000;
constexpr int64_t kMaxWidth = 65'536;
constexpr int64_t kMaxContext = 1 << 20;
constexpr int kMaxSeconds = 86'400;

// Refuses keys of other models, optimizers and so on.
void ForbidAll(YamlSection& section, std::initializer_list<const char*> keys,
               const std::string& why) {
  for (const char* key : keys) {
    section.Forbid(key, why);
  }
}

void ReadGpt(YamlSection& section, ModelConfig& model) {
  section.Read("layers", 1, 1000, model.layers);
  section.Read("heads", 1, kMaxWidth, model.heads);
  section.Read("width", 1, kMaxWidth, model.width);
  section.Read("context", 1, kMaxContext, model.context);
  section.Read("vocabulary", 2, kMany, model.vocabulary);
  section.Read("dropout", 0, 0.99, model.dropout);
  section.Read("bias", model.bias);
  section.Read("tieWeights", model.tie_weights);
  if (model.width % model.heads != 0) {
    section.Refuse("width", fmt::format("is {}, but must be a multiple of {} (heads)", model.width,
                                        model.heads));
  }
}

void Read(YamlSection section, ModelConfig& model) {
  section.ReadChoice("name", {"convnet", "mlp", "resnet18", "gpt"}, model.name);
  const std::string why = fmt::format("makes no sense with model {}; remove it", model.name);
  if (model.name == "gpt") {
    ReadGpt(section, model);
  } else {
    ForbidAll(
        section,
        {"layers", "heads", "width", "context", "vocabulary", "dropout", "bias", "tieWeights"},
        why);
  }
  if (model.name == "convnet") {
    section.Read("channels", 1, kMaxWidth, model.channels);
  } else {
    section.Forbid("channels", "is of model convnet only; remove it");
  }
  if (model.name == "mlp") {
    section.Read("hiddenLayers", 1, 1000, model.hidden_layers);
  } else {
    section.Forbid("hiddenLayers", why);
  }
  if (model.name == "mlp" || model.name == "convnet") {
    section.Read("hidden", 1, kMaxWidth, model.hidden);
  } else {
    section.Forbid("hidden", why);
  }
  section.Finish();
}

void Read(YamlSection section, DataConfig& data) {
  section.Read("path", data.path);
  section.ReadChoice("format", {"auto", "idx", "cifar10", "tokens", "text"}, data.format);
  section.ReadChoice("tokenType", {"u16", "u32"}, data.token_type);
  section.Read("evaluationPart", 0.0001, 0.9, data.evaluation_part);
  section.Read("loaderThreads", 0, 64, data.loader_threads);
  section.Read("prefetchSteps", 1, 1000, data.prefetch_steps);
  section.Read("dropLast", data.drop_last);
  YamlSection augment = section.Sub("augment");
  augment.Read("rotateDegrees", 0, 180, data.augment.rotate_degrees);
  augment.Read("scale", 0, 0.9, data.augment.scale);
  augment.Read("shiftPixels", 0, 1000, data.augment.shift_pixels);
  augment.Read("flip", data.augment.flip);
  augment.Finish();
  section.Finish();
}

void Read(YamlSection section, OptimizerConfig& optimizer) {
  section.ReadChoice("name", {"sgd", "adam", "adamw"}, optimizer.name);
  section.Read("learningRate", 0, 1000, optimizer.learning_rate);
  section.Read("weightDecay", 0, 1, optimizer.weight_decay);
  section.Read("decayMatricesOnly", optimizer.decay_matrices_only);
  section.Read("clipNorm", 0, 1e9, optimizer.clip_norm);
  section.Read("sharded", optimizer.sharded);
  if (optimizer.name == "sgd") {
    section.Read("momentum", 0, 1, optimizer.momentum);
    section.Read("nesterov", optimizer.nesterov);
    if (optimizer.nesterov && optimizer.momentum == 0) {
      section.Refuse("nesterov", "needs momentum");
    }
    ForbidAll(section, {"beta1", "beta2"}, "is of optimizers adam and adamw only; remove it");
  } else {
    section.Read("beta1", 0, 1, optimizer.beta1);
    section.Read("beta2", 0, 1, optimizer.beta2);
    ForbidAll(section, {"momentum", "nesterov"}, "is of optimizer sgd only; adamw has beta1");
  }
  section.Finish();
}

void Read(YamlSection section, ScheduleConfig& schedule) {
  section.ReadChoice("name", {"constant", "cosine"}, schedule.name);
  section.Read("warmupSteps", 0, kMany, schedule.warmup_steps);
  section.Read("floor", 0, 1, schedule.floor);
  section.Finish();
}

void Read(YamlSection section, TrainConfig& train) {
  section.Read("epochs", 1, kMany, train.epochs);
  section.Read("maxSteps", 0, kMany, train.max_steps);
  section.Read("batchSize", 1, kMany, train.batch_size);
  section.Read("accumulate", 1, kMany, train.accumulate);
  section.Read("seed", train.seed);
  section.Read("threads", 0, 1024, train.threads);
  section.ReadChoice("device", {"auto", "cpu", "cuda"}, train.device);
  section.ReadChoice("precision", {"float32", "bfloat16", "float16"}, train.precision);
  if (train.precision == "float16") {
    section.Read("lossScale", 1, 1e9, train.loss_scale);
  } else {
    section.Forbid("lossScale", "is of precision float16 only; remove it");
  }
  section.ReadChoice("nonFinite", {"abort", "skip", "rollback"}, train.non_finite);
  section.Read("deterministic", train.deterministic);
  section.Read("evaluateEverySteps", 0, kMany, train.evaluate_every_steps);
  section.Read("generateTokens", 0, kMany, train.generate_tokens);
  section.Read("verifyEverySteps", 0, kMany, train.verify_every_steps);
  section.Read("logHashes", train.log_hashes);
  section.Read("logSamples", train.log_samples);
  section.Read("stopSeconds", 1, kMaxSeconds, train.stop_seconds);
  section.Finish();
}

void Read(YamlSection section, CheckpointConfig& checkpoint) {
  section.Read("dir", checkpoint.dir);
  section.Read("everySteps", 0, kMany, checkpoint.every_steps);
  section.Read("keep", 1, 1000, checkpoint.keep);
  section.ReadChoice("onFailure", {"continue", "fail"}, checkpoint.on_failure);
  section.Finish();
}

void Read(YamlSection section, DistributedConfig& distributed) {
  section.ReadChoice("transport", {"auto", "shm", "tcp", "nccl"}, distributed.transport);
  section.ReadChoice("compression", {"none", "bfloat16", "float16"}, distributed.compression);
  section.Read("findUnusedParameters", distributed.find_unused_parameters);
  section.Read("syncBatchNorm", distributed.sync_batch_norm);
  section.Read("bucketMegabytes", 0.001, 100'000, distributed.bucket_megabytes);
  section.Read("initTimeoutSeconds", 1, kMaxSeconds, distributed.init_timeout_seconds);
  section.Read("timeoutSeconds", 1, kMaxSeconds, distributed.timeout_seconds);
  section.Read("evaluationTimeoutSeconds", 1, kMaxSeconds, distributed.evaluation_timeout_seconds);
  section.Read("checkpointTimeoutSeconds", 1, kMaxSeconds, distributed.checkpoint_timeout_seconds);
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
  std::string text = fmt::format(
      "model {} {} {} {} {} {} {} {} {} {} {} {}\n", c.model.name, c.model.channels, c.model.hidden,
      c.model.hidden_layers, c.model.layers, c.model.heads, c.model.width, c.model.context,
      c.model.vocabulary, c.model.dropout, c.model.bias, c.model.tie_weights);
  text += fmt::format("data {} {} {} {} {} {} {} {} {}\n", c.data.path, c.data.format,
                      c.data.token_type, c.data.evaluation_part, c.data.augment.rotate_degrees,
                      c.data.augment.scale, c.data.augment.shift_pixels, c.data.augment.flip,
                      c.data.drop_last);
  text += fmt::format("optimizer {} {} {} {} {} {} {} {} {}\n", c.optimizer.name,
                      c.optimizer.learning_rate, c.optimizer.momentum, c.optimizer.nesterov,
                      c.optimizer.beta1, c.optimizer.beta2, c.optimizer.weight_decay,
                      c.optimizer.decay_matrices_only, c.optimizer.clip_norm);
  text += fmt::format("schedule {} {} {}\n", c.schedule.name, c.schedule.warmup_steps,
                      c.schedule.floor);
  text += fmt::format("train {} {} {} {} {} {} {}\n", c.train.epochs, c.train.batch_size,
                      c.train.accumulate, c.train.seed, c.train.precision, c.train.non_finite,
                      c.train.deterministic);
  text +=
      fmt::format("distributed {} {}\n", c.distributed.compression, c.distributed.sync_batch_norm);
  return text;
}

}  // namespace ddp::rt::train
