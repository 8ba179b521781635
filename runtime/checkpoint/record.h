// state.json, the commit record of a checkpoint: written last, it alone makes a checkpoint valid.
// It says where in the run the checkpoint was taken, lists every file with size and checksum, and
// carries a checksum of itself. Pure: text in, text out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::rt::checkpoint {

// Where in the run: enough, together with the config, to go on bit for bit. The random choices of
// ddp-worker (order of samples, distortions, dropout) are functions of seed, epoch, step and
// sample, so what is here is their state.
struct Position {
  int64_t step = 0;    // optimizer steps done
  int64_t epoch = 0;   // of the next step
  int64_t cursor = 0;  // samples of that epoch used already, over all ranks
  uint64_t seed = 0;
  int world_size = 1;
  double learning_rate = 0;  // of the last step: for people; the schedule is a function of step
  std::string config_hash;

  bool operator==(const Position&) const = default;
};

struct FileEntry {
  std::string name;
  uint64_t bytes = 0;
  std::string xxh3;

  bool operator==(const FileEntry&) const = default;
};

// Texts that only whoever trains understands, by name, in UTF-8: "data.vocabulary" of text, and
// "rng.RANK", the random generators of programs that use the C++ API.
using State = std::map<std::string, std::string>;

struct Record {
  Position position;
  State state = {};
  std::vector<FileEntry> files;
};

std::string FormatRecord(const Record& record);
// Error(kData) says what is wrong.
Record ParseRecord(std::string_view text);

}  // namespace ddp::rt::checkpoint
