#include "runtime/checkpoint/export.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/temp_folder_test.h"
#include "runtime/checkpoint/file.h"
#include "runtime/checkpoint/folder.h"

namespace ddp::rt::checkpoint {
namespace {

namespace fs = std::filesystem;

const std::vector<float> kWeights = {0.5F, -1, 2, 3e-9F};
const std::vector<int64_t> kStep = {7};

Contents Sample(int64_t step) {
  Contents contents;
  contents.position = {.step = step, .epoch = 1, .config_hash = "c0ffee"};
  contents.state = {{"data.vocabulary", "ab\n\u00e9"}, {"rng.cpu", "00ff"}};
  contents.model = {{.name = "w",
                     .type = DType::kF32,
                     .shape = {2, 2},
                     .elements = std::as_bytes(std::span(kWeights))},
                    {.name = "empty", .type = DType::kBF16, .shape = {0, 3}, .elements = {}}};
  contents.optimizer = {{.name = "step",
                         .type = DType::kI64,
                         .shape = {},
                         .elements = std::as_bytes(std::span(kStep))}};
  return contents;
}

class Exported : public testing::Test {
 protected:
  Exported() {
    CheckpointFolder folder(temp_.path() / "run", 2);
    folder.Save(Sample(6));
    newest_ = folder.Save(Sample(7));
  }
  fs::path To(const char* name) const { return temp_.path() / name; }

  const TempFolder temp_;
  fs::path newest_;
};

TEST_F(Exported, AFolderStandsAlone) {
  EXPECT_EQ(Export({.from = temp_.path() / "run", .to = To("out"), .optimizer = true}), newest_);
  const auto model = ReadFile(To("out") / "model.safetensors");
  const auto tensors = ParseSafetensors(model);
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(ParseSafetensors(ReadFile(To("out") / "optimizer.safetensors")).size(), 1U);
  std::ifstream config(To("out") / "config.json");
  const auto json = nlohmann::json::parse(config);
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["state"], (nlohmann::json{{"data.vocabulary", "ab\n\u00e9"}}));
  EXPECT_EQ(std::distance(fs::directory_iterator(temp_.path()), {}), 2) << "nothing else is left";
}

TEST_F(Exported, OneFileOfOneCheckpoint) {
  const fs::path older = temp_.path() / "run" / FolderName(6);
  EXPECT_EQ(Export({.from = older, .to = To("w.safetensors"), .optimizer = false}), older);
  EXPECT_EQ(ParseSafetensors(ReadFile(To("w.safetensors"))).size(), 2U);
}

TEST_F(Exported, WhatCannotBeIsSaid) {
  const auto code = [](const ExportOptions& options) {
    try {
      Export(options);
    } catch (const Error& e) {
      return e.code();
    }
    return ExitCode::kOk;
  };
  EXPECT_EQ(code({.from = temp_.path() / "none", .to = To("out"), .optimizer = false}),
            ExitCode::kNoInput);
  EXPECT_EQ(code({.from = newest_, .to = temp_.path() / "run", .optimizer = false}),
            ExitCode::kUsage);
  EXPECT_EQ(code({.from = newest_, .to = To("x.safetensors"), .optimizer = true}),
            ExitCode::kUsage);
  fs::resize_file(newest_ / "model.safetensors", 20);
  EXPECT_EQ(code({.from = newest_, .to = To("out"), .optimizer = false}), ExitCode::kData);
  EXPECT_FALSE(fs::exists(To("out")));
}

// With the library that people will read them with.
class PythonSafetensors : public Exported {
 protected:
  void SetUp() override {
    if (!fs::exists(DDP_PYTHON_SAFETENSORS)) {
      GTEST_SKIP() << "no Python library: cmake/fetch.sh safetensors";
    }
  }
  static std::string Run(const std::string& script, const fs::path& file) {
    const std::string command = std::string("PYTHONDONTWRITEBYTECODE=1 PYTHONPATH='") +
                                DDP_PYTHON_SAFETENSORS + "' " DDP_PYTHON " -c '" + script + "' '" +
                                file.string() + "' 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    std::string out;
    std::array<char, 4096> buffer{};
    while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
      out += buffer.data();
    }
    EXPECT_EQ(pclose(pipe), 0) << out;
    return out;
  }
};

constexpr const char* kRead = R"(
import sys, struct, safetensors
for name, t in sorted(safetensors.deserialize(open(sys.argv[1], "rb").read())):
    data = bytes(t["data"])
    print(name, t["dtype"], t["shape"], *(struct.unpack("<4f", data) if name == "w" else [data]))
)";

TEST_F(PythonSafetensors, ReadsCheckpointsAndExports) {
  Export({.from = newest_, .to = To("out"), .optimizer = true});
  for (const fs::path& folder : {newest_, To("out")}) {
    EXPECT_EQ(Run(kRead, folder / "model.safetensors"),
              "empty BF16 [0, 3] b''\nw F32 [2, 2] 0.5 -1.0 2.0 3.000000026176508e-09\n");
    EXPECT_EQ(Run(kRead, folder / "optimizer.safetensors"),
              "step I64 [] b'\\x07\\x00\\x00\\x00\\x00\\x00\\x00\\x00'\n");
  }
}

TEST_F(PythonSafetensors, WritesWhatWeRead) {
  Run(R"(
import ctypes, struct, sys
from safetensors import TensorSpec, serialize
def spec(dtype, shape, data):
    buffers.append(ctypes.create_string_buffer(data, len(data)))
    return TensorSpec(dtype=dtype, shape=shape, data_ptr=ctypes.addressof(buffers[-1]), data_len=len(data))
buffers = []
tensors = {"b": spec("float32", [4], struct.pack("<4f", 1, 2, 3, 4)),
           "a": spec("int64", [1, 1], struct.pack("<q", -5))}
open(sys.argv[1], "wb").write(serialize(tensors, {"who": "python"}))
)",
      To("python.safetensors"));
  const auto bytes = ReadFile(To("python.safetensors"));
  const auto tensors = ParseSafetensors(bytes);
  ASSERT_EQ(tensors.size(), 2U);
  for (const TensorView& tensor : tensors) {
    if (tensor.name == "a") {
      EXPECT_EQ(tensor.shape, (std::vector<int64_t>{1, 1}));
      EXPECT_EQ(*reinterpret_cast<const int64_t*>(tensor.elements.data()), -5);
    } else {
      EXPECT_EQ(tensor.type, DType::kF32);
    }
  }
}

}  // namespace
}  // namespace ddp::rt::checkpoint
