#include "runtime/ddp/data_parallel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/ddp/buckets.h"
#include "runtime/ddp/layout.h"

namespace ddp::rt {
namespace {

using EventKind = DataParallel::Event::Kind;

// Gradients begin at cache lines.
constexpr std::size_t kAlignment = 64;
std::size_t RoundUp(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

comm::DataType TypeOf(const NamedTensor& parameter) {
  switch (parameter.tensor.scalar_type()) {
    case at::kFloat:
      return comm::DataType::kF32;
    case at::kDouble:
      return comm::DataType::kF64;
    case at::kBFloat16:
      return comm::DataType::kBF16;
    case at::kHalf:
      return comm::DataType::kF16;
    default:
      throw Error(ExitCode::kConfig,
                  fmt::format("parameter '{}' is of type {}: gradients are averaged in float, "
                              "double, bfloat16 or half",
                              parameter.name, c10::toString(parameter.tensor.scalar_type())));
  }
}

struct Parameter {
  NamedTensor named;
  comm::DataType type = comm::DataType::kF32;
  std::size_t bytes = 0;
  // Kept alive: libtorch holds it weakly, and the hook sits on it.
  std::shared_ptr<torch::autograd::Node> accumulator;
  std::uintptr_t hook = 0;
  std::size_t bucket = 0;
  at::Tensor gradient;  // lies in the bucket
  bool ready = false;
};

struct Bucket {
  std::vector<int> parameters;
  at::Tensor flat;
  comm::DataType type = comm::DataType::kF32;
  std::size_t pending = 0;
  comm::WorkPtr work;
};

// The order in which gradients came, as text for the store.
std::string PackOrder(const std::vector<int>& order) {
  return fmt::format("{}", fmt::join(order, " "));
}

std::vector<int> UnpackOrder(const std::string& text, std::size_t size) {
  std::vector<int> order;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int index = 0;
    at = std::from_chars(at, end, index).ptr + 1;
    order.push_back(index);
  }
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < size; ++i) {
    DDP_RT_CHECK(sorted.size() == size && sorted[i] == static_cast<int>(i),
                 "rank 0's order of gradients is not a permutation");
  }
  return order;
}

}  // namespace

