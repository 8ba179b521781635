#include "runtime/checkpoint/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <system_error>

#include "runtime/base/error.h"

namespace ddp::rt::checkpoint {
namespace {

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
  XXH3_64bits_update(hash_->state.get(), bytes.data(), bytes.size());
  size_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) {
      Fail("write", temporary_, errno);
    }
    bytes = bytes.subspan(written < 0 ? 0 : static_cast<size_t>(written));
  }
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

void SyncFolder(const std::filesystem::path& folder) {
  const Descriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems can't sync a folder and say EINVAL: they order renames themselves.
  if (opened.get() < 0 || (fsync(opened.get()) != 0 && errno != EINVAL)) {
    Fail("write to stable storage", folder, errno);
  }
}

}  // namespace ddp::rt::checkpoint
