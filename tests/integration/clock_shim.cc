// Preloaded into an operator under test: its wall clock is off by as many nanoseconds as stand in
// the file that DDP_CLOCK_OFFSET_FILE names, and jumps when a test writes another number. Its
// steady clock is not touched.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

const volatile int64_t* MapOffset() {
  const char* path = std::getenv("DDP_CLOCK_OFFSET_FILE");
  const int file = path != nullptr ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) {
    return nullptr;
  }
  void* mapped = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return mapped == MAP_FAILED ? nullptr : static_cast<const volatile int64_t*>(mapped);
}

const volatile int64_t* const offset = MapOffset();

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  constexpr int64_t kSecond = 1'000'000'000;
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  if (result == 0 && clock == CLOCK_REALTIME && offset != nullptr) {
    const int64_t nanoseconds = now->tv_sec * kSecond + now->tv_nsec + *offset;
    now->tv_sec = nanoseconds / kSecond;
    now->tv_nsec = nanoseconds % kSecond;
  }
  return result;
}
