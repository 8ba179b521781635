#include <span>

#include "runtime/base/error.h"
#include "runtime/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ddp::rt;
  try {
    const auto tensors = checkpoint::ParseSafetensors(std::as_bytes(std::span(data, size)));
    size_t sum = 0;
    for (const auto& tensor : tensors) {
      for (const std::byte byte : tensor.elements) {
        sum += std::to_integer<size_t>(byte);
      }
    }
    DDP_RT_CHECK(sum <= 255 * size, "elements lie within the file");
    checkpoint::SafetensorsHeader(tensors);
  } catch (const Error& refused) {
    DDP_RT_CHECK(refused.code() == ExitCode::kData, refused.what());
  }
  return 0;
}

std::vector<std::string> ddp::fuzz::Seeds() {
  using namespace ddp::rt;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const auto bytes = std::as_bytes(std::span(values));
  const std::vector<checkpoint::TensorView> tensors = {
      {.name = "a", .type = checkpoint::DType::kF32, .shape = {2, 2}, .elements = bytes.first(16)},
      {.name = "b", .type = checkpoint::DType::kI64, .shape = {}, .elements = bytes.first(8)},
      {.name = "c", .type = checkpoint::DType::kBF16, .shape = {0}, .elements = {}}};
  std::string file = checkpoint::SafetensorsHeader(tensors);
  file.append(reinterpret_cast<const char*>(bytes.data()), 24);
  return {file, std::string(8, '\0'), std::string("\x02\0\0\0\0\0\0\0{}", 10)};
}
