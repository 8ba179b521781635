#include "runtime/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"

namespace ddp::rt::checkpoint {
namespace {

std::vector<std::byte> Bytes(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// A file with this header and so many bytes of elements.
std::vector<std::byte> File(const std::string& header, size_t elements) {
  std::string text(8, '\0');
  text[0] = static_cast<char>(header.size() & 0xff);
  text[1] = static_cast<char>(header.size() >> 8);
  return Bytes(text + header + std::string(elements, 'x'));
}

TEST(Safetensors, RoundTrips) {
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> step = {42};
  const std::vector<TensorView> tensors = {
      {.name = "weights",
       .type = DType::kF32,
       .shape = {2, 3},
       .elements = std::as_bytes(std::span(weights))},
      {.name = "a step",
       .type = DType::kI64,
       .shape = {},
       .elements = std::as_bytes(std::span(step))},
      {.name = "none", .type = DType::kF16, .shape = {0, 7}, .elements = {}},
  };
  auto file = Bytes(SafetensorsHeader(tensors));
  EXPECT_EQ(file.size() % 8, 0U);
  for (const auto& tensor : tensors) {
    file.insert(file.end(), tensor.elements.begin(), tensor.elements.end());
  }
  const auto read = ParseSafetensors(file);
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[0].name, "weights");
  EXPECT_EQ(read[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(std::ranges::equal(read[0].elements, std::as_bytes(std::span(weights))));
  EXPECT_EQ(read[1].name, "a step");
  EXPECT_TRUE(read[1].shape.empty());
  EXPECT_EQ(read[2].name, "none");
  EXPECT_EQ(read[2].type, DType::kF16);
}

TEST(Safetensors, ReadsWhatPythonWrites) {
  // safetensors.numpy.save({"a": np.array([1.5], np.float32)}, metadata={"format": "pt"})
  auto file = File(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} )",
      4);
  const auto read = ParseSafetensors(file);
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].name, "a");
}

TEST(Safetensors, RefusesWhatDoesNotFit) {
  struct Bad {
    std::vector<std::byte> file;
    const char* says;
  };
  const auto one = [](const char* entry, size_t elements) {
    return File(std::string(R"({"a":)") + entry + "}", elements);
  };
  for (const auto& [file, says] : {
           Bad{Bytes("1234"), "only 4 bytes"},
           Bad{Bytes(std::string(8, '\xff')), "announces a header of 18446744073709551615 bytes"},
           Bad{Bytes(std::string("\x05\0\0\0\0\0\0\0{}", 10)), "announces a header of 5 bytes"},
           Bad{File("{", 0), "not JSON"},
           Bad{File("[]", 0), "not a JSON object"},
           Bad{one("3", 0), "no valid 'dtype'"},
           Bad{one(R"({"dtype":"F31","shape":[],"data_offsets":[0,4]})", 4), "type 'F31'"},
           Bad{one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4),
               "shape that is not a whole"},
           Bad{one(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})", 4),
               "shape that is not a whole"},
           Bad{one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4),
               "needs 8 bytes, but has 4"},
           Bad{one(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]})", 0),
               "impossible shape"},
           Bad{one(R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,0]})", 0),
               "impossible shape"},
           Bad{one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})", 4), "lies at 0 to 8"},
           Bad{one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4), "lies at 4 to 0"},
           Bad{one(R"({"dtype":"F32","shape":[1],"data_offsets":[4]})", 4),
               "no valid 'data_offsets'"},
           Bad{one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 8), "gap or an overlap"},
           Bad{one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 8),
               "bytes follow the last"},
           Bad{File(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}})", 0),
               "appears twice"},
       }) {
    try {
      ParseSafetensors(file);
      ADD_FAILURE() << "accepted, wanted: " << says;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kData);
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace ddp::rt::checkpoint
