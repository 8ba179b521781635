// Files that are either there in full or not at all, whatever is killed or unplugged meanwhile, and
// checksums of what is in them. Failures of the file system are Error with path and reason.
// An object belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ddp::rt::checkpoint {

// XXH3, 64 bits: finds damage, not malice.
uint64_t Checksum(std::span<const std::byte> bytes);
std::string ToHex(uint64_t value);

// Writes `<path>.tmp`; Commit makes it `path` on stable storage (fsync, rename, fsync of the
// folder). Without Commit nothing is left.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Hands what is written to the disk piece by piece, so that no burst of it holds others up, and
  // nothing of it stays in the page cache.
  void Append(std::span<const std::byte> bytes);
  void Append(std::string_view text);
  void Commit();

  uint64_t size() const { return size_; }
  // Of everything appended so far.
  uint64_t checksum() const;

 private:
  struct Hash;
  void WriteBack();

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  uint64_t size_ = 0;
  uint64_t handed_over_ = 0;  // bytes whose writing has begun
  std::unique_ptr<Hash> hash_;
};

// The suffix of files that are not complete.
inline constexpr const char* kTemporarySuffix = ".tmp";

std::vector<std::byte> ReadFile(const std::filesystem::path& path);

// Of a whole file, without holding it in memory.
uint64_t FileChecksum(const std::filesystem::path& path);

// Makes renames and removals in a folder stable.
void SyncFolder(const std::filesystem::path& folder);

// What Error says about a failed system call.
std::string FileProblem(const std::string& action, const std::filesystem::path& path, int error);

}  // namespace ddp::rt::checkpoint
