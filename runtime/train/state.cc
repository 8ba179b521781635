#include "runtime/train/state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "runtime/base/error.h"
#include "runtime/checkpoint/pieces.h"

namespace ddp::rt::train {
namespace {

using checkpoint::DType;
using checkpoint::TensorView;

DType TypeOf(const NamedTensor& item) {
  switch (item.tensor.scalar_type()) {
    case at::kByte:
      return DType::kU8;
    case at::kInt:
      return DType::kI32;
    case at::kLong:
      return DType::kI64;
    case at::kHalf:
      return DType::kF16;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kFloat:
      return DType::kF32;
    case at::kDouble:
      return DType::kF64;
    default:
      throw Error(ExitCode::kSoftware,
                  fmt::format("tensor {} has a type that checkpoints can't hold", item.name));
  }
}

std::string Describe(const TensorView& view) {
  return fmt::format("{}[{}]", checkpoint::TypeName(view.type), fmt::join(view.shape, ", "));
}

[[noreturn]] void Mismatch(const std::string& where, const std::string& what) {
  throw Error(
      ExitCode::kConfig,
      fmt::format("checkpoint {} is of another model or optimizer than the config's: {}; use "
                  "another checkpoint.dir, or the config that it was made with",
                  where, what));
}

}  // namespace

std::vector<TensorView> Views(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const NamedTensor& item : tensors) {
    DDP_RT_CHECK(item.tensor.is_contiguous() && item.tensor.is_cpu(), item.name);
    views.push_back({.name = item.name,
                     .type = TypeOf(item),
                     .shape = item.tensor.sizes().vec(),
                     .elements = {static_cast<const std::byte*>(item.tensor.const_data_ptr()),
                                  item.tensor.nbytes()}});
  }
  return views;
}

void Restore(const std::vector<TensorView>& from, const std::string& where,
             const std::vector<NamedTensor>& to) {
  std::map<std::string_view, const TensorView*> by_name;
  for (const TensorView& view : from) {
    by_name[view.name] = &view;
  }
  const std::vector<TensorView> wanted = Views(to);
  for (size_t i = 0; i < to.size(); ++i) {
    const auto found = by_name.find(wanted[i].name);
    if (found == by_name.end()) {
      Mismatch(where, fmt::format("it has no tensor '{}'", wanted[i].name));
    }
    const TensorView& view = *found->second;
    if (view.type != wanted[i].type || view.shape != wanted[i].shape) {
      Mismatch(where, fmt::format("its tensor '{}' is {}, the config's is {}", view.name,
                                  Describe(view), Describe(wanted[i])));
    }
    std::memcpy(to[i].tensor.mutable_data_ptr(), view.elements.data(), view.elements.size());
    by_name.erase(found);
  }
  if (!by_name.empty()) {
    Mismatch(where, fmt::format("the config has no tensor '{}'", by_name.begin()->first));
  }
}

void RestorePieces(const std::vector<TensorView>& whole, const std::string& where,
                   const std::vector<NamedTensor>& to) {
  std::map<std::string_view, const TensorView*> by_name;
  for (const TensorView& view : whole) {
    by_name[view.name] = &view;
  }
  std::vector<TensorView> views;
  for (const NamedTensor& item : to) {
    const auto piece = checkpoint::ParsePieceName(item.name);
    const auto found = by_name.find(piece ? piece->whole : std::string_view(item.name));
    if (found == by_name.end()) {
      continue;  // Restore says so
    }
    TensorView view = *found->second;
    view.name = item.name;
    if (piece) {
      const size_t size = checkpoint::ElementSize(view.type);
      const auto end = static_cast<size_t>(piece->end) * size;
      if (end > view.elements.size()) {
        Mismatch(where, fmt::format("its tensor '{}' is {}, too small for '{}'", piece->whole,
                                    Describe(*found->second), item.name));
      }
      const auto begin = static_cast<size_t>(piece->begin) * size;
      view.elements = view.elements.subspan(begin, end - begin);
      view.shape = {piece->end - piece->begin};
    }
    views.push_back(std::move(view));
  }
  Restore(views, where, to);
}

bool HasAll(const std::vector<TensorView>& from, const std::vector<NamedTensor>& to) {
  return std::all_of(to.begin(), to.end(), [&](const NamedTensor& item) {
    return std::any_of(from.begin(), from.end(),
                       [&](const TensorView& view) { return view.name == item.name; });
  });
}

void BroadcastTensors(comm::ProcessGroup& group, const std::vector<NamedTensor>& tensors) {
  std::vector<comm::WorkPtr> works;
  works.reserve(tensors.size());
  for (const NamedTensor& item : tensors) {
    works.push_back(group.Broadcast(item.tensor.mutable_data_ptr(), item.tensor.nbytes(), 0,
                                    {.name = "state " + item.name}));
  }
  for (const comm::WorkPtr& work : works) {
    work->Wait();
  }
}

}  // namespace ddp::rt::train
