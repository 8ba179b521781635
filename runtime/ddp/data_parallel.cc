#include "runtime/ddp/data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <xxhash.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/ddp/layout.h"
#include "runtime/ddp/replicas.h"
#include "runtime/ddp/tensor_memory.h"
#include "runtime/ddp/used_parameters.h"

namespace ddp::rt {
namespace {

using EventKind = DataParallel::Event::Kind;

bool IsPermutation(std::vector<int> order) {
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int>(i)) {
      return false;
    }
  }
  return true;
}

// The hook on a parameter's gradient accumulator, which libtorch holds only weakly.
struct Hook {
  std::shared_ptr<torch::autograd::Node> accumulator;
  std::uintptr_t key = 0;
};

}  // namespace

class DataParallel::Impl {
 public:
  Impl(std::vector<NamedTensor> parameters, std::vector<NamedTensor> buffers,
       comm::ProcessGroup& the_group, store::Store& store, DataParallelOptions options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void ZeroGrad();
  void BeginForward();
  void EnsureReduced() const;
  void ReduceWithoutBackward();
  void BroadcastBuffers() { BroadcastFromZero(group, buffers_, "buffer"); }
  std::uint64_t ParameterHash() const { return HashOf(all_); }
  std::vector<at::Tensor> buckets() const;
  std::vector<at::Tensor> gradient_parts() const;

  comm::ProcessGroup& group;
  const DataParallelOptions options;
  GradientBuckets gradients;
  int no_sync = 0;
  int divisor = 0;
  std::int64_t steps = 0;
  std::chrono::nanoseconds exposed{0};
  std::vector<Event> trace;

 private:
  bool keeps_first_order() const {
    return options.find_unused_parameters || options.shard_optimizer || options.scatter_gradients;
  }
  void VerifyLayout();
  void Place(const std::vector<int>& order);
  void InstallHooks();
  void OnGradient(std::size_t index);
  void TakeBack(Gradient& gradient);
  void BeginBackward();
  void LaunchFullBuckets();
  void EndBackward();
  void WaitForBuckets();
  void DropGloballyUnused();
  [[noreturn]] void FailUnused();
  std::vector<int> OrderOfRankZero();
  void Rebuild(bool keep_values);

  const std::vector<NamedTensor> all_;  // parameters, frozen ones included
  const std::vector<NamedTensor> buffers_;
  store::Store& store_;
  const std::string key_;
  std::vector<Hook> hooks_;
  BucketReducer reducer_;
  UsedParameters used_;

  bool in_backward_ = false;
  bool reduced_ = false;
  bool rebuilt_ = false;
  std::vector<bool> ready_;           // by gradient
  std::vector<std::size_t> pending_;  // by bucket: gradients that are still to come
  std::size_t next_bucket_ = 0;       // to be launched
  std::vector<int> observed_order_;   // of the gradients of this backward
  std::vector<int> first_order_;      // of the first step's
};

DataParallel::Impl::Impl(std::vector<NamedTensor> parameters, std::vector<NamedTensor> buffers,
                         comm::ProcessGroup& the_group, store::Store& store,
                         DataParallelOptions the_options)
    : group(the_group),
      options(std::move(the_options)),
      gradients(
          parameters,
          {.limits = {options.first_bucket_bytes, options.bucket_bytes, options.last_bucket_bytes},
           .parts =
               options.shard_optimizer || options.scatter_gradients ? the_group.world_size() : 1}),
      divisor(the_group.world_size()),
      all_(std::move(parameters)),
      buffers_(std::move(buffers)),
      store_(store),
      key_("ddp/" + options.name),
      reducer_(gradients, group,
               {.compression = options.compression, .scatter = options.scatter_gradients}),
      used_(gradients.size()),
      ready_(gradients.size()) {
  VerifyLayout();
  BroadcastFromZero(group, all_, "parameter");
  BroadcastFromZero(group, buffers_, "buffer");
  // Until the first backward has shown its order: last layers first.
  std::vector<int> order(gradients.size());
  std::iota(order.rbegin(), order.rend(), 0);
  Place(order);
  gradients.Attach();
  rebuilt_ = keeps_first_order();
  InstallHooks();
}

DataParallel::Impl::~Impl() {
  for (const Hook& hook : hooks_) {
    hook.accumulator->del_post_hook(hook.key);
  }
}

void DataParallel::Impl::VerifyLayout() {
  if (group.world_size() == 1) {
    return;
  }
  std::vector<std::string> lines = DescribeTensors(all_);
  const std::vector<std::string> more = DescribeTensors(buffers_);
  lines.insert(lines.end(), more.begin(), more.end());
  VerifySameLayout(lines, group, store_, key_ + "/layout",
                   Deadline::In(options.timeout, "description of the model"));
}

void DataParallel::Impl::Place(const std::vector<int>& order) {
  if (order.empty()) {
    return;
  }
  gradients.Place(order, group, "gradients of " + options.name);
  reducer_.Reset();
}

void DataParallel::Impl::InstallHooks() {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    Hook& hook = hooks_.emplace_back();
    hook.accumulator =
        torch::autograd::impl::grad_accumulator(gradients.gradient(i).parameter.tensor);
    hook.key =
        hook.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [this, i](const torch::autograd::variable_list& outputs,
                      const torch::autograd::variable_list&) {
              OnGradient(i);
              return outputs;
            }));
  }
}

