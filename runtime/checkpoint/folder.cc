#include "runtime/checkpoint/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/file.h"

namespace ddp::rt::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kRecord = "state.json";
constexpr std::string_view kPrefix = "step-";

struct Entry {
  int64_t step;
  fs::path path;
};

std::optional<int64_t> StepOf(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && stop == end && step >= 0 ? std::optional(step) : std::nullopt;
}

// Newest first. A folder that does not exist has none.
std::vector<Entry> Entries(const fs::path& folder) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (const auto step = StepOf(it->path())) {
      entries.push_back({*step, it->path()});
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw Error(ExitCode::kConfig, FileProblem("read checkpoint folder", folder, error.value()));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.step > b.step; });
  return entries;
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Record ReadRecord(const fs::path& checkpoint) {
  std::error_code error;
  if (!fs::exists(checkpoint / kRecord, error)) {
    throw Error(ExitCode::kData, fmt::format("{} is missing: saving was interrupted", kRecord));
  }
  try {
    Record record = ParseRecord(AsText(ReadFile(checkpoint / kRecord)));
    if (FolderName(record.position.step) != checkpoint.filename()) {
      throw Error(ExitCode::kData, fmt::format("it is of step {}", record.position.step));
    }
    return record;
  } catch (const Error& e) {
    throw Error(ExitCode::kData, fmt::format("{}: {}", kRecord, e.what()));
  }
}

const FileEntry& EntryOf(const Record& record, const char* name) {
  const auto found = std::find_if(record.files.begin(), record.files.end(),
                                  [&](const FileEntry& file) { return file.name == name; });
  if (found == record.files.end()) {
    throw Error(ExitCode::kData, fmt::format("{} does not list {}", kRecord, name));
  }
  return *found;
}

std::vector<std::byte> ReadChecked(const fs::path& checkpoint, const FileEntry& entry) {
  std::error_code error;
  const uint64_t size = fs::file_size(checkpoint / entry.name, error);
  if (error) {
    throw Error(ExitCode::kData, FileProblem("read", entry.name, error.value()));
  }
  if (size != entry.bytes) {
    throw Error(ExitCode::kData,
                fmt::format("{} has {} bytes instead of {}", entry.name, size, entry.bytes));
  }
  std::vector<std::byte> bytes = ReadFile(checkpoint / entry.name);
  if (const std::string found = ToHex(Checksum(bytes)); found != entry.xxh3) {
    throw Error(ExitCode::kData,
                fmt::format("{} has checksum {} instead of {}", entry.name, found, entry.xxh3));
  }
  return bytes;
}

FileEntry WriteTensors(const fs::path& checkpoint, const char* name,
                       std::span<const TensorView> tensors) {
  AtomicFile file(checkpoint / name);
  file.Append(SafetensorsHeader(tensors));
  for (const TensorView& tensor : tensors) {
    file.Append(tensor.elements);
  }
  file.Commit();
  return {.name = name, .bytes = file.size(), .xxh3 = ToHex(file.checksum())};
}

// A removal that is interrupted leaves a folder without commit record, never half a valid one.
void Remove(const fs::path& checkpoint) {
  std::error_code error;
  fs::remove(checkpoint / kRecord, error);
  if (!error) {
    SyncFolder(checkpoint);
    fs::remove_all(checkpoint, error);
  }
  if (error) {
    Log(Level::kWarning, "{}", FileProblem("remove old checkpoint", checkpoint, error.value()));
  }
}

void RemoveTemporaryFiles(const fs::path& checkpoint) {
  std::error_code error;
  for (fs::directory_iterator it(checkpoint, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == kTemporarySuffix) {
      std::error_code removing;
      fs::remove(it->path(), removing);
      Log(Level::kInfo, "removed unfinished file path={}", it->path().string());
    }
  }
}

bool HasRecord(const fs::path& checkpoint) {
  try {
    ReadRecord(checkpoint);
    return true;
  } catch (const Error&) {
    return false;  // why was logged when it was refused
  }
}

}  // namespace

std::string FolderName(int64_t step) { return fmt::format("{}{:012}", kPrefix, step); }

Loaded LoadCheckpoint(const fs::path& path) {
  const Record record = ReadRecord(path);
  Loaded loaded;
  loaded.path = path;
  loaded.position = record.position;
  loaded.model_bytes = ReadChecked(path, EntryOf(record, kModel));
  loaded.optimizer_bytes = ReadChecked(path, EntryOf(record, kOptimizer));
  loaded.model = ParseSafetensors(loaded.model_bytes);
  loaded.optimizer = ParseSafetensors(loaded.optimizer_bytes);
  return loaded;
}

CheckpointFolder::CheckpointFolder(fs::path folder, int keep)
    : folder_(std::move(folder)), keep_(static_cast<size_t>(keep)) {
  DDP_RT_CHECK(keep >= 1, "retention must keep a checkpoint");
}

void CheckpointFolder::Prepare() {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    throw Error(ExitCode::kConfig,
                FileProblem("create checkpoint folder", folder_, error.value()) +
                    "; choose another checkpoint.dir, or give this user the right to write there");
  }
  try {
    AtomicFile probe(folder_ / "probe");
    probe.Append(std::string_view("x"));
    probe.Commit();
    fs::remove(folder_ / "probe");
  } catch (const std::exception& e) {
    throw Error(ExitCode::kConfig,
                fmt::format("checkpoint folder {} can't be written to: {}; choose another "
                            "checkpoint.dir, or give this user the right to write there",
                            folder_.string(), e.what()));
  }
  for (const Entry& entry : Entries(folder_)) {
    RemoveTemporaryFiles(entry.path);
  }
}

std::optional<Loaded> CheckpointFolder::LoadNewest() {
  for (const Entry& entry : Entries(folder_)) {
    try {
      return LoadCheckpoint(entry.path);
    } catch (const Error& e) {
      refused_.insert(entry.path);
      Log(Level::kWarning, "refused checkpoint path={}: {}", entry.path.string(), e.what());
    }
  }
  return std::nullopt;
}

fs::path CheckpointFolder::Save(const Contents& contents) {
  fs::path path = folder_ / FolderName(contents.position.step);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    throw Error(ExitCode::kSoftware, FileProblem("create", path, error.value()));
  }
  // One of the same step that was refused, or of an earlier run: not valid while it is replaced.
  if (fs::remove(path / kRecord, error)) {
    SyncFolder(path);
  }
  SyncFolder(folder_);
  Record record{.position = contents.position, .files = {}};
  record.files.push_back(WriteTensors(path, kModel, contents.model));
  record.files.push_back(WriteTensors(path, kOptimizer, contents.optimizer));
  AtomicFile commit(path / kRecord);
  commit.Append(FormatRecord(record));
  commit.Commit();
  refused_.erase(path);
  Retain(contents.position.step);
  return path;
}

void CheckpointFolder::Retain(int64_t saved_step) {
  size_t kept = 0;
  for (const Entry& entry : Entries(folder_)) {
    if (refused_.contains(entry.path)) {
      Remove(entry.path);
      refused_.erase(entry.path);
    } else if (entry.step == saved_step || (kept < keep_ && HasRecord(entry.path))) {
      ++kept;
    } else if (entry.step < saved_step) {
      Remove(entry.path);
    }
  }
}

std::vector<Found> CheckpointFolder::List() const {
  std::vector<Found> all;
  for (const Entry& entry : Entries(folder_)) {
    Found found{.path = entry.path, .step = entry.step, .problem = ""};
    try {
      LoadCheckpoint(entry.path);
    } catch (const Error& e) {
      found.problem = e.what();
    }
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace ddp::rt::checkpoint
