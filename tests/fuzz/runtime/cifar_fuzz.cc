#include "runtime/base/error.h"
#include "runtime/data/cifar.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddp::rt;
  try {
    data::ImageSet set;
    data::AppendCifar("fuzz", {data, size}, set);
    DDP_RT_CHECK(static_cast<size_t>(set.count) * 3073 == size &&
                     set.pixels.size() + set.labels.size() == size,
                 "all of it is read");
  } catch (const Error& refused) {
    DDP_RT_CHECK(refused.code() == ExitCode::kData, refused.what());
  }
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  return {std::string(3073, '\x05'), std::string(2 * 3073, '\0')};
}
