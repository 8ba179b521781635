#include "runtime/checkpoint/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "runtime/base/error.h"

namespace ddp::rt::checkpoint {
namespace {

// So much is written and read at once.
constexpr size_t kPiece = 4 << 20;

[[noreturn]] void Fail(const std::string& action, const std::filesystem::path& path, int error) {
  throw Error(ExitCode::kSoftware, FileProblem(action, path, error));
}

// Closes on every way out.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

std::string FileProblem(const std::string& action, const std::filesystem::path& path, int error) {
  return fmt::format("can't {} {}: {}", action, path.string(),
                     std::generic_category().message(error));
}

uint64_t Checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string ToHex(uint64_t value) { return fmt::format("{:016x}", value); }

struct AtomicFile::Hash {
  struct Free {
    void operator()(XXH3_state_t* freed) const { XXH3_freeState(freed); }
  };
  std::unique_ptr<XXH3_state_t, Free> state{XXH3_createState()};
};

AtomicFile::AtomicFile(const std::filesystem::path& path)
    : path_(path), temporary_(path.string() + kTemporarySuffix), hash_(std::make_unique<Hash>()) {
  XXH3_64bits_reset(hash_->state.get());
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    Fail("create", temporary_, errno);
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    close(fd_);
    unlink(temporary_.c_str());
  }
}

void AtomicFile::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    const ssize_t written = write(fd_, piece.data(), piece.size());
    if (written < 0) {
      if (errno != EINTR) {
        Fail("write", temporary_, errno);
      }
      continue;
    }
    const auto done = static_cast<size_t>(written);
    XXH3_64bits_update(hash_->state.get(), bytes.data(), done);
    bytes = bytes.subspan(done);
    size_ += done;
    if (size_ - handed_over_ >= kPiece) {
      WriteBack();
    }
  }
}

// Begins to write the newest piece to the disk and waits for the one before, so at most two are on
// their way. Not every file system can; then fsync does it all.
void AtomicFile::WriteBack() {
  const auto begin = static_cast<off_t>(handed_over_);
  const auto length = static_cast<off_t>(size_ - handed_over_);
  sync_file_range(fd_, begin, length, SYNC_FILE_RANGE_WRITE);
  if (handed_over_ > 0) {
    sync_file_range(
        fd_, 0, begin,
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    posix_fadvise(fd_, 0, begin, POSIX_FADV_DONTNEED);
  }
  handed_over_ = size_;
}

void AtomicFile::Append(std::string_view text) { Append(std::as_bytes(std::span(text))); }

void AtomicFile::Commit() {
  if (fsync(fd_) != 0) {
    Fail("write to stable storage", temporary_, errno);
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    Fail("rename", temporary_, errno);
  }
  close(fd_);
  fd_ = -1;
  SyncFolder(path_.parent_path());
}

uint64_t AtomicFile::checksum() const { return XXH3_64bits_digest(hash_->state.get()); }

std::vector<std::byte> ReadFile(const std::filesystem::path& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0) {
    Fail("open", path, errno);
  }
  std::vector<std::byte> bytes(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      Fail("read", path, errno);
    }
    if (got == 0) {
      break;
    }
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

uint64_t FileChecksum(const std::filesystem::path& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    Fail("open", path, errno);
  }
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<std::byte> piece(kPiece);
  while (true) {
    const ssize_t got = read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno != EINTR) {
      Fail("read", path, errno);
    }
    if (got == 0) {
      return XXH3_64bits_digest(state.get());
    }
    XXH3_64bits_update(state.get(), piece.data(), got < 0 ? 0 : static_cast<size_t>(got));
  }
}

void SyncFolder(const std::filesystem::path& folder) {
  const Descriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems can't sync a folder and say EINVAL: they order renames themselves.
  if (opened.get() < 0 || (fsync(opened.get()) != 0 && errno != EINVAL)) {
    Fail("write to stable storage", folder, errno);
  }
}

}  // namespace ddp::rt::checkpoint
