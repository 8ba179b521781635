#include "runtime/ddp/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include "runtime/base/error.h"
#include "runtime/ddp/tensor_memory.h"

namespace ddp::rt {
namespace {

std::string Join(const std::vector<std::string>& lines) {
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string LineAt(const std::vector<std::string>& lines, std::size_t i) {
  return i < lines.size() ? lines[i] : "nothing";
}

std::string FirstDifference(const std::vector<std::string>& zero,
                            const std::vector<std::string>& mine) {
  std::size_t i = 0;
  while (i < zero.size() && i < mine.size() && zero[i] == mine[i]) {
    ++i;
  }
  return fmt::format("tensor {} is '{}' there and '{}' here", i, LineAt(zero, i), LineAt(mine, i));
}

}  // namespace

std::vector<std::string> DescribeTensors(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> lines;
  lines.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    lines.push_back(fmt::format("{} {} [{}] strides [{}]{}", name,
                                c10::toString(tensor.scalar_type()),
                                fmt::join(tensor.sizes(), ", "), fmt::join(tensor.strides(), ", "),
                                tensor.requires_grad() ? "" : " frozen"));
  }
  return lines;
}

void VerifySameLayout(const std::vector<std::string>& lines, comm::ProcessGroup& group,
                      store::Store& store, const std::string& key, const Deadline& deadline) {
  const int rank = group.rank();
  const int world_size = group.world_size();
  const std::string mine = Join(lines);
  const auto hashes =
      GatherInts(group, static_cast<std::int64_t>(XXH3_64bits(mine.data(), mine.size())),
                 deadline.reason(), deadline.Left());
  int differs = 0;
  while (differs < world_size && hashes[static_cast<std::size_t>(differs)] == hashes[0]) {
    ++differs;
  }
  if (differs == world_size) {
    return;
  }
  // Only now are the whole lists compared, by the first rank that differs, for all.
  if (rank == 0) {
    store.Set(key + "/text", mine);
  }
  if (rank == differs) {
    store.Set(key + "/difference",
              FirstDifference(Split(store.Get(key + "/text", deadline)), lines));
  }
  throw Error(ExitCode::kConfig, fmt::format("rank {} has another model than rank 0: {}", differs,
                                             store.Get(key + "/difference", deadline)));
}

}  // namespace ddp::rt