class DataParallel::Impl {
 public:
  Impl(std::vector<NamedTensor> parameters, std::vector<NamedTensor> buffers,
       comm::ProcessGroup& group, store::Store& store, DataParallelOptions options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void ZeroGrad();
  void EnsureReduced() const;
  void BroadcastBuffers() { Broadcast(buffers_, "buffer"); }
  std::uint64_t ParameterHash() const;
  void VerifyReplicas();
  std::vector<at::Tensor> buckets() const;

  int no_sync = 0;
  std::int64_t steps = 0;
  std::vector<Event> trace;

 private:
  void Broadcast(const std::vector<NamedTensor>& tensors, const char* what);
  void PlaceGradients(const std::vector<int>& order);
  void PlaceBucket(Bucket& bucket, std::size_t index, char* memory);
  void InstallHooks();
  void OnGradient(int index);
  void BeginBackward();
  void LaunchFullBuckets();
  void EndBackward();
  [[noreturn]] void FailUnused();
  void RebuildInRankZerosOrder();

  const std::vector<NamedTensor> all_;  // parameters, frozen ones included
  const std::vector<NamedTensor> buffers_;
  comm::ProcessGroup& group_;
  store::Store& store_;
  const DataParallelOptions options_;
  const std::string key_;

  std::vector<Parameter> parameters_;  // those with gradients
  std::vector<Bucket> buckets_;
  std::shared_ptr<comm::Buffer> arena_;
  bool in_backward_ = false;
  bool reduced_ = false;
  bool rebuilt_ = false;
  std::size_t next_bucket_ = 0;      // to be launched
  std::vector<int> observed_order_;  // of the gradients of this backward
};

DataParallel::Impl::Impl(std::vector<NamedTensor> parameters, std::vector<NamedTensor> buffers,
                         comm::ProcessGroup& group, store::Store& store,
                         DataParallelOptions options)
    : all_(std::move(parameters)),
      buffers_(std::move(buffers)),
      group_(group),
      store_(store),
      options_(std::move(options)),
      key_("ddp/" + options_.name) {
  if (group_.world_size() > 1) {
    std::vector<std::string> lines = DescribeTensors(all_);
    const std::vector<std::string> more = DescribeTensors(buffers_);
    lines.insert(lines.end(), more.begin(), more.end());
    VerifySameLayout(lines, group_.rank(), group_.world_size(), store_, key_ + "/layout",
                     Deadline::In(options_.timeout, "all ranks to describe their model"));
  }
  Broadcast(all_, "parameter");
  Broadcast(buffers_, "buffer");
  std::size_t total = 0;
  std::vector<int> order;
  for (const NamedTensor& named : all_) {
    if (named.tensor.requires_grad()) {
      Parameter& p = parameters_.emplace_back();
      p.named = named;
      p.type = TypeOf(named);
      p.bytes = static_cast<std::size_t>(named.tensor.numel()) * comm::SizeOf(p.type);
      total += RoundUp(p.bytes);
      order.push_back(static_cast<int>(order.size()));
    }
  }
  arena_ = group_.Allocate(total, {.name = "gradients of " + options_.name});
  // Until the first backward has shown its order: last layers first.
  std::reverse(order.begin(), order.end());
  PlaceGradients(order);
  InstallHooks();
}

DataParallel::Impl::~Impl() {
  for (const Parameter& p : parameters_) {
    if (p.accumulator) {
      p.accumulator->del_post_hook(p.hook);
    }
  }
}

void DataParallel::Impl::Broadcast(const std::vector<NamedTensor>& tensors, const char* what) {
  if (group_.world_size() == 1) {
    return;
  }
  const at::NoGradGuard no_grad;
  std::vector<comm::WorkPtr> works;
  works.reserve(tensors.size());
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (const auto& [name, tensor] : tensors) {
    // Holes and overlaps in memory are not sent: such a tensor goes through a plain copy.
    at::Tensor dense = tensor.detach();
    if (!dense.is_non_overlapping_and_dense()) {
      dense = dense.contiguous();
      copies.emplace_back(tensor, dense);
    }
    works.push_back(group_.Broadcast(dense.data_ptr(), dense.nbytes(), 0,
                                     {.name = fmt::format("{} {}", what, name)}));
  }
  for (const comm::WorkPtr& work : works) {
    work->Wait();
  }
  for (auto& [tensor, dense] : copies) {
    tensor.detach().copy_(dense);
  }
}

void DataParallel::Impl::PlaceGradients(const std::vector<int>& order) {
  std::vector<GradientSize> sizes;
  sizes.reserve(order.size());
  for (const int index : order) {
    const Parameter& p = parameters_[static_cast<std::size_t>(index)];
    sizes.push_back({index, RoundUp(p.bytes), static_cast<int>(p.type)});
  }
  buckets_.clear();
  char* memory = static_cast<char*>(arena_->data());
  for (auto& plan : PlanBuckets(sizes, {options_.first_bucket_bytes, options_.bucket_bytes,
                                        options_.last_bucket_bytes})) {
    const std::size_t index = buckets_.size();
    Bucket& bucket = buckets_.emplace_back();
    bucket.parameters = std::move(plan);
    PlaceBucket(bucket, index, memory);
    memory += bucket.flat.nbytes();
  }
}

void DataParallel::Impl::PlaceBucket(Bucket& bucket, std::size_t index, char* memory) {
  std::size_t bytes = 0;
  for (const int i : bucket.parameters) {
    bytes += RoundUp(parameters_[static_cast<std::size_t>(i)].bytes);
  }
  const NamedTensor& first = parameters_[static_cast<std::size_t>(bucket.parameters[0])].named;
  bucket.type = parameters_[static_cast<std::size_t>(bucket.parameters[0])].type;
  // Tensors of their own on one piece of memory, not views in autograd's sense: a view cannot be
  // detached in place, which Optimizer::zero_grad does.
  const auto tensor_at = [&](char* at, at::IntArrayRef sizes, at::IntArrayRef strides) {
    return at::from_blob(
        at, sizes, strides, [arena = arena_](void*) {},
        first.tensor.options().requires_grad(false));
  };
  const std::size_t element = comm::SizeOf(bucket.type);
  bucket.flat = tensor_at(memory, {static_cast<std::int64_t>(bytes / element)}, {1});
  for (const int i : bucket.parameters) {
    Parameter& p = parameters_[static_cast<std::size_t>(i)];
    const at::Tensor& tensor = p.named.tensor;
    // The parameter's own strides where they are dense: autograd then adds in place.
    const bool dense = tensor.is_non_overlapping_and_dense();
    p.gradient =
        tensor_at(memory, tensor.sizes(), dense ? tensor.strides() : tensor.contiguous().strides());
    p.named.tensor.mutable_grad() = p.gradient;
    p.bucket = index;
    memory += RoundUp(p.bytes);
  }
}

void DataParallel::Impl::InstallHooks() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& p = parameters_[i];
    p.accumulator = torch::autograd::impl::grad_accumulator(p.named.tensor);
    p.hook = p.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, i](const torch::autograd::variable_list& outputs,
                  const torch::autograd::variable_list&) {
          OnGradient(static_cast<int>(i));
          return outputs;
        }));
  }
}

