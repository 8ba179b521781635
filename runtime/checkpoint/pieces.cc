#include "runtime/checkpoint/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include "runtime/base/error.h"

namespace ddp::rt::checkpoint {
namespace {

struct Piece {
  int64_t begin;
  int64_t end;
  const TensorView* view;
};

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && stop == text.data() + text.size();
  return whole && value >= 0 ? std::optional(value) : std::nullopt;
}

// The shape of the parameter that this is state of: "average.fc.weight" of "fc.weight".
std::vector<int64_t> ShapeFor(std::string_view name, int64_t elements,
                              const std::vector<TensorView>& model) {
  const size_t dot = name.find('.');
  const std::string_view parameter = dot == std::string_view::npos ? name : name.substr(dot + 1);
  for (const TensorView& tensor : model) {
    if (tensor.name == parameter &&
        tensor.elements.size() == static_cast<size_t>(elements) * ElementSize(tensor.type)) {
      return tensor.shape;
    }
  }
  return {elements};
}

std::vector<std::byte> Concatenate(std::string_view name, std::vector<Piece>& pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  const DType type = pieces.front().view->type;
  std::vector<std::byte> bytes;
  int64_t next = 0;
  for (const Piece& piece : pieces) {
    const auto size = static_cast<size_t>(piece.end - piece.begin) * ElementSize(type);
    if (piece.begin != next || piece.view->type != type || piece.view->elements.size() != size) {
      throw Error(ExitCode::kData, fmt::format("the pieces of '{}' do not fit together at element "
                                               "{}: '{}' comes next",
                                               name, next, piece.view->name));
    }
    bytes.insert(bytes.end(), piece.view->elements.begin(), piece.view->elements.end());
    next = piece.end;
  }
  return bytes;
}

}  // namespace

std::optional<PieceName> ParsePieceName(std::string_view name) {
  const size_t open = name.rfind('[');
  const size_t colon = open == std::string_view::npos ? open : name.find(':', open);
  if (colon == std::string_view::npos || !name.ends_with(']')) {
    return std::nullopt;
  }
  const auto begin = Number(name.substr(open + 1, colon - open - 1));
  const auto end = Number(name.substr(colon + 1, name.size() - colon - 2));
  if (!begin || !end || *begin > *end || open == 0) {
    return std::nullopt;
  }
  return PieceName{.whole = name.substr(0, open), .begin = *begin, .end = *end};
}

Joined JoinPieces(const std::vector<TensorView>& pieces, const std::vector<TensorView>& model) {
  std::map<std::string_view, std::vector<Piece>> parts;
  std::map<std::string_view, const TensorView*> whole;
  for (const TensorView& view : pieces) {
    if (const auto name = ParsePieceName(view.name)) {
      parts[name->whole].push_back({name->begin, name->end, &view});
    } else if (const auto [there, added] = whole.emplace(view.name, &view);
               !added && !std::ranges::equal(there->second->elements, view.elements)) {
      throw Error(ExitCode::kData, fmt::format("the ranks' files differ in '{}'", view.name));
    }
  }
  Joined joined;
  for (const auto& [name, view] : whole) {
    joined.tensors.push_back(*view);
  }
  for (auto& [name, of_name] : parts) {
    joined.bytes.push_back(Concatenate(name, of_name));
    const DType type = of_name.front().view->type;
    const auto elements = static_cast<int64_t>(joined.bytes.back().size() / ElementSize(type));
    joined.tensors.push_back({.name = std::string(name),
                              .type = type,
                              .shape = ShapeFor(name, elements, model),
                              .elements = joined.bytes.back()});
  }
  return joined;
}

}  // namespace ddp::rt::checkpoint