// Somebody has set .grad to nothing, and autograd has made a new tensor.
void DataParallel::Impl::TakeBack(Gradient& gradient) {
  at::Tensor& grad = gradient.parameter.tensor.mutable_grad();
  if (grad.data_ptr() != gradient.place.data_ptr()) {
    const at::NoGradGuard no_grad;
    gradient.place.copy_(grad);
    grad = gradient.place;
  }
}

void DataParallel::Impl::OnGradient(std::size_t index) {
  Gradient& gradient = gradients.gradient(index);
  TakeBack(gradient);
  used_.Mark(index);
  if (no_sync > 0) {
    return;
  }
  if (!in_backward_) {
    BeginBackward();
    torch::autograd::Engine::get_default_engine().queue_callback([this] { EndBackward(); });
  }
  if (ready_[index]) {
    throw Error(ExitCode::kSoftware,
                fmt::format("rank {} step {}: the gradient of '{}' came twice in one backward: a "
                            "parameter may not be used in two nested backward passes",
                            group.rank(), steps + 1, gradient.parameter.name));
  }
  ready_[index] = true;
  observed_order_.push_back(static_cast<int>(index));
  trace.push_back({EventKind::kGradientReady, static_cast<int>(index)});
  --pending_[gradient.bucket];
  LaunchFullBuckets();
}

void DataParallel::Impl::BeginBackward() {
  in_backward_ = true;
  next_bucket_ = 0;
  observed_order_.clear();
  trace.clear();
  pending_.clear();
  for (const GradientBucket& bucket : gradients.buckets()) {
    pending_.push_back(bucket.gradients.size());
  }
  ready_.assign(gradients.size(), false);
}

// In the order that all ranks have: a full bucket waits for those before it.
void DataParallel::Impl::LaunchFullBuckets() {
  for (; next_bucket_ < pending_.size() && pending_[next_bucket_] == 0; ++next_bucket_) {
    trace.push_back({EventKind::kBucketLaunched, static_cast<int>(next_bucket_)});
    reducer_.Launch(next_bucket_, steps + 1);
  }
}

void DataParallel::Impl::EndBackward() {
  in_backward_ = false;
  trace.push_back({EventKind::kBackwardEnded, 0});
  if (next_bucket_ < pending_.size()) {
    if (!options.find_unused_parameters) {
      FailUnused();
    }
    // What has not come by now will not: its zeros are this rank's contribution.
    std::fill(pending_.begin(), pending_.end(), 0);
    LaunchFullBuckets();
  }
  WaitForBuckets();
  reduced_ = true;
  if (++steps == 1) {
    const bool complete = observed_order_.size() == gradients.size();
    first_order_ = complete ? observed_order_ : gradients.Order();
  }
}

void DataParallel::Impl::WaitForBuckets() {
  const auto start = std::chrono::steady_clock::now();
  if (options.find_unused_parameters) {
    used_.StartAgreement(group, steps + 1);
  }
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    reducer_.Wait(i);
    if (divisor != group.world_size()) {
      reducer_.part(i).mul_(static_cast<double>(group.world_size()) / divisor);
    }
    trace.push_back({EventKind::kBucketReduced, static_cast<int>(i)});
  }
  if (options.find_unused_parameters) {
    DropGloballyUnused();
  }
  exposed = std::chrono::steady_clock::now() - start;
}

// As in one process: an optimizer leaves alone what took no part in the loss.
void DataParallel::Impl::DropGloballyUnused() {
  const std::vector<bool> used = used_.FinishAgreement();
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) {
      gradients.gradient(i).parameter.tensor.mutable_grad().reset();
    }
  }
}

void DataParallel::Impl::FailUnused() {
  const std::string what = DescribeUnused(gradients.gradients(), ready_, steps + 1);
  group.Abort(what);  // the other ranks may be waiting for a bucket of them
  throw Error(ExitCode::kSoftware, fmt::format("rank {}: {}", group.rank(), what));
}

void DataParallel::Impl::ReduceWithoutBackward() {
  BeginBackward();
  std::fill(pending_.begin(), pending_.end(), 0);
  LaunchFullBuckets();
  EndBackward();
}

// A collective call, so that a rank that is lost meanwhile is noticed.
std::vector<int> DataParallel::Impl::OrderOfRankZero() {
  const at::Tensor order = at::tensor(first_order_, at::kInt).to(gradients.device());
  group
      .Broadcast(order.mutable_data_ptr(), order.nbytes(), 0,
                 {.name = "order of gradients",
                  .timeout = options.timeout,
                  .gpu_stream = StreamOf(order.device())})
      ->Wait();
  const at::Tensor host = order.cpu();
  const auto* const begin = host.const_data_ptr<int>();
  std::vector<int> theirs(begin, begin + host.numel());
  DDP_RT_CHECK(IsPermutation(theirs), "rank 0's order of gradients");
  return theirs;
}

