#include "runtime/comm/queued_group.h"

#include <fmt/format.h>
#include <pthread.h>

#include "runtime/base/log.h"

namespace ddp::rt::comm {

class QueuedGroup::Item final : public Work {
 public:
  Item(Call the_call, std::shared_ptr<std::atomic<bool>> reported)
      : call(std::move(the_call)), reported_(std::move(reported)) {}

  void Wait() override {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return done_; });
    if (error_ != nullptr) {
      reported_->store(true);
      std::rethrow_exception(error_);
    }
  }
  bool Done() const override {
    const std::scoped_lock lock(mutex_);
    return done_;
  }
  void Finish(std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    done_ = true;
    error_ = std::move(error);
    finished_.notify_all();
  }

  const Call call;
  std::unique_ptr<Buffer> buffer;  // what an allocation made

 private:
  mutable std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::exception_ptr error_;
  const std::shared_ptr<std::atomic<bool>> reported_;
};

QueuedGroup::QueuedGroup(Parts parts)
    : options_(std::move(parts.options)),
      description_(std::move(parts.description)),
      control_(std::move(parts.control)),
      transport_(std::move(parts.transport)) {
  control_->Start([transport = transport_.get()] { transport->Interrupt(); });
  thread_ = std::thread([this] { RunQueue(); });
}

QueuedGroup::~QueuedGroup() {
  if (!closed_) {
    control_->BreakHere(fmt::format("rank {} dropped the group without a shutdown", rank()));
    Close();
  }
}

WorkPtr QueuedGroup::AllReduce(void* data, std::size_t count, DataType type, ReduceOp op,
                               OpOptions options) {
  Call call;
  call.kind = Kind::kAllReduce;
  call.out = data;
  call.count = count;
  call.type = type;
  call.op = op;
  return Enqueue(std::move(call), std::move(options));
}

WorkPtr QueuedGroup::Broadcast(void* data, std::size_t bytes, int root, OpOptions options) {
  DDP_RT_CHECK(root >= 0 && root < world_size(), fmt::format("no rank {}", root));
  Call call;
  call.kind = Kind::kBroadcast;
  call.out = data;
  call.count = bytes;
  call.root = root;
  return Enqueue(std::move(call), std::move(options));
}

WorkPtr QueuedGroup::AllGather(const void* in, void* out, std::size_t bytes, OpOptions options) {
  Call call;
  call.kind = Kind::kAllGather;
  call.in = in;
  call.out = out;
  call.count = bytes;
  return Enqueue(std::move(call), std::move(options));
}

WorkPtr QueuedGroup::ReduceScatter(const void* in, void* out, std::size_t count, DataType type,
                                   ReduceOp op, OpOptions options) {
  Call call;
  call.kind = Kind::kReduceScatter;
  call.in = in;
  call.out = out;
  call.count = count;
  call.type = type;
  call.op = op;
  return Enqueue(std::move(call), std::move(options));
}

WorkPtr QueuedGroup::Barrier(OpOptions options) { return Enqueue(Call(), std::move(options)); }

std::unique_ptr<Buffer> QueuedGroup::Allocate(std::size_t bytes, OpOptions options) {
  Call call;
  call.kind = Kind::kAllocate;
  call.count = bytes;
  const auto item = Enqueue(std::move(call), std::move(options));
  item->Wait();
  return std::move(item->buffer);
}

std::shared_ptr<QueuedGroup::Item> QueuedGroup::Enqueue(Call call, OpOptions options) {
  call.name = std::move(options.name);
  call.timeout = options.timeout.count() > 0 ? options.timeout : options_.op_timeout;
  call.ready = transport_->MarkReady(options.gpu_stream);
  const std::scoped_lock lock(mutex_);
  call.sequence = ++sequence_;
  auto item = std::make_shared<Item>(std::move(call), reported_);
  if (stopping_) {
    item->Finish(std::make_exception_ptr(
        Error(ExitCode::kSoftware, ShortName(item->call) + " comes after the group's shutdown")));
    return item;
  }
  queue_.push_back(item);
  changed_.notify_all();
  return item;
}

void QueuedGroup::RunQueue() {
  pthread_setname_np(pthread_self(), "ddp-comm");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !queue_.empty() || stopping_; });
    if (queue_.empty()) {
      return;
    }
    const std::shared_ptr<Item> item = queue_.front();
    lock.unlock();
    Execute(*item);
    lock.lock();
    queue_.pop_front();
    changed_.notify_all();
  }
}

void QueuedGroup::Execute(Item& item) {
  const auto start = Deadline::Clock::now();
  std::chrono::nanoseconds waiting{0};
  std::exception_ptr error;
  try {
    if (item.call.kind == Kind::kAllocate) {
      item.buffer = transport_->Allocate(item.call);
    } else {
      transport_->Run(item.call, waiting);
    }
  } catch (const std::exception& e) {
    error = std::current_exception();
    // Unless the transport has broken the group already, this is where it starts.
    control_->Break({rank(), ExitCode::kUnavailable, fmt::format("rank {}: {}", rank(), e.what())});
  }
  {
    const std::scoped_lock lock(mutex_);
    ++stats_.works;
    stats_.bytes += item.call.bytes();
    stats_.busy += Deadline::Clock::now() - start;
    stats_.waiting += waiting;
    failure_ = failure_ ? failure_ : error;
  }
  item.Finish(error);
}

void QueuedGroup::Abort(const std::string& reason) {
  control_->Break({rank(), ExitCode::kUnavailable, fmt::format("rank {}: {}", rank(), reason)});
}

void QueuedGroup::Shutdown(std::chrono::milliseconds timeout) {
  if (closed_) {
    return;
  }
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(lock, timeout, [&] { return queue_.empty(); })) {
      const std::string call = ShortName(queue_.front()->call);
      lock.unlock();
      control_->Break({rank(), ExitCode::kUnavailable,
                       fmt::format("rank {} shut down, and {} was not finished after {}", rank(),
                                   call, Deadline::In(timeout, "").TimeoutText())});
    }
  }
  if (!control_->failure()) {
    control_->Bye();
  }
  Close();
  if (failure_ != nullptr && !reported_->load()) {
    std::rethrow_exception(failure_);
  }
}

// The communication thread finishes what is queued (all of it fails at once in a broken group).
void QueuedGroup::Close() {
  closed_ = true;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
  control_->Stop();
}

Stats QueuedGroup::stats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

}  // namespace ddp::rt::comm
