#include "runtime/checkpoint/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <random>
#include <system_error>
#include <utility>

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

const FileEntry& EntryOf(const Record& record, const std::string& name) {
  const auto found = std::find_if(record.files.begin(), record.files.end(),
                                  [&](const FileEntry& file) { return file.name == name; });
  if (found == record.files.end()) {
    throw Error(ExitCode::kData, fmt::format("{} does not list {}", kRecord, name));
  }
  return *found;
}

void CheckSize(const fs::path& checkpoint, const FileEntry& entry) {
  std::error_code error;
  const uint64_t size = fs::file_size(checkpoint / entry.name, error);
  if (error) {
    throw Error(ExitCode::kData, FileProblem("read", entry.name, error.value()));
  }
  if (size != entry.bytes) {
    throw Error(ExitCode::kData,
                fmt::format("{} has {} bytes instead of {}", entry.name, size, entry.bytes));
  }
}

void CheckSum(const FileEntry& entry, uint64_t checksum) {
  if (const std::string found = ToHex(checksum); found != entry.xxh3) {
    throw Error(ExitCode::kData,
                fmt::format("{} has checksum {} instead of {}", entry.name, found, entry.xxh3));
  }
}

void Check(const fs::path& checkpoint, const FileEntry& entry) {
  CheckSize(checkpoint, entry);
  CheckSum(entry, FileChecksum(checkpoint / entry.name));
}

std::vector<std::byte> ReadChecked(const fs::path& checkpoint, const FileEntry& entry) {
  CheckSize(checkpoint, entry);
  std::vector<std::byte> bytes = ReadFile(checkpoint / entry.name);
  CheckSum(entry, Checksum(bytes));
  return bytes;
}

// The number of ranks whose shards it lists; 0 if the optimizer's state is whole.
int ShardsOf(const Record& record) {
  const auto shards = std::count_if(record.files.begin(), record.files.end(), [](const auto& file) {
    return file.name != kOptimizer && file.name != kModel;
  });
  return static_cast<int>(shards);
}

// The files with the optimizer state that a reader wants.
std::vector<FileEntry> OptimizerFiles(const Record& record, const Reader& reader) {
  const int shards = ShardsOf(record);
  std::vector<FileEntry> files;
  if (shards == 0) {
    return {EntryOf(record, kOptimizer)};
  }
  for (int rank = 0; rank < shards; ++rank) {
    const FileEntry& entry = EntryOf(record, ShardName(rank, shards));
    if (reader.world_size != shards || reader.rank == rank) {
      files.push_back(entry);
    }
  }
  return files;
}

Loaded LoadParts(const fs::path& path, const Record& record, const Reader& reader) {
  Loaded loaded;
  loaded.path = path;
  loaded.position = record.position;
  loaded.state = record.state;
  loaded.shards = ShardsOf(record);
  for (const FileEntry& entry : OptimizerFiles(record, reader)) {
    loaded.optimizer_bytes.push_back(ReadChecked(path, entry));
    auto tensors = ParseSafetensors(loaded.optimizer_bytes.back());
    std::move(tensors.begin(), tensors.end(), std::back_inserter(loaded.optimizer));
  }
  return loaded;
}

FileEntry WriteTensors(const fs::path& checkpoint, const std::string& name,
                       std::span<const TensorView> tensors) {
  AtomicFile file(checkpoint / name);
  file.Append(SafetensorsHeader(tensors));
  for (const TensorView& tensor : tensors) {
    file.Append(tensor.elements);
  }
  file.Commit();
  return {.name = name, .bytes = file.size(), .xxh3 = ToHex(file.checksum())};
}

void MakeFolder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    throw Error(ExitCode::kSoftware, FileProblem("create", path, error.value()));
  }
}

