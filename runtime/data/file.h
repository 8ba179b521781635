// Data files: read at once, or mapped so that only what is used is read. Errors name the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ddp::rt::data {

// Error(kNoInput) if it can't be read.
std::vector<uint8_t> ReadFile(const std::filesystem::path& path);

// A file in memory, read only, as the kernel caches it: ranks of a host share it. The file must not
// shrink meanwhile. Thread-safe: const.
class MappedFile {
 public:
  // Error(kNoInput) if it can't be read.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::span<const uint8_t> bytes_;
};

// Throws Error(kData): "data file NAME: WHAT".
[[noreturn]] void Damaged(const std::string& name, const std::string& what);

// What to do about a file that is too short or too long.
inline constexpr const char* kCopyAgain =
    "copy the file again; its download or copy was not complete";

// The files of a folder whose names contain `part` and end with `suffix`, sorted by name.
std::vector<std::filesystem::path> FilesOf(const std::filesystem::path& folder,
                                           const std::string& part, const std::string& suffix);

}  // namespace ddp::rt::data