void DataParallel::Impl::ZeroGrad() {
  if (in_backward_) {
    throw Error(ExitCode::kSoftware,
                fmt::format("rank {}: the backward of step {} did not come to its end",
                            group.rank(), steps + 1));
  }
  if (steps > 0 && !rebuilt_) {
    Rebuild(/*keep_values=*/false);
  }
  gradients.Zero();
  gradients.Attach();
  used_.Clear();
  reduced_ = false;
}

void DataParallel::Impl::BeginForward() {
  if (in_backward_) {
    return;  // a forward within backward: recomputed activations
  }
  if (steps > 0 && !rebuilt_) {
    Rebuild(/*keep_values=*/true);
  }
  if (gradients.ReplaceMissing()) {
    used_.Clear();
  }
}

// Into the order of rank 0's first backward.
void DataParallel::Impl::Rebuild(bool keep_values) {
  rebuilt_ = true;
  if (gradients.size() == 0) {
    return;
  }
  const at::NoGradGuard no_grad;
  const std::vector<int> order = OrderOfRankZero();
  std::vector<at::Tensor> values(gradients.size());
  for (std::size_t i = 0; keep_values && i < values.size(); ++i) {
    const at::Tensor& grad = gradients.gradient(i).parameter.tensor.grad();
    values[i] = grad.defined() ? grad.clone() : grad;
  }
  Place(order);
  for (std::size_t i = 0; keep_values && i < values.size(); ++i) {
    Gradient& gradient = gradients.gradient(i);
    if (values[i].defined()) {
      gradient.place.copy_(values[i]);
      gradient.parameter.tensor.mutable_grad() = gradient.place;
    }
  }
  if (group.world_size() > 1) {
    const std::string layout = gradients.Describe();
    VerifySameLayout({fmt::format("buckets {:016x}", XXH3_64bits(layout.data(), layout.size()))},
                     group, store_, key_ + "/rebuilt",
                     Deadline::In(options.timeout, "order of gradients"));
  }
}

void DataParallel::Impl::EnsureReduced() const {
  if (!reduced_) {
    throw Error(
        ExitCode::kSoftware,
        fmt::format("rank {} step {}: no backward has been reduced since ZeroGrad: does the "
                    "loss depend on any parameter?",
                    group.rank(), steps + 1));
  }
}

std::vector<at::Tensor> DataParallel::Impl::buckets() const {
  std::vector<at::Tensor> flat;
  flat.reserve(gradients.buckets().size());
  for (const GradientBucket& bucket : gradients.buckets()) {
    flat.push_back(bucket.flat);
  }
  return flat;
}

std::vector<at::Tensor> DataParallel::Impl::gradient_parts() const {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < gradients.buckets().size(); ++i) {
    parts.push_back(reducer_.part(i));
  }
  return parts;
}

DataParallel::DataParallel(std::vector<NamedTensor> parameters, std::vector<NamedTensor> buffers,
                           comm::ProcessGroup& group, store::Store& store,
                           DataParallelOptions options)
    : impl_(std::make_unique<Impl>(std::move(parameters), std::move(buffers), group, store,
                                   std::move(options))) {}
DataParallel::~DataParallel() = default;
void DataParallel::ZeroGrad() { impl_->ZeroGrad(); }
void DataParallel::BeginForward() { impl_->BeginForward(); }
void DataParallel::EnsureReduced() const { impl_->EnsureReduced(); }
void DataParallel::ReduceWithoutBackward() { impl_->ReduceWithoutBackward(); }
bool DataParallel::reduces() const { return impl_->no_sync == 0; }
void DataParallel::SetDivisor(int ranks) { impl_->divisor = ranks; }
void DataParallel::BroadcastBuffers() { impl_->BroadcastBuffers(); }
std::uint64_t DataParallel::ParameterHash() const { return impl_->ParameterHash(); }
void DataParallel::VerifyReplicas() {
  VerifyEqualOnAllRanks(impl_->group, impl_->ParameterHash(), impl_->steps);
}
std::int64_t DataParallel::steps() const { return impl_->steps; }
std::chrono::nanoseconds DataParallel::exposed() const { return impl_->exposed; }
std::vector<at::Tensor> DataParallel::buckets() const { return impl_->buckets(); }
std::vector<at::Tensor> DataParallel::gradient_parts() const { return impl_->gradient_parts(); }
const DataParallelOptions& DataParallel::options() const { return impl_->options; }
const at::Device& DataParallel::device() const { return impl_->gradients.device(); }
comm::ProcessGroup& DataParallel::group() const { return impl_->group; }
const GradientBuckets& DataParallel::layout() const { return impl_->gradients; }
const std::vector<DataParallel::Event>& DataParallel::TraceForTest() const { return impl_->trace; }

DataParallel::NoSync::NoSync(DataParallel& engine) : engine_(engine) { ++engine_.impl_->no_sync; }
DataParallel::NoSync::~NoSync() { --engine_.impl_->no_sync; }

}  // namespace ddp::rt