void DataParallel::Impl::OnGradient(int index) {
  Parameter& p = parameters_[static_cast<std::size_t>(index)];
  at::Tensor& grad = p.named.tensor.mutable_grad();
  if (grad.data_ptr() != p.gradient.data_ptr()) {
    // Somebody has set .grad to nothing, and autograd has made a new tensor.
    const at::NoGradGuard no_grad;
    p.gradient.copy_(grad);
    grad = p.gradient;
  }
  if (no_sync > 0) {
    return;
  }
  if (!in_backward_) {
    BeginBackward();
  }
  if (p.ready) {
    throw Error(ExitCode::kSoftware,
                fmt::format("rank {} step {}: the gradient of '{}' came twice in one backward: a "
                            "parameter may not be used in two nested backward passes",
                            group_.rank(), steps + 1, p.named.name));
  }
  p.ready = true;
  observed_order_.push_back(index);
  trace.push_back({EventKind::kGradientReady, index});
  --buckets_[p.bucket].pending;
  LaunchFullBuckets();
}

void DataParallel::Impl::BeginBackward() {
  in_backward_ = true;
  next_bucket_ = 0;
  observed_order_.clear();
  trace.clear();
  for (Bucket& bucket : buckets_) {
    bucket.pending = bucket.parameters.size();
  }
  for (Parameter& p : parameters_) {
    p.ready = false;
  }
  torch::autograd::Engine::get_default_engine().queue_callback([this] { EndBackward(); });
}

// In the order that all ranks have: a full bucket waits for those before it.
void DataParallel::Impl::LaunchFullBuckets() {
  for (; next_bucket_ < buckets_.size() && buckets_[next_bucket_].pending == 0; ++next_bucket_) {
    Bucket& bucket = buckets_[next_bucket_];
    trace.push_back({EventKind::kBucketLaunched, static_cast<int>(next_bucket_)});
    bucket.work = group_.AllReduce(
        bucket.flat.data_ptr(), static_cast<std::size_t>(bucket.flat.numel()), bucket.type,
        comm::ReduceOp::kMean, {.name = fmt::format("bucket {} step {}", next_bucket_, steps + 1)});
  }
}

void DataParallel::Impl::EndBackward() {
  in_backward_ = false;
  trace.push_back({EventKind::kBackwardEnded, 0});
  if (next_bucket_ < buckets_.size()) {
    FailUnused();
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].work->Wait();
    buckets_[i].work.reset();
    trace.push_back({EventKind::kBucketReduced, static_cast<int>(i)});
  }
  reduced_ = true;
  if (++steps == 1 && group_.rank() == 0 && group_.world_size() > 1) {
    store_.Set(key_ + "/order", PackOrder(observed_order_));
  }
}

void DataParallel::Impl::FailUnused() {
  constexpr std::size_t kMostNames = 8;
  std::vector<std::string> names;
  std::size_t unused = 0;
  for (const Parameter& p : parameters_) {
    if (!p.ready && ++unused <= kMostNames) {
      names.push_back("'" + p.named.name + "'");
    }
  }
  const std::string what = fmt::format(
      "step {}: backward gave no gradient to {} of {} parameters ({}{}): each must take part in "
      "the loss on every rank, or be frozen (requires_grad false)",
      steps + 1, unused, parameters_.size(), fmt::join(names, ", "),
      unused > kMostNames ? ", ..." : "");
  group_.Abort(what);  // the other ranks may be waiting for a bucket of them
  throw Error(ExitCode::kSoftware, fmt::format("rank {}: {}", group_.rank(), what));
}

