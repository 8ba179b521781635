#include "runtime/checkpoint/record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>

#include "runtime/base/error.h"
#include "runtime/checkpoint/file.h"

namespace ddp::rt::checkpoint {
namespace {

using nlohmann::json;

constexpr int kFormat = 2;
constexpr int kFormatWithoutState = 1;  // else the same

// Keys are sorted and numbers written in one way, so equal records give equal text.
std::string ChecksumOf(const json& body) {
  const std::string text = body.dump();
  return ToHex(Checksum(std::as_bytes(std::span(text))));
}

// A record must not lead a reader out of the checkpoint's folder.
std::string PlainName(const json& name) {
  auto text = name.get<std::string>();
  if (text.empty() || text.find('/') != std::string::npos || text.starts_with('.')) {
    throw Error(ExitCode::kData, fmt::format("it lists '{}', which is no file's name", text));
  }
  return text;
}

json FilesToJson(const std::vector<FileEntry>& files) {
  json list = json::array();
  for (const FileEntry& file : files) {
    list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.xxh3}});
  }
  return list;
}

}  // namespace

std::string FormatRecord(const Record& record) {
  const Position& at = record.position;
  const json body = {
      {"format", kFormat},
      {"step", at.step},
      {"epoch", at.epoch},
      {"sampler", {{"seed", at.seed}, {"cursor", at.cursor}}},
      {"worldSize", at.world_size},
      {"schedule", {{"learningRate", at.learning_rate}}},
      {"configHash", at.config_hash},
      {"state", record.state},
      {"files", FilesToJson(record.files)},
  };
  const json document = {{"checkpoint", body}, {"xxh3", ChecksumOf(body)}};
  return document.dump(2) + "\n";
}

Record ParseRecord(std::string_view text) {
  try {
    const json document = json::parse(text);
    const json& body = document.at("checkpoint");
    if (document.at("xxh3").get<std::string>() != ChecksumOf(body)) {
      throw Error(ExitCode::kData, "its checksum does not fit its content");
    }
    const int format = body.at("format").get<int>();
    if (format != kFormat && format != kFormatWithoutState) {
      throw Error(ExitCode::kData,
                  fmt::format("it has format {}, and this program knows {} and {}: use the version "
                              "of it that saved the checkpoint, or a newer one",
                              format, kFormatWithoutState, kFormat));
    }
    Record record;
    record.position = {.step = body.at("step").get<int64_t>(),
                       .epoch = body.at("epoch").get<int64_t>(),
                       .cursor = body.at("sampler").at("cursor").get<int64_t>(),
                       .seed = body.at("sampler").at("seed").get<uint64_t>(),
                       .world_size = body.at("worldSize").get<int>(),
                       .learning_rate = body.at("schedule").at("learningRate").get<double>(),
                       .config_hash = body.at("configHash").get<std::string>()};
    if (format != kFormatWithoutState) {
      record.state = body.at("state").get<State>();
    }
    for (const json& file : body.at("files")) {
      record.files.push_back({.name = PlainName(file.at("name")),
                              .bytes = file.at("bytes").get<uint64_t>(),
                              .xxh3 = file.at("xxh3").get<std::string>()});
    }
    return record;
  } catch (const json::exception& e) {
    throw Error(ExitCode::kData, fmt::format("it is not a commit record ({})", e.what()));
  }
}

}  // namespace ddp::rt::checkpoint
