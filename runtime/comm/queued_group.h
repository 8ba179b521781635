// The ProcessGroup over any transport: a queue of works and the thread that runs them.
//
// Whoever waits for a work runs it, and those before it, itself, unless the thread is at it
// already: handing a small all-reduce over to another thread takes far longer than doing it.
#pragma once

#include <exception>
#include <mutex>
#include <thread>

#include "runtime/comm/transport.h"

namespace ddp::rt::comm {

class QueuedGroup final : public ProcessGroup {
 public:
  struct Parts {
    GroupOptions options;
    std::string description;
    std::unique_ptr<Control> control;
    std::unique_ptr<Transport> transport;  // uses `control`
  };
  explicit QueuedGroup(Parts parts);
  ~QueuedGroup() override;

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }
  std::string_view transport() const override { return transport_->name(); }
  const std::string& description() const override { return description_; }

  WorkPtr AllReduce(void* data, std::size_t count, DataType type, ReduceOp op,
                    OpOptions options) override;
  WorkPtr Broadcast(void* data, std::size_t bytes, int root, OpOptions options) override;
  WorkPtr AllGather(const void* in, void* out, std::size_t bytes, OpOptions options) override;
  WorkPtr ReduceScatter(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
                        OpOptions options) override;
  WorkPtr Barrier(OpOptions options) override;
  std::unique_ptr<Buffer> Allocate(std::size_t bytes, OpOptions options) override;
  void Abort(const std::string& reason) override;
  void Shutdown(std::chrono::milliseconds timeout) override;
  Stats stats() const override;

 private:
  class Item;
  struct Lane;

  WorkPtr Enqueue(Call call, OpOptions options);
  std::shared_ptr<Item> Queue(Call call, OpOptions options);
  void RunQueue();
  void RunFront(std::unique_lock<std::mutex>& lock);
  std::exception_ptr Execute(Item& item, Stats& did);
  void Close();

  const GroupOptions options_;
  const std::string description_;
  const std::unique_ptr<Control> control_;
  const std::unique_ptr<Transport> transport_;
  const bool lazy_;  // the thread runs a work only if nobody waits for it for long

  const std::shared_ptr<Lane> lane_;
  std::uint64_t sequence_ = 0;  // guarded by the lane's mutex, as the rest
  bool stopping_ = false;
  bool closed_ = false;
  Stats stats_;
  std::exception_ptr failure_;  // of the first work that failed
  std::thread thread_;
};

}  // namespace ddp::rt::comm