void DataParallel::Impl::ZeroGrad() {
  if (in_backward_) {
    throw Error(ExitCode::kSoftware,
                fmt::format("rank {}: the backward of step {} did not come to its end",
                            group_.rank(), steps + 1));
  }
  if (steps > 0 && !rebuilt_) {
    RebuildInRankZerosOrder();
  }
  const at::NoGradGuard no_grad;
  for (const Bucket& bucket : buckets_) {
    bucket.flat.zero_();
  }
  for (Parameter& p : parameters_) {
    p.named.tensor.mutable_grad() = p.gradient;
  }
  reduced_ = false;
}

void DataParallel::Impl::RebuildInRankZerosOrder() {
  rebuilt_ = true;
  std::vector<int> order = observed_order_;
  if (group_.world_size() > 1) {
    order = UnpackOrder(
        store_.Get(key_ + "/order", Deadline::In(options_.timeout, "rank 0's order of gradients")),
        parameters_.size());
  }
  PlaceGradients(order);
}

void DataParallel::Impl::EnsureReduced() const {
  if (!reduced_) {
    throw Error(
        ExitCode::kSoftware,
        fmt::format("rank {} step {}: no backward has been reduced since ZeroGrad: does the "
                    "loss depend on any parameter?",
                    group_.rank(), steps + 1));
  }
}

std::uint64_t DataParallel::Impl::ParameterHash() const {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  DDP_RT_CHECK(state != nullptr, "no memory");
  XXH3_64bits_reset(state.get());
  for (const NamedTensor& named : all_) {
    const at::Tensor dense =
        named.tensor.is_non_overlapping_and_dense() ? named.tensor : named.tensor.contiguous();
    XXH3_64bits_update(state.get(), dense.data_ptr(), dense.nbytes());
  }
  return XXH3_64bits_digest(state.get());
}

void DataParallel::Impl::VerifyReplicas() {
  const std::uint64_t mine = ParameterHash();
  std::vector<std::uint64_t> all(static_cast<std::size_t>(group_.world_size()));
  group_.AllGather(&mine, all.data(), sizeof(mine), {.name = "parameter hashes"})->Wait();
  std::vector<std::size_t> differing;
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] != all[0]) {
      differing.push_back(r);
    }
  }
  if (!differing.empty()) {
    throw Error(ExitCode::kSoftware,
                fmt::format("after step {} the parameters of rank(s) {} differ from rank 0's",
                            steps, fmt::join(differing, ", ")));
  }
}

std::vector<at::Tensor> DataParallel::Impl::buckets() const {
  std::vector<at::Tensor> flat;
  flat.reserve(buckets_.size());
  for (const Bucket& bucket : buckets_) {
    flat.push_back(bucket.flat);
  }
  return flat;
}

DataParallel::DataParallel(std::vector<NamedTensor> parameters, std::vector<NamedTensor> buffers,
                           comm::ProcessGroup& group, store::Store& store,
                           DataParallelOptions options)
    : impl_(std::make_unique<Impl>(std::move(parameters), std::move(buffers), group, store,
                                   std::move(options))) {}
DataParallel::~DataParallel() = default;
void DataParallel::ZeroGrad() { impl_->ZeroGrad(); }
void DataParallel::EnsureReduced() const { impl_->EnsureReduced(); }
void DataParallel::BroadcastBuffers() { impl_->BroadcastBuffers(); }
std::uint64_t DataParallel::ParameterHash() const { return impl_->ParameterHash(); }
void DataParallel::VerifyReplicas() { impl_->VerifyReplicas(); }
std::int64_t DataParallel::steps() const { return impl_->steps; }
std::vector<at::Tensor> DataParallel::buckets() const { return impl_->buckets(); }
const std::vector<DataParallel::Event>& DataParallel::TraceForTest() const { return impl_->trace; }

DataParallel::NoSync::NoSync(DataParallel& engine) : engine_(engine) { ++engine_.impl_->no_sync; }
DataParallel::NoSync::~NoSync() { --engine_.impl_->no_sync; }

}  // namespace ddp::rt
