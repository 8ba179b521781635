#include "runtime/train/config.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace ddp::rt::train {
namespace {

TEST(Config, DefaultsAreComplete) {
  const Config config = ParseConfig("", "empty");
  EXPECT_EQ(config.model.name, "convnet");
  EXPECT_EQ(config.data.path, "digits");
  EXPECT_EQ(config.checkpoint.keep, 2);
}

TEST(Config, ReadsEveryKey) {
  const Config config = ParseConfig(R"(
model: {name: mlp, hidden: 32}
data:
  path: /data/digits
  augment: {rotateDegrees: 10, scale: 0.1, shiftPixels: 1.5}
optimizer: {name: adamw, learningRate: 1e-3, weightDecay: 0.01, beta1: 0.8, beta2: 0.99}
schedule: {name: cosine, warmupSteps: 20}
train: {epochs: 3, maxSteps: 50, batchSize: 128, seed: 18446744073709551615, threads: 2,
        deterministic: false, verifyEverySteps: 5, logHashes: true, stopSeconds: 9}
checkpoint: {dir: /ckpt, everySteps: 10, keep: 3}
distributed: {transport: tcp, initTimeoutSeconds: 30, timeoutSeconds: 20}
)",
                                    "file");
  EXPECT_EQ(config.model.name, "mlp");
  EXPECT_EQ(config.model.hidden, 32);
  EXPECT_EQ(config.data.path, "/data/digits");
  EXPECT_EQ(config.data.augment.shift_pixels, 1.5);
  EXPECT_EQ(config.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(config.optimizer.beta2, 0.99);
  EXPECT_EQ(config.schedule.warmup_steps, 20);
  EXPECT_EQ(config.train.seed, UINT64_MAX);
  EXPECT_EQ(config.train.max_steps, 50);
  EXPECT_FALSE(config.train.deterministic);
  EXPECT_TRUE(config.train.log_hashes);
  EXPECT_EQ(config.checkpoint.dir, "/ckpt");
  EXPECT_EQ(config.checkpoint.keep, 3);
  EXPECT_EQ(config.distributed.transport, "tcp");
  EXPECT_EQ(config.distributed.timeout_seconds, 20);
}

TEST(Config, ReadsEveryKeyOfTheRest) {
  const Config config = ParseConfig(R"(
model: {name: gpt, layers: 2, heads: 2, width: 64, context: 32, vocabulary: 100, dropout: 0.1,
        bias: false, tieWeights: false}
data: {path: shakespeare, format: text, tokenType: u32, evaluationPart: 0.2, loaderThreads: 2,
       prefetchSteps: 8, dropLast: true, augment: {flip: true}}
optimizer: {name: sgd, nesterov: true, decayMatricesOnly: true, clipNorm: 1.0, sharded: true}
schedule: {name: cosine, floor: 0.1}
train: {accumulate: 4, device: cpu, precision: float16, lossScale: 1024, nonFinite: rollback,
        evaluateEverySteps: 10, generateTokens: 100, logSamples: true}
distributed: {compression: bfloat16, findUnusedParameters: true, syncBatchNorm: true,
              bucketMegabytes: 0.5}
)",
                                    "file");
  EXPECT_TRUE(config.model.takes_tokens());
  EXPECT_EQ(config.model.width, 64);
  EXPECT_FALSE(config.model.tie_weights);
  EXPECT_EQ(config.data.token_type, "u32");
  EXPECT_TRUE(config.data.augment.flip);
  EXPECT_TRUE(config.optimizer.nesterov);
  EXPECT_EQ(config.schedule.floor, 0.1);
  EXPECT_EQ(config.train.loss_scale, 1024);
  EXPECT_EQ(config.train.non_finite, "rollback");
  EXPECT_EQ(config.distributed.bucket_megabytes, 0.5);
}

