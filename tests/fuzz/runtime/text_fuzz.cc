#include <string_view>

#include "runtime/base/error.h"
#include "runtime/data/text.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddp::rt;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    std::string again;
    for (const int32_t character : data::DecodeUtf8("fuzz", bytes)) {
      again += data::EncodeUtf8(character);
    }
    DDP_RT_CHECK(again == bytes, "what is read can be written");
  } catch (const Error& refused) {
    DDP_RT_CHECK(refused.code() == ExitCode::kData, refused.what());
  }
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  return {"To be, or not to be", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xed\xa0\x80"};
}
