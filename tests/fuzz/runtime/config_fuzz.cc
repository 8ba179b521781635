#include <string_view>

#include "runtime/base/error.h"
#include "runtime/train/config.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    ddp::rt::train::ParseConfig({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const ddp::rt::Error& refused) {
    DDP_RT_CHECK(refused.code() == ddp::rt::ExitCode::kConfig, refused.what());
  }
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  return {
      "model: {name: mlp, hidden: 32}\ndata:\n  path: digits\n  augment: {scale: 0.1}\n",
      "optimizer: {name: adamw, learningRate: 1e-3, beta1: 0.8}\n"
      "schedule: {name: cosine, warmupSteps: 20}\n",
      "train: {epochs: 3, seed: 1, deterministic: false}\ncheckpoint: {dir: /c, keep: 3}\n",
      "model: {name: gpt, heads: 4, width: 64}\ndata: {path: a, format: text, dropLast: true}\n"
      "train: {precision: float16, lossScale: 8, nonFinite: skip, accumulate: 2}\n",
      "distributed: {compression: bfloat16, syncBatchNorm: true, bucketMegabytes: 0.5}\n",
      "distributed: &a {transport: tcp}\nx: *a\n? [1, 2]\n: |\n  text\n",
  };
}
