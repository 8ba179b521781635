#include "runtime/data/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "runtime/base/error.h"

namespace ddp::rt::data {
namespace {

[[noreturn]] void Unreadable(const std::filesystem::path& path, const std::error_code& error) {
  throw Error(ExitCode::kNoInput,
              fmt::format("data file {} can't be read: {}; it must lie in the folder that "
                          "data.path of the config names",
                          path.string(), error.message()));
}

}  // namespace

void Damaged(const std::string& name, const std::string& what) {
  throw Error(ExitCode::kData, fmt::format("data file {}: {}", name, what));
}

std::vector<uint8_t> ReadFile(const std::filesystem::path& path) {
  std::error_code error;
  std::vector<uint8_t> bytes;
  const auto size = std::filesystem::file_size(path, error);
  if (!error) {
    bytes.resize(size);
    std::ifstream file(path, std::ios::binary);
    // The stream's own element type is char.
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
    if (!file) {
      error = std::error_code(errno, std::generic_category());
    }
  }
  if (error) {
    Unreadable(path, error);
  }
  return bytes;
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const auto fail = [&] { Unreadable(path, std::error_code(errno, std::generic_category())); };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    fail();
  }
  struct stat info {};
  void* memory = nullptr;
  if (fstat(fd, &info) == 0 && info.st_size > 0) {
    memory = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
  }
  const int cause = errno;
  close(fd);
  if (memory == MAP_FAILED) {
    errno = cause;
    fail();
  }
  if (memory != nullptr) {
    bytes_ = {static_cast<const uint8_t*>(memory), static_cast<size_t>(info.st_size)};
  }
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

std::vector<std::filesystem::path> FilesOf(const std::filesystem::path& folder,
                                           const std::string& part, const std::string& suffix) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(suffix) && name.find(part) != std::string::npos &&
        !entry.is_directory(error)) {
      found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace ddp::rt::data
