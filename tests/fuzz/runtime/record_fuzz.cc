#include <string_view>

#include "runtime/base/error.h"
#include "runtime/checkpoint/record.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddp::rt;
  try {
    const auto record = checkpoint::ParseRecord({reinterpret_cast<const char*>(data), size});
    const auto again = checkpoint::ParseRecord(checkpoint::FormatRecord(record));
    DDP_RT_CHECK(again.position == record.position && again.files == record.files,
                 "what is read can be written");
  } catch (const Error& refused) {
    DDP_RT_CHECK(refused.code() == ExitCode::kData, refused.what());
  }
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  return {ddp::rt::checkpoint::FormatRecord(
      {.position = {.step = 120,
                    .epoch = 1,
                    .cursor = 64,
                    .seed = 1,
                    .world_size = 2,
                    .learning_rate = 0.1,
                    .config_hash = "c0ffee"},
       .files = {{.name = "model.safetensors", .bytes = 12, .xxh3 = "0123456789abcdef"}}})};
}
