#include "runtime/base/error.h"
#include "runtime/data/idx.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const int dimensions : {1, 3}) {
    try {
      const auto view = ddp::rt::data::ParseIdx("fuzz", {data, size}, dimensions);
      DDP_RT_CHECK(view.elements.data() + view.elements.size() == data + size,
                   "elements end where the file does");
    } catch (const ddp::rt::Error& refused) {
      DDP_RT_CHECK(refused.code() == ddp::rt::ExitCode::kData, refused.what());
    }
  }
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  using namespace std::string_literals;
  return {"\0\0\x08\x01\0\0\0\x03\x07\x08\x09"s,
          "\0\0\x08\x03\0\0\0\x03\0\0\0\x01\0\0\0\x02"
          "123456"s};
}
