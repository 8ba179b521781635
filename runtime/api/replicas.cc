#include <fmt/format.h>

#include "ddp/distributed_data_parallel.h"
#include "runtime/api/context.h"
#include "runtime/ddp/module.h"

namespace ddp {
namespace {

rt::DataParallelOptions EngineOptions(const DdpOptions& options) {
  rt::DataParallelOptions engine;
  engine.bucket_bytes = options.bucket_bytes;
  engine.first_bucket_bytes = std::min(engine.first_bucket_bytes, options.bucket_bytes);
  engine.last_bucket_bytes = std::min(engine.last_bucket_bytes, options.bucket_bytes);
  engine.compression = options.compression;
  engine.find_unused_parameters = options.find_unused_parameters;
  engine.shard_optimizer = options.shard_optimizer;
  engine.scatter_gradients = options.scatter_gradients;
  engine.name = fmt::format("model-{}", ++CurrentContext().models);
  return engine;
}

}  // namespace

Replicas::Replicas(const torch::nn::Module& module, const DdpOptions& options)
    : engine_(rt::NamedParameters(module), rt::NamedBuffers(module), DefaultGroup(), DefaultStore(),
              EngineOptions(options)),
      broadcast_buffers_(options.broadcast_buffers) {}

void Replicas::BeforeForward(bool training) {
  if (!training || !at::GradMode::is_enabled()) {
    return;
  }
  engine_.BeginForward();
  if (broadcast_buffers_ && engine_.reduces()) {
    engine_.BroadcastBuffers();
  }
}

}  // namespace ddp
