#include "runtime/comm/queued_group.h"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>

#include "runtime/base/log.h"

namespace ddp::rt::comm {

namespace {

// How long a lazy group leaves a work to those who may come to wait for it.
constexpr std::chrono::seconds kUnwaited{1};

}  // namespace

// What works and their group share. Works may outlive the group, and are then done.
struct QueuedGroup::Lane {
  std::mutex mutex;
  std::condition_variable for_thread;  // the group's: something to run, or the end
  std::condition_variable finished;    // a work
  std::deque<std::shared_ptr<Item>> queue;
  bool running = false;  // its front
  bool hurry = false;    // somebody looks at a work without waiting for it
  std::atomic<int> waiters{0};
  std::atomic<bool> reported{false};  // a Wait has thrown the group's failure
  QueuedGroup* const group;           // valid while the queue is not empty

  explicit Lane(QueuedGroup* the_group) : group(the_group) {}
  void RunUntilDone(const Item& item);
};

class QueuedGroup::Item final : public Work {
 public:
  Item(Call the_call, std::shared_ptr<Lane> lane)
      : call(std::move(the_call)), lane_(std::move(lane)) {}

  void Wait() override {
    if (!done()) {
      lane_->RunUntilDone(*this);
    }
    if (error_ != nullptr) {
      lane_->reported = true;
      std::rethrow_exception(error_);
    }
  }
  bool Done() const override {
    if (done()) {
      return true;
    }
    const std::scoped_lock lock(lane_->mutex);
    lane_->hurry = true;
    lane_->for_thread.notify_one();
    return done();
  }
  bool done() const { return done_.load(std::memory_order_acquire); }
  void Finish(std::exception_ptr error) {
    error_ = std::move(error);
    done_.store(true, std::memory_order_release);
  }

  const Call call;
  const Deadline::Clock::time_point queued = Deadline::Clock::now();
  std::unique_ptr<Buffer> buffer;  // what an allocation made

 private:
  const std::shared_ptr<Lane> lane_;
  std::exception_ptr error_;  // set before done_
  std::atomic<bool> done_{false};
};

void QueuedGroup::Lane::RunUntilDone(const Item& item) {
  waiters.fetch_add(1);
  {
    std::unique_lock lock(mutex);
    while (!item.done()) {
      if (!running && group->transport_->AnyThread()) {
        group->RunFront(lock);
      } else {
        finished.wait(lock);
      }
    }
  }
  waiters.fetch_sub(1);
}

QueuedGroup::QueuedGroup(Parts parts)
    : options_(std::move(parts.options)),
      description_(std::move(parts.description)),
      control_(std::move(parts.control)),
      transport_(std::move(parts.transport)),
      lazy_(transport_->PrefersWaiter()),
      lane_(std::make_shared<Lane>(this)) {
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
  const auto item = Queue(std::move(call), std::move(options));
  item->Wait();
  return std::move(item->buffer);
}

WorkPtr QueuedGroup::Enqueue(Call call, OpOptions options) {
  return Queue(std::move(call), std::move(options));
}

std::shared_ptr<QueuedGroup::Item> QueuedGroup::Queue(Call call, OpOptions options) {
  call.name = std::move(options.name);
  call.timeout = options.timeout.count() > 0 ? options.timeout : options_.op_timeout;
  call.ready = transport_->MarkReady(options.gpu_stream);
  call.waiters = &lane_->waiters;
  const std::scoped_lock lock(lane_->mutex);
  call.sequence = ++sequence_;
  auto item = std::make_shared<Item>(std::move(call), lane_);
  if (stopping_) {
    item->Finish(std::make_exception_ptr(
        Error(ExitCode::kSoftware, ShortName(item->call) + " comes after the group's shutdown")));
    return item;
  }
  lane_->queue.push_back(item);
  if (!lazy_) {
    lane_->for_thread.notify_one();
  }
  return item;
}

void QueuedGroup::RunQueue() {
  pthread_setname_np(pthread_self(), "ddp-comm");
  const auto due = [&] {
    return !lane_->queue.empty() && !lane_->running &&
           (!lazy_ || lane_->hurry || stopping_ ||
            Deadline::Clock::now() - lane_->queue.front()->queued > kUnwaited);
  };
  std::unique_lock lock(lane_->mutex);
  for (;;) {
    const auto ready = [&] { return due() || (stopping_ && lane_->queue.empty()); };
    if (lazy_) {
      lane_->for_thread.wait_for(lock, kUnwaited, ready);
    } else {
      lane_->for_thread.wait(lock, ready);
    }
    if (due()) {
      RunFront(lock);
    } else if (stopping_ && lane_->queue.empty()) {
      return;
    }
  }
}

// Any thread; the lock is free while the work runs.
void QueuedGroup::RunFront(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Item> item = lane_->queue.front();
  lane_->running = true;
  lock.unlock();
  Stats did;
  std::exception_ptr error = Execute(*item, did);
  lock.lock();
  ++stats_.works;
  stats_.bytes += did.bytes;
  stats_.busy += did.busy;
  stats_.waiting += did.waiting;
  failure_ = failure_ ? failure_ : error;
  lane_->running = false;
  lane_->queue.pop_front();
  lane_->hurry = lane_->hurry && !lane_->queue.empty();
  item->Finish(std::move(error));
  lane_->finished.notify_all();
  // Not at every end: waking it costs more than a small work does.
  if (stopping_ || lane_->hurry || (!lazy_ && !lane_->queue.empty())) {
    lane_->for_thread.notify_one();
  }
}

std::exception_ptr QueuedGroup::Execute(Item& item, Stats& did) {
  const auto start = Deadline::Clock::now();
  std::exception_ptr error;
  try {
    if (item.call.kind == Kind::kAllocate) {
      item.buffer = transport_->Allocate(item.call);
    } else {
      transport_->Run(item.call, did.waiting);
    }
  } catch (const std::exception& e) {
    error = std::current_exception();
    // Unless the transport has broken the group already, this is where it starts.
    control_->Break({rank(), ExitCode::kUnavailable, fmt::format("rank {}: {}", rank(), e.what())});
  }
  did.bytes = item.call.bytes();
  did.busy = Deadline::Clock::now() - start;
  return error;
}

void QueuedGroup::Abort(const std::string& reason) {
  control_->Break({rank(), ExitCode::kUnavailable, fmt::format("rank {}: {}", rank(), reason)});
}

void QueuedGroup::Shutdown(std::chrono::milliseconds timeout) {
  if (closed_) {
    return;
  }
  {
    std::unique_lock lock(lane_->mutex);
    stopping_ = true;
    lane_->for_thread.notify_one();
    if (!lane_->finished.wait_for(lock, timeout, [&] { return lane_->queue.empty(); })) {
      const std::string call = ShortName(lane_->queue.front()->call);
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
  if (failure_ != nullptr && !lane_->reported) {
    std::rethrow_exception(failure_);
  }
}

// The communication thread finishes what is queued (all of it fails at once in a broken group).
void QueuedGroup::Close() {
  closed_ = true;
  {
    const std::scoped_lock lock(lane_->mutex);
    stopping_ = true;
    lane_->for_thread.notify_one();
  }
  thread_.join();
  control_->Stop();
}

Stats QueuedGroup::stats() const {
  const std::scoped_lock lock(lane_->mutex);
  return stats_;
}

}  // namespace ddp::rt::comm
