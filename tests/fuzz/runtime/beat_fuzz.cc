// What ranks tell each other through the store: heartbeats and parts of a checkpoint.
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/checkpoint/pieces.h"
#include "runtime/checkpoint/shards.h"
#include "runtime/health/heartbeat.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddp::rt;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto beat = health::ParseBeat(text)) {
    DDP_RT_CHECK(health::ParseBeat(health::FormatBeat(*beat)), "what is read can be written");
  }
  if (const auto piece = checkpoint::ParsePieceName(text)) {
    DDP_RT_CHECK(0 <= piece->begin && piece->begin <= piece->end && !piece->whole.empty(),
                 "a piece is a range");
  }
  try {
    const auto shard = checkpoint::ParseShard(1, text);
    DDP_RT_CHECK(checkpoint::ParseShard(1, checkpoint::FormatShard(shard)) == shard,
                 "what is read can be written");
  } catch (const Error& refused) {
    DDP_RT_CHECK(refused.code() == ExitCode::kSoftware, refused.what());
  }
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  return {
      ddp::rt::health::FormatBeat({12, 1764542096.5, 0.25, 3.5}),
      ddp::rt::checkpoint::FormatShard({"optimizer-1-of-2.safetensors", 12, "0123456789abcdef"}),
      "average.fc.weight[12:345]"};
}
