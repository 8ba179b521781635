#include "runtime/ddp/state_pieces.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "runtime/base/error.h"

namespace ddp::rt {
namespace {

struct Source {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  at::Tensor flat;
  std::vector<std::int64_t> shape;  // of a whole tensor
};
using Sources = std::map<std::string, std::vector<Source>>;

Sources Collect(const std::vector<NamedTensor>& from, const std::string& where) {
  Sources sources;
  for (const auto& [name, tensor] : from) {
    const PieceName piece = ParsePieceName(name);
    const std::int64_t length = tensor.numel();
    if (!piece.whole() && piece.end - piece.begin != length) {
      throw Error(ExitCode::kConfig, fmt::format("{}: '{}' has {} elements", where, name, length));
    }
    sources[piece.tensor].push_back(
        {piece.begin, piece.begin + length, tensor.detach().contiguous().reshape({-1}),
         piece.whole() ? tensor.sizes().vec() : std::vector<std::int64_t>()});
  }
  for (auto& [name, pieces] : sources) {
    std::sort(pieces.begin(), pieces.end(),
              [](const Source& a, const Source& b) { return a.begin < b.begin; });
  }
  return sources;
}

void Fill(const Sources& sources, const NamedTensor& target, const std::string& where) {
  const PieceName piece = ParsePieceName(target.name);
  const bool contiguous = target.tensor.is_contiguous();
  const at::Tensor dense =
      contiguous ? target.tensor.detach()
                 : at::empty(target.tensor.sizes(), target.tensor.options().requires_grad(false));
  const at::Tensor flat = dense.view({-1});
  const std::int64_t begin = piece.whole() ? 0 : piece.begin;
  const std::int64_t end = begin + flat.numel();
  std::int64_t done = begin;
  const auto found = sources.find(piece.tensor);
  if (found != sources.end()) {
    for (const Source& source : found->second) {
      if (piece.whole() && !source.shape.empty() && source.shape != target.tensor.sizes()) {
        throw Error(ExitCode::kConfig, fmt::format("'{}' has the shape [{}] in {}, and [{}] here",
                                                   piece.tensor, fmt::join(source.shape, ", "),
                                                   where, fmt::join(target.tensor.sizes(), ", ")));
      }
      const std::int64_t to = std::min(source.end, end);
      if (source.begin <= done && to > done) {
        flat.narrow(0, done - begin, to - done)
            .copy_(source.flat.narrow(0, done - source.begin, to - done));
        done = to;
      }
    }
  }
  if (done < end) {
    throw Error(
        ExitCode::kConfig,
        found == sources.end()
            ? fmt::format("{} has no tensor '{}', which this run needs", where, piece.tensor)
            : fmt::format("{} has '{}' only up to element {} of {}: is a shard missing?", where,
                          piece.tensor, done, end));
  }
  if (!contiguous) {
    target.tensor.detach().copy_(dense);
  }
}

}  // namespace

std::string FormatPieceName(const PieceName& piece) {
  return piece.whole() ? piece.tensor
                       : fmt::format("{}[{}:{}]", piece.tensor, piece.begin, piece.end);
}

PieceName ParsePieceName(const std::string& name) {
  PieceName piece;
  const std::size_t open = name.rfind('[');
  if (open != std::string::npos && name.back() == ']') {
    const char* const last = name.data() + name.size() - 1;
    const auto begin = std::from_chars(name.data() + open + 1, last, piece.begin);
    if (begin.ec == std::errc() && begin.ptr < last && *begin.ptr == ':') {
      const auto end = std::from_chars(begin.ptr + 1, last, piece.end);
      if (end.ec == std::errc() && end.ptr == last && piece.begin >= 0 &&
          piece.end >= piece.begin) {
        piece.tensor = name.substr(0, open);
        return piece;
      }
    }
  }
  return {.tensor = name, .begin = 0, .end = -1};
}

void CopyPieces(const std::vector<NamedTensor>& from, const std::vector<NamedTensor>& to,
                const std::string& where) {
  const at::NoGradGuard no_grad;
  const Sources sources = Collect(from, where);
  for (const NamedTensor& target : to) {
    Fill(sources, target, where);
  }
}

}  // namespace ddp::rt
