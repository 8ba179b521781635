#include "ddp/checkpointer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <cstring>
#include <exception>
#include <sstream>

#include "ddp/error.h"
#include "runtime/api/random_state.h"
#include "runtime/api/share.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/ddp/state_pieces.h"

namespace ddp {
namespace {

using rt::NamedTensor;
using rt::checkpoint::DType;
using rt::checkpoint::TensorView;

// The state of an optimizer of torch::optim, as its own archive.
constexpr const char* kTorchOptimizer = "torch.optim";
// Before the names of what Keep was given.
constexpr const char* kKept = "kept.";

constexpr std::pair<at::ScalarType, DType> kTypes[] = {
    {at::kByte, DType::kU8},    {at::kInt, DType::kI32},       {at::kLong, DType::kI64},
    {at::kHalf, DType::kF16},   {at::kBFloat16, DType::kBF16}, {at::kFloat, DType::kF32},
    {at::kDouble, DType::kF64},
};

DType TypeOf(const NamedTensor& item) {
  for (const auto& [ours, theirs] : kTypes) {
    if (item.tensor.scalar_type() == ours) {
      return theirs;
    }
  }
  throw Error(ExitCode::kSoftware,
              fmt::format("'{}' is of type {}, which checkpoints can't hold", item.name,
                          c10::toString(item.tensor.scalar_type())));
}

at::ScalarType TypeOf(DType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (type == theirs) {
      return ours;
    }
  }
  throw Error(ExitCode::kData, "a checkpoint has a tensor of an unknown type");
}

// `hosts` keeps what the views point to.
std::vector<TensorView> Views(const std::vector<NamedTensor>& tensors,
                              std::vector<at::Tensor>& hosts) {
  std::vector<TensorView> views;
  views.reserve(tensors.size());
  for (const NamedTensor& item : tensors) {
    const at::Tensor host = item.tensor.detach().cpu().contiguous();
    views.push_back(
        {.name = item.name,
         .type = TypeOf(item),
         .shape = host.sizes().vec(),
         .elements = {static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()}});
    hosts.push_back(host);
  }
  return views;
}

std::vector<NamedTensor> Tensors(const std::vector<TensorView>& views) {
  std::vector<NamedTensor> tensors;
  tensors.reserve(views.size());
  for (const TensorView& view : views) {
    at::Tensor tensor = at::empty(view.shape, at::TensorOptions(TypeOf(view.type)));
    std::memcpy(tensor.mutable_data_ptr(), view.elements.data(), view.elements.size());
    tensors.push_back({view.name, std::move(tensor)});
  }
  return tensors;
}

std::vector<NamedTensor> StateOf(const torch::nn::Module& module) {
  std::vector<NamedTensor> state = rt::NamedParameters(module);
  const std::vector<NamedTensor> buffers = rt::NamedBuffers(module);
  state.insert(state.end(), buffers.begin(), buffers.end());
  return state;
}

// On rank 0: whole tensors, or the pieces of all ranks.
std::vector<NamedTensor> StateOf(const Optimizer& optimizer) {
  const std::vector<NamedTensor> mine = optimizer.state();
  if (dynamic_cast<const rt::ZeroOptimizer*>(&optimizer) == nullptr) {
    return mine;
  }
  std::vector<NamedTensor> all = mine;
  for (int rank = 1; rank < WorldSize(); ++rank) {
    for (NamedTensor& item :
         ShareTensors(Rank() == rank ? mine : std::vector<NamedTensor>(), rank)) {
      // The number of steps is the same everywhere.
      if (Rank() == 0 && !rt::ParsePieceName(item.name).whole()) {
        all.push_back(std::move(item));
      }
    }
  }
  return all;
}

std::vector<NamedTensor> StateOf(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream out;
  archive.save_to(out);
  const std::string bytes = out.str();
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return {{kTorchOptimizer, std::move(tensor)}};
}

void Restore(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& state,
             const std::string& where) {
  if (state.size() != 1 || state.front().name != kTorchOptimizer) {
    throw Error(ExitCode::kConfig,
                fmt::format("{} was not saved with an optimizer of torch::optim", where));
  }
  const at::Tensor& bytes = state.front().tensor;
  torch::serialize::InputArchive archive;
  archive.load_from(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
  optimizer.load(archive);
}

}  // namespace

class Checkpointer::Impl {
 public:
  Impl(const std::filesystem::path& path, const CheckpointerOptions& options)
      : folder_(path, options.keep), random_generators_(options.random_generators) {
    RunOnRankZero([&] {
      folder_.Prepare();
      rt::checkpoint::SaverOptions saving;
      saving.timeout = options.timeout;
      saving.failures_end_the_run = true;
      saving.saved = [](const auto& saved, const auto&, std::chrono::duration<double> took) {
        rt::Log(rt::Level::kInfo, "saved checkpoint path={} seconds={:.3f}", saved.string(),
                took.count());
      };
      saver_.emplace(folder_, std::move(saving));
      return std::string();
    });
  }
  ~Impl() {
    if (saver_ && std::uncaught_exceptions() > 0 && IsInitialized()) {
      // The others shall hear of it before the save that runs has ended.
      Abort("the training program failed; its log says how");
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void Keep(const std::string& name, const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& item : tensors) {
      kept_.push_back({fmt::format("{}{}.{}", kKept, name, item.name), item.tensor});
    }
  }

  void Save(const Progress& progress, const torch::nn::Module& module,
            std::vector<NamedTensor> optimizer) {
    rt::checkpoint::State state;
    if (random_generators_) {
      state = GatherRandomGenerators();
    }
    if (!saver_) {
      return;
    }
    optimizer.insert(optimizer.end(), kept_.begin(), kept_.end());
    std::vector<at::Tensor> hosts;
    rt::checkpoint::Position position;
    position.step = progress.step;
    position.epoch = progress.epoch;
    position.cursor = progress.cursor;
    position.world_size = WorldSize();
    saver_->Start({.position = position,
                   .state = std::move(state),
                   .model = Views(StateOf(module), hosts),
                   .optimizer = Views(optimizer, hosts)});
  }

  struct Loaded {
    Progress progress;
    std::string where;
    std::vector<NamedTensor> optimizer;
  };
  std::optional<Loaded> Load(const torch::nn::Module& module) {
    Loaded loaded;
    std::vector<NamedTensor> model;
    rt::checkpoint::State state;
    const std::string mine = RunOnRankZero([&] {
      const auto found = folder_.LoadNewest();
      if (!found) {
        return std::string();
      }
      model = Tensors(found->model);
      loaded.optimizer = Tensors(found->optimizer);
      state = found->state;
      return fmt::format("{} {} {} {}", found->position.step, found->position.epoch,
                         found->position.cursor, found->path.string());
    });
    std::istringstream said(ShareText(mine, /*root=*/0));
    if (!(said >> loaded.progress.step >> loaded.progress.epoch >> loaded.progress.cursor)) {
      return std::nullopt;
    }
    std::getline(said >> std::ws, loaded.where);
    rt::CopyPieces(ShareTensors(model, /*root=*/0), StateOf(module), loaded.where);
    loaded.optimizer = ShareTensors(loaded.optimizer, /*root=*/0);
    RestoreKept(loaded);
    if (random_generators_) {
      RestoreRandomGenerators(state);
    }
    return loaded;
  }

  void Wait() {
    if (saver_) {
      saver_->Finish();
    }
    Barrier("checkpoint saved");
  }

 private:
  // Takes what is not the optimizer's out of `loaded`.
  void RestoreKept(Loaded& loaded) const {
    std::vector<NamedTensor> kept;
    std::vector<NamedTensor> rest;
    for (NamedTensor& item : loaded.optimizer) {
      (item.name.starts_with(kKept) ? kept : rest).push_back(std::move(item));
    }
    loaded.optimizer = std::move(rest);
    rt::CopyPieces(kept, kept_, loaded.where);
  }

  rt::checkpoint::CheckpointFolder folder_;
  const bool random_generators_;
  std::vector<NamedTensor> kept_;
  std::optional<rt::checkpoint::Saver> saver_;  // of rank 0
};

Checkpointer::Checkpointer(const std::filesystem::path& folder, const CheckpointerOptions& options)
    : impl_(std::make_unique<Impl>(folder, options)) {}
Checkpointer::~Checkpointer() = default;

void Checkpointer::Keep(const std::string& name, const std::vector<rt::NamedTensor>& tensors) {
  impl_->Keep(name, tensors);
}

void Checkpointer::Save(const Progress& progress, const torch::nn::Module& module) {
  impl_->Save(progress, module, {});
}
void Checkpointer::Save(const Progress& progress, const torch::nn::Module& module,
                        const Optimizer& optimizer) {
  impl_->Save(progress, module, StateOf(optimizer));
}
void Checkpointer::Save(const Progress& progress, const torch::nn::Module& module,
                        const torch::optim::Optimizer& optimizer) {
  impl_->Save(progress, module, Rank() == 0 ? StateOf(optimizer) : std::vector<NamedTensor>());
}

std::optional<Progress> Checkpointer::Load(const torch::nn::Module& module) {
  const auto loaded = impl_->Load(module);
  return loaded ? std::optional(loaded->progress) : std::nullopt;
}
std::optional<Progress> Checkpointer::Load(const torch::nn::Module& module, Optimizer& optimizer) {
  const auto loaded = impl_->Load(module);
  if (!loaded) {
    return std::nullopt;
  }
  optimizer.LoadState(loaded->optimizer, loaded->where);
  return loaded->progress;
}
std::optional<Progress> Checkpointer::Load(const torch::nn::Module& module,
                                           torch::optim::Optimizer& optimizer) {
  const auto loaded = impl_->Load(module);
  if (!loaded) {
    return std::nullopt;
  }
  Restore(optimizer, loaded->optimizer, loaded->where);
  return loaded->progress;
}

void Checkpointer::Wait() { impl_->Wait(); }

}  // namespace ddp
