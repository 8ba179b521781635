#include "runtime/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/error.h"

namespace ddp::rt::checkpoint {
namespace {

using nlohmann::json;

struct TypeInfo {
  DType type;
  std::string_view name;
  size_t size;
};
constexpr std::array kTypes = {
    TypeInfo{DType::kU8, "U8", 1},     TypeInfo{DType::kI32, "I32", 4},
    TypeInfo{DType::kI64, "I64", 8},   TypeInfo{DType::kF16, "F16", 2},
    TypeInfo{DType::kBF16, "BF16", 2}, TypeInfo{DType::kF32, "F32", 4},
    TypeInfo{DType::kF64, "F64", 8},
};

constexpr size_t kLengthBytes = 8;
constexpr const char* kMetadata = "__metadata__";
// The Python library's own bound on a header.
constexpr uint64_t kMaxHeader = 100'000'000;

[[noreturn]] void Bad(const std::string& what) {
  throw Error(ExitCode::kData, "not a safetensors file: " + what);
}

const TypeInfo& Info(DType type) {
  return *std::find_if(kTypes.begin(), kTypes.end(),
                       [&](const TypeInfo& info) { return info.type == type; });
}

const TypeInfo& FindType(const std::string& name, const std::string& tensor) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const TypeInfo& info) { return info.name == name; });
  if (found == kTypes.end()) {
    Bad(fmt::format("tensor '{}' has type '{}', which is not known here", tensor, name));
  }
  return *found;
}

json ParseHeader(std::string_view text) {
  std::set<std::string> names;
  const auto refuse_doubles = [&](int depth, json::parse_event_t event, json& value) {
    if (depth == 1 && event == json::parse_event_t::key &&
        !names.insert(value.get<std::string>()).second) {
      Bad(fmt::format("tensor '{}' appears twice", value.get<std::string>()));
    }
    return true;
  };
  json header;
  try {
    header = json::parse(text, refuse_doubles);
  } catch (const json::exception& e) {
    Bad(fmt::format("its header is not JSON ({})", e.what()));
  }
  if (!header.is_object()) {
    Bad("its header is not a JSON object");
  }
  return header;
}

uint64_t Unsigned(const json& value, const std::string& tensor, const char* what) {
  if (!value.is_number_unsigned()) {
    Bad(fmt::format("tensor '{}' has a {} that is not a whole number", tensor, what));
  }
  return value.get<uint64_t>();
}

const json& Member(const json& object, const std::string& tensor, const char* key,
                   json::value_t type) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || found->type() != type) {
    Bad(fmt::format("tensor '{}' has no valid '{}'", tensor, key));
  }
  return *found;
}

// Bytes that a tensor of this shape needs.
uint64_t BytesOf(const TensorView& tensor) {
  uint64_t bytes = ElementSize(tensor.type);
  for (const int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      Bad(fmt::format("tensor '{}' has an impossible shape", tensor.name));
    }
  }
  return bytes;
}

TensorView ParseTensor(const std::string& name, const json& entry,
                       std::span<const std::byte> elements) {
  TensorView tensor;
  tensor.name = name;
  tensor.type = FindType(Member(entry, name, "dtype", json::value_t::string), name).type;
  for (const json& size : Member(entry, name, "shape", json::value_t::array)) {
    const uint64_t value = Unsigned(size, name, "shape");
    if (value > static_cast<uint64_t>(INT64_MAX)) {
      Bad(fmt::format("tensor '{}' has an impossible shape", name));
    }
    tensor.shape.push_back(static_cast<int64_t>(value));
  }
  const json& place = Member(entry, name, "data_offsets", json::value_t::array);
  if (place.size() != 2) {
    Bad(fmt::format("tensor '{}' has no valid 'data_offsets'", name));
  }
  const uint64_t begin = Unsigned(place[0], name, "place");
  const uint64_t end = Unsigned(place[1], name, "place");
  if (begin > end || end > elements.size()) {
    Bad(fmt::format("tensor '{}' lies at {} to {}, but the elements are {} bytes", name, begin, end,
                    elements.size()));
  }
  if (const uint64_t needed = BytesOf(tensor); needed != end - begin) {
    Bad(fmt::format("tensor '{}' needs {} bytes, but has {}", name, needed, end - begin));
  }
  tensor.elements = elements.subspan(begin, end - begin);
  return tensor;
}

void CheckNoGaps(std::span<const TensorView> tensors, std::span<const std::byte> elements) {
  const std::byte* next = elements.data();
  for (const TensorView& tensor : tensors) {
    if (tensor.elements.data() != next) {
      Bad(fmt::format("there is a gap or an overlap before tensor '{}'", tensor.name));
    }
    next += tensor.elements.size();
  }
  if (next != elements.data() + elements.size()) {
    Bad("bytes follow the last tensor");
  }
}

}  // namespace

size_t ElementSize(DType type) { return Info(type).size; }

std::string_view TypeName(DType type) { return Info(type).name; }

std::string SafetensorsHeader(std::span<const TensorView> tensors,
                              const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) {
    header[kMetadata] = metadata;
  }
  uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    const uint64_t end = offset + tensor.elements.size();
    DDP_RT_CHECK(BytesOf(tensor) == tensor.elements.size(), "shape and elements of " + tensor.name);
    DDP_RT_CHECK(!header.contains(tensor.name), "two tensors named " + tensor.name);
    header[tensor.name] = {
        {"dtype", TypeName(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  // Spaces, so that the elements are aligned.
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::string length(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  }
  return length + text;
}

std::vector<TensorView> ParseSafetensors(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    Bad(fmt::format("it has only {} bytes", file.size()));
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  }
  if (length > kMaxHeader || length > file.size() - kLengthBytes) {
    Bad(fmt::format("it announces a header of {} bytes, but has {} bytes", length, file.size()));
  }
  const auto text = file.subspan(kLengthBytes, length);
  const auto elements = file.subspan(kLengthBytes + length);
  const json header = ParseHeader({reinterpret_cast<const char*>(text.data()), text.size()});
  std::vector<TensorView> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name != kMetadata) {
      tensors.push_back(ParseTensor(name, entry, elements));
    }
  }
  // Tensors without elements share their place with the next one and come first.
  std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    return std::pair(a.elements.data(), a.elements.size()) <
           std::pair(b.elements.data(), b.elements.size());
  });
  CheckNoGaps(tensors, elements);
  return tensors;
}

}  // namespace ddp::rt::checkpoint
