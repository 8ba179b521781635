#include "runtime/api/share.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <sstream>

#include "ddp/error.h"
#include "ddp/process_group.h"
#include "runtime/ddp/tensor_memory.h"

namespace ddp {
namespace {

// A tensor of the host, from `root` to all; the others' contents are overwritten.
void ShareHost(const at::Tensor& host, int root) {
  if (host.numel() == 0) {
    return;
  }
  const at::Tensor there = host.to(rt::DeviceOf(DefaultGroup()));
  Broadcast(there, root);
  if (!there.is_same(host)) {
    host.copy_(there);
  }
}

// One line a tensor: type, shape, name.
std::string Manifest(const std::vector<rt::NamedTensor>& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += fmt::format("{} {} {} {}\n", static_cast<int>(tensor.scalar_type()), tensor.dim(),
                        fmt::join(tensor.sizes(), " "), name);
  }
  return text;
}

rt::NamedTensor FromManifest(const std::string& line) {
  std::istringstream in(line);
  int type = 0;
  std::size_t dims = 0;
  in >> type >> dims;
  std::vector<std::int64_t> shape(dims);
  for (std::int64_t& size : shape) {
    in >> size;
  }
  in.ignore();
  if (dims == 0) {
    in.ignore();  // the empty shape's place
  }
  std::string name;
  std::getline(in, name);
  return {name, at::empty(shape, at::TensorOptions(static_cast<at::ScalarType>(type)))};
}

}  // namespace

std::string ShareText(const std::string& mine, int root) {
  const at::NoGradGuard no_grad;
  std::int64_t size = static_cast<std::int64_t>(mine.size());
  ShareHost(at::from_blob(&size, {1}, at::kLong), root);
  std::string text = mine;
  text.resize(static_cast<std::size_t>(size));
  ShareHost(at::from_blob(text.data(), {size}, at::kByte), root);
  return text;
}

std::vector<rt::NamedTensor> ShareTensors(const std::vector<rt::NamedTensor>& mine, int root) {
  const at::NoGradGuard no_grad;
  const bool giving = Rank() == root;
  std::istringstream lines(ShareText(giving ? Manifest(mine) : "", root));
  std::vector<rt::NamedTensor> tensors;
  std::size_t next = 0;
  for (std::string line; std::getline(lines, line);) {
    if (giving) {
      const rt::NamedTensor& own = mine[next++];
      tensors.push_back({own.name, own.tensor.detach().cpu().contiguous()});
    } else {
      tensors.push_back(FromManifest(line));
    }
    ShareHost(tensors.back().tensor, root);
  }
  return tensors;
}

std::string RunOnRankZero(const std::function<std::string()>& body) {
  std::string problem;
  std::string result;
  int code = 0;
  if (Rank() == 0) {
    try {
      result = body();
    } catch (const Error& e) {
      code = static_cast<int>(e.code());
      problem = e.what();
    }
  }
  const std::string answer =
      ShareText(Rank() == 0 ? fmt::format("{} {}", code, problem) : "", /*root=*/0);
  std::from_chars(answer.data(), answer.data() + answer.size(), code);
  if (code != 0) {
    throw Error(static_cast<ExitCode>(code), answer.substr(answer.find(' ') + 1));
  }
  return result;
}

}  // namespace ddp
