// Ranks as real processes, for tests that kill and stop them: fork without exec, a store in memory
// that all share, and an end that is waited for with a bound.
#pragma once

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/net.h"
#include "runtime/comm/shm_memory.h"
#include "runtime/store/store.h"

namespace ddp::rt::comm {

// Anonymous memory that forked children share with their parent.
template <typename T>
T* MakeShared() {
  void* const memory =
      mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  DDP_RT_CHECK(memory != MAP_FAILED, ErrnoText(errno));
  return new (memory) T();
}

// A store across fork; survives the death of whoever holds its lock. Lives until the process ends.
class ForkStore final : public store::Store {
 public:
  ForkStore() : shared_(MakeShared<Shared>()) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared_->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
  }

  void Clear() {
    Locked([&] {
      std::memset(shared_->entries, 0, sizeof(shared_->entries));
      shared_->used = 0;
    });
  }
  void Set(const std::string& key, std::string_view value) override {
    Locked([&] { Write(FindOrAdd(key), value); });
    Notify();
  }
  std::string Get(const std::string& key, const Deadline& deadline) override {
    for (;;) {
      const std::uint32_t seen = shared_->changes.load();
      if (auto value = TryGet(key)) {
        return *value;
      }
      if (deadline.Expired()) {
        throw store::MissingKey(key, deadline);
      }
      FutexWait(shared_->changes, seen, deadline.at());
    }
  }
  std::optional<std::string> TryGet(const std::string& key) override {
    return Locked([&]() -> std::optional<std::string> {
      const Entry* const entry = Find(key);
      return entry == nullptr ? std::nullopt
                              : std::optional(std::string(entry->value, entry->size));
    });
  }
  std::int64_t Add(const std::string& key, std::int64_t delta) override {
    const std::int64_t sum = Locked([&] {
      Entry& entry = FindOrAdd(key);
      const std::string old(entry.value, entry.size);
      const std::int64_t added = (old.empty() ? 0 : std::stoll(old)) + delta;
      Write(entry, std::to_string(added));
      return added;
    });
    Notify();
    return sum;
  }
  std::string CompareSet(const std::string& /*key*/, std::string_view /*expected*/,
                         std::string_view /*desired*/) override {
    Die(__FILE__, __LINE__, "no test of processes needs CompareSet");
  }
  bool Delete(const std::string& /*key*/) override {
    Die(__FILE__, __LINE__, "no test of processes needs Delete");
  }

 private:
  struct Entry {
    char key[120];
    char value[1900];
    std::uint32_t size;
  };
  struct Shared {
    pthread_mutex_t mutex;
    std::atomic<std::uint32_t> changes;
    std::uint32_t used;
    Entry entries[256];
  };

  template <typename Call>
  std::invoke_result_t<const Call&> Locked(const Call& call) {
    struct Lock {
      explicit Lock(pthread_mutex_t& m) : mutex(m) {
        if (pthread_mutex_lock(&mutex) == EOWNERDEAD) {
          pthread_mutex_consistent(&mutex);
        }
      }
      ~Lock() { pthread_mutex_unlock(&mutex); }
      pthread_mutex_t& mutex;
    };
    const Lock lock(shared_->mutex);
    return call();
  }
  Entry* Find(const std::string& key) {
    for (std::uint32_t i = 0; i < shared_->used; ++i) {
      if (key == shared_->entries[i].key) {
        return &shared_->entries[i];
      }
    }
    return nullptr;
  }
  Entry& FindOrAdd(const std::string& key) {
    if (Entry* const found = Find(key)) {
      return *found;
    }
    DDP_RT_CHECK(shared_->used < std::size(shared_->entries) && key.size() < sizeof(Entry::key),
                 key);
    Entry& entry = shared_->entries[shared_->used];
    std::memcpy(entry.key, key.c_str(), key.size() + 1);
    ++shared_->used;
    return entry;
  }
  static void Write(Entry& entry, std::string_view value) {
    DDP_RT_CHECK(value.size() <= sizeof(entry.value), "value too long for the test's store");
    std::memcpy(entry.value, value.data(), value.size());
    entry.size = static_cast<std::uint32_t>(value.size());
  }
  void Notify() {
    shared_->changes.fetch_add(1);
    FutexWakeAll(shared_->changes);
  }

  Shared* const shared_;
};

// How a rank's process ended.
struct End {
  int exit_code = -1;  // -1: by a signal
  int signal = 0;
  std::string error;  // what its Error said
};

// The processes of a test; those that still run are killed at its end.
class Processes {
 public:
  explicit Processes(int world_size)
      : pids_(static_cast<std::size_t>(world_size), -1), texts_(MakeShared<Texts>()) {}
  ~Processes() {
    for (const pid_t pid : pids_) {
      if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
      }
    }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // The exit code is 0, that of the Error thrown, or 1 for anything else.
  void Start(int rank, const std::function<void()>& body) {
    const pid_t pid = fork();
    DDP_RT_CHECK(pid >= 0, ErrnoText(errno));
    if (pid == 0) {
      _exit(RunBody(rank, body));
    }
    pids_[static_cast<std::size_t>(rank)] = pid;
  }
  void Signal(int rank, int signal) { kill(pids_[static_cast<std::size_t>(rank)], signal); }

  // Nothing if it still runs at the deadline.
  std::optional<End> Wait(int rank, const Deadline& deadline) {
    pid_t& pid = pids_[static_cast<std::size_t>(rank)];
    const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!WaitFor(process, POLLIN, deadline)) {
      return std::nullopt;
    }
    int status = 0;
    waitpid(std::exchange(pid, -1), &status, 0);
    End end;
    if (WIFEXITED(status)) {
      end.exit_code = WEXITSTATUS(status);
    } else {
      end.signal = WTERMSIG(status);
    }
    end.error = texts_->of[rank];
    return end;
  }

 private:
  struct Texts {
    char of[8][2048];
  };

  int RunBody(int rank, const std::function<void()>& body) {
    const auto failed = [&](const char* text, int code) {
      std::strncpy(texts_->of[rank], text, sizeof(texts_->of[rank]) - 1);
      return code;
    };
    try {
      body();
      return 0;
    } catch (const Error& e) {
      return failed(e.what(), static_cast<int>(e.code()));
    } catch (const std::exception& e) {
      return failed(e.what(), 1);
    }
  }

  std::vector<pid_t> pids_;
  Texts* const texts_;
};

}  // namespace ddp::rt::comm
