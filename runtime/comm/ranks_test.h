// N ranks as threads of one process, for tests: they meet through a HashStore.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/comm/process_group.h"
#include "runtime/store/hash_store.h"

namespace ddp::rt::comm {

// Runs body(rank) in a thread each, joins all, and throws the first error.
inline void RunRanks(int world_size, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(world_size));
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        first = first ? first : std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

inline GroupOptions TestOptions(int rank, int world_size, TransportKind transport) {
  GroupOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.job_uid = "test";
  options.attempt = 1;
  options.transport = transport;
  options.init_timeout = std::chrono::seconds(30);
  options.op_timeout = std::chrono::seconds(30);
  return options;
}

// The same with a process group for each rank, shut down at the end.
inline void RunGroups(int world_size, TransportKind transport,
                      const std::function<void(ProcessGroup&)>& body) {
  const auto store = std::make_shared<store::HashStore>();
  RunRanks(world_size, [&](int rank) {
    const auto group = CreateProcessGroup(*store, TestOptions(rank, world_size, transport));
    body(*group);
    group->Shutdown(std::chrono::seconds(30));
  });
}

}  // namespace ddp::rt::comm