// What a full disk has to do with it.
std::string RoomIn(const fs::path& folder, const Contents& contents) {
  uint64_t needed = 0;
  for (const auto* tensors : {&contents.model, &contents.optimizer}) {
    for (const TensorView& tensor : *tensors) {
      needed += tensor.elements.size();
    }
  }
  std::error_code error;
  const auto room = fs::space(folder, error);
  constexpr double kMega = 1e6;
  return error || room.available > needed
             ? ""
             : fmt::format(" (the checkpoint needs {:.1f} MB, {:.1f} MB are free)",
                           static_cast<double>(needed) / kMega,
                           static_cast<double>(room.available) / kMega);
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

Loaded LoadCheckpoint(const fs::path& path, const Reader& reader) {
  const Record record = ReadRecord(path);
  Loaded loaded = LoadParts(path, record, reader);
  loaded.model_bytes = ReadChecked(path, EntryOf(record, kModel));
  loaded.model = ParseSafetensors(loaded.model_bytes);
  const auto read = OptimizerFiles(record, reader);
  for (const FileEntry& entry : record.files) {
    if (entry.name != kModel && std::find(read.begin(), read.end(), entry) == read.end()) {
      Check(path, entry);
    }
  }
  return loaded;
}

Loaded LoadOptimizer(const fs::path& path, const Reader& reader) {
  try {
    return LoadParts(path, ReadRecord(path), reader);
  } catch (const Error& e) {
    throw Error(ExitCode::kConfig,
                fmt::format("rank {} can't read its part of checkpoint {}, which rank 0 found in "
                            "order: {}; with a sharded optimizer every rank needs the same volume",
                            reader.rank, path.string(), e.what()));
  }
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
    // Several ranks may look at once.
    const fs::path name = folder_ / fmt::format("probe-{:08x}", std::random_device()());
    AtomicFile probe(name);
    probe.Append(std::string_view("x"));
    probe.Commit();
    fs::remove(name);
  } catch (const std::exception& e) {
    // A full disk is no mistake of the config's: there may be room by the time of the first save.
    const fs::space_info room = fs::space(folder_, error);
    if (!error && room.capacity > 0 && room.available == 0) {
      Log(Level::kWarning, "checkpoint folder {}: {}", folder_.string(), e.what());
      return;
    }
    throw Error(ExitCode::kConfig,
                fmt::format("checkpoint folder {} can't be written to: {}; choose another "
                            "checkpoint.dir, or give this user the right to write there",
                            folder_.string(), e.what()));
  }
  for (const Entry& entry : Entries(folder_)) {
    RemoveTemporaryFiles(entry.path);
  }
}

std::optional<Loaded> CheckpointFolder::LoadNewest(const Reader& reader) {
  for (const Entry& entry : Entries(folder_)) {
    try {
      return LoadCheckpoint(entry.path, reader);
    } catch (const Error& e) {
      refused_.insert(entry.path);
      Log(Level::kWarning, "refused checkpoint path={}: {}", entry.path.string(), e.what());
    }
  }
  return std::nullopt;
}

fs::path CheckpointFolder::Save(const Contents& contents, ShardExchange* shards) {
  fs::path path = folder_ / FolderName(contents.position.step);
  if (shards != nullptr) {
    shards->Begin();
  }
  if (shards != nullptr && shards->rank() != 0) {
    WriteShard(path, contents, *shards);
    return path;
  }
  try {
    Write(path, contents, shards);
  } catch (const Error& e) {
    // Half a checkpoint is of no use, and its room is needed by the next.
    std::error_code error;
    fs::remove_all(path, error);
    throw Error(e.code(), std::string(e.what()) + RoomIn(folder_, contents));
  }
  refused_.erase(path);
  Retain(contents.position.step);
  return path;
}

void CheckpointFolder::Write(const fs::path& path, const Contents& contents,
                             ShardExchange* shards) {
  MakeFolder(path);
  // One of the same step that was refused, or of an earlier run: not valid while it is replaced.
  std::error_code error;
  if (fs::remove(path / kRecord, error)) {
    SyncFolder(path);
  }
  SyncFolder(folder_);
  Record record{.position = contents.position, .state = contents.state, .files = {}};
  if (shards == nullptr) {
    record.files.push_back(WriteTensors(path, kModel, contents.model));
    record.files.push_back(WriteTensors(path, kOptimizer, contents.optimizer));
  } else {
    WriteShard(path, contents, *shards);
    record.files = shards->Collect();
    for (const FileEntry& entry : record.files) {
      CheckSize(path, entry);
    }
    record.files.push_back(WriteTensors(path, kModel, contents.model));
  }
  AtomicFile commit(path / kRecord);
  commit.Append(FormatRecord(record));
  commit.Commit();
}

void CheckpointFolder::WriteShard(const fs::path& path, const Contents& contents,
                                  ShardExchange& shards) {
  try {
    MakeFolder(path);
    shards.Announce(
        WriteTensors(path, ShardName(shards.rank(), shards.world_size()), contents.optimizer));
  } catch (const Error& e) {
    shards.AnnounceFailure(e.what());
    throw;
  }
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
      const Record record = ReadRecord(entry.path);
      EntryOf(record, kModel);
      OptimizerFiles(record, {});
      for (const FileEntry& file : record.files) {
        Check(entry.path, file);
      }
    } catch (const Error& e) {
      found.problem = e.what();
    }
    all.push_back(std::move(found));
  }
  return all;
}

}  // namespace ddp::rt::checkpoint
