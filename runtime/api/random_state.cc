#include "runtime/api/random_state.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ddp/process_group.h"
#include "runtime/api/share.h"
#include "runtime/ddp/tensor_memory.h"

namespace ddp {
namespace {

std::string NameOf(int rank) { return fmt::format("rng.{}", rank); }

// Of the CPU, and of the device that the group works on if it is another.
std::vector<at::Generator> Generators() {
  std::vector<at::Generator> generators = {at::globalContext().defaultGenerator(at::kCPU)};
  if (const at::Device device = rt::DeviceOf(DefaultGroup()); !device.is_cpu()) {
    generators.push_back(at::globalContext().defaultGenerator(device));
  }
  return generators;
}

std::vector<at::Tensor> States() {
  std::vector<at::Tensor> states;
  for (at::Generator& generator : Generators()) {
    const std::lock_guard lock(generator.mutex());
    states.push_back(generator.get_state());
  }
  return states;
}

std::string ToText(const at::Tensor& bytes) {
  return fmt::format("{:02x}", fmt::join(std::span(bytes.const_data_ptr<std::uint8_t>(),
                                                   static_cast<std::size_t>(bytes.numel())),
                                         ""));
}

// The record's checksum holds, so what is there was written by ToText.
at::Tensor FromText(const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size() / 2)}, at::kByte);
  auto* const to = bytes.mutable_data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < bytes.numel(); ++i) {
    std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, to[i], /*base=*/16);
  }
  return bytes;
}

}  // namespace

rt::checkpoint::State GatherRandomGenerators() {
  const at::NoGradGuard no_grad;
  const at::Tensor mine = at::cat(States()).to(rt::DeviceOf(DefaultGroup()));
  const at::Tensor all = AllGather(mine).cpu();
  rt::checkpoint::State state;
  if (Rank() == 0) {
    for (int rank = 0; rank < WorldSize(); ++rank) {
      state[NameOf(rank)] = ToText(all[rank]);
    }
  }
  return state;
}

void RestoreRandomGenerators(const rt::checkpoint::State& state) {
  std::vector<rt::NamedTensor> texts;
  for (int rank = 0; rank < WorldSize(); ++rank) {
    if (const auto found = state.find(NameOf(rank)); found != state.end()) {
      texts.push_back({found->first, FromText(found->second)});
    }
  }
  const std::vector<at::Tensor> own = States();
  for (const auto& [name, bytes] : ShareTensors(texts, /*root=*/0)) {
    if (name != NameOf(Rank()) || bytes.numel() != at::cat(own).numel()) {
      continue;
    }
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      at::Generator generator = Generators()[i];
      const std::lock_guard lock(generator.mutex());
      generator.set_state(bytes.narrow(0, begin, own[i].numel()).clone());
      begin += own[i].numel();
    }
  }
}

}  // namespace ddp