TEST(Config, ErrorsSayWhereAndWhat) {
  struct Bad {
    const char* yaml;
    const char* says;
  };
  for (const auto& [yaml, says] : {
           Bad{"train:\n  epoch: 3\n", "f:2: unknown key 'train.epoch'; did you mean 'epochs'?"},
           Bad{"trian: {}", "f:1: unknown key 'trian'; did you mean 'train'?"},
           Bad{"train: {zzzzzz: 1}",
               "f:1: unknown key 'train.zzzzzz'; known here: epochs, maxSteps, batchSize"},
           Bad{"train: {epochs: 0}",
               "f:1: 'train.epochs' is '0', but must be a whole number from 1 to 1000000000"},
           Bad{"train: {epochs: \"3\"}", "'train.epochs' is '3', but must be a whole number"},
           Bad{"train: {epochs: 3.5}", "'train.epochs' is '3.5', but must be a whole number"},
           Bad{"train: {epochs: [3]}", "'train.epochs' must be a whole number"},
           Bad{"train: {epochs: }", "'train.epochs' must be a whole number"},
           Bad{"train: {epochs: 1, epochs: 2}", "f:1: key 'train.epochs' appears twice"},
           Bad{"train: {seed: -1}", "'train.seed' is '-1', but must be a whole number from 0"},
           Bad{"train: {deterministic: yes}",
               "'train.deterministic' is 'yes', but must be true or false"},
           Bad{"train: 3", "f:1: 'train' must be a mapping"},
           Bad{"- 1", "f:1: the config must be a mapping"},
           Bad{"optimizer: {learningRate: fast}",
               "'optimizer.learningRate' is 'fast', but must be a number from 0 to 1000"},
           Bad{"optimizer: {learningRate: .inf}", "'optimizer.learningRate' is '.inf'"},
           Bad{"optimizer: {learningRate: nan}", "'optimizer.learningRate' is 'nan'"},
           Bad{"optimizer: {name: lamb}",
               "'optimizer.name' is 'lamb', but must be one of sgd, adam, adamw"},
           Bad{"optimizer: {name: adamw, momentum: 0.9}",
               "'optimizer.momentum' is of optimizer sgd only; adamw has beta1"},
           Bad{"optimizer: {beta1: 0.9}", "'optimizer.beta1' is of optimizers adam and adamw only"},
           Bad{"model: {name: mlp, channels: 3}", "'model.channels' is of model convnet only"},
           Bad{"model: {name: mlp,\n  heads: 3}",
               "f:2: 'model.heads' makes no sense with model mlp"},
           Bad{"model: {name: gpt, width: 100}",
               "f:1: 'model.width' is 100, but must be a multiple of 6 (heads)"},
           Bad{"optimizer: {momentum: 0, nesterov: true}", "'optimizer.nesterov' needs momentum"},
           Bad{"train: {lossScale: 2}", "'train.lossScale' is of precision float16 only"},
           Bad{"train: {precision: fp16}", "must be one of float32, bfloat16, float16"},
           Bad{"data: {path: \"\"}", "'data.path' must not be empty"},
           Bad{"data:\n  augment:\n    rotate: 3\n", "f:3: unknown key 'data.augment.rotate'"},
           Bad{"checkpoint: {keep: 0}",
               "'checkpoint.keep' is '0', but must be a whole number from 1"},
           Bad{"a: [\n", "f:2: not valid YAML"},
           Bad{"a: 1\n---\nb: 2\n", "f: it has several YAML documents, expected one"},
           Bad{"{{a: 1}: 2}", "a key must be plain text"},
       }) {
    try {
      ParseConfig(yaml, "f");
      ADD_FAILURE() << "accepted " << yaml << ", wanted: " << says;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kConfig);
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
  }
}

TEST(Config, DeepDocumentsAreRefusedNotFollowed) {
  EXPECT_THROW(ParseConfig(std::string(100'000, '['), "f"), Error);
  EXPECT_THROW(ParseConfig(std::string(100'000, '{'), "f"), Error);
}

TEST(Config, FingerprintCoversWhatIsComputedOnly) {
  const auto print = [](const char* yaml) { return Fingerprint(ParseConfig(yaml, "f")); };
  EXPECT_EQ(print(""), print("{checkpoint: {dir: /x}, distributed: {timeoutSeconds: 9}}"));
  EXPECT_NE(print(""), print("{train: {seed: 2}}"));
  EXPECT_NE(print(""), print("{optimizer: {momentum: 0.8}}"));
}

}  // namespace
}  // namespace ddp::rt::train
