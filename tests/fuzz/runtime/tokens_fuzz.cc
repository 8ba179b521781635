#include <memory>

#include "runtime/base/error.h"
#include "runtime/data/tokens.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddp::rt;
  for (const auto type : {data::TokenType::kU16, data::TokenType::kU32}) {
    try {
      const data::TokenView view = data::ParseTokens("fuzz", {data, size}, type);
      const data::TokenDataset set({{"fuzz", view, nullptr}}, 3, 300);
      for (int64_t i = 0; i < set.size(); ++i) {
        const auto batch = set.Make({&i, 1}, nullptr);
        DDP_RT_CHECK(batch.labels.max().item<int64_t>() < 300, "tokens are in range");
      }
    } catch (const Error& refused) {
      DDP_RT_CHECK(refused.code() == ExitCode::kData, refused.what());
    }
  }
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  using namespace std::string_literals;
  std::string header = "\x88\xd8\x34\x01\x01\0\0\0\x04\0\0\0"s;
  header.resize(1024);
  return {"\x01\0\x02\0\x03\0\x04\0\x05\0"s, header + "\x01\0\x02\0\x03\0\x04\0"s};
}
