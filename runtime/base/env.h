// The environment that a rank finds: the names that operator and runtime agree on, and reading them
// with good errors. Read once at start, before threads exist; the result is plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ddp::rt {

// Returns the value of a variable, or nothing. Tests hand in a map.
using EnvReader = std::function<std::optional<std::string>(const char* name)>;
EnvReader ProcessEnv();

struct RankEnv {
  int rank = 0;                // RANK
  int world_size = 1;          // WORLD_SIZE
  int local_rank = 0;          // LOCAL_RANK
  int local_world_size = 1;    // LOCAL_WORLD_SIZE
  std::string master_addr;     // MASTER_ADDR: as given, never resolved early
  int master_port = 0;         // MASTER_PORT
  std::string job_uid;         // DDP_JOB_UID: "" outside an operator
  int attempt = 0;             // DDP_ATTEMPT
  std::string checkpoint_dir;  // DDP_CHECKPOINT_DIR: "" = none
  std::optional<int>
      progress_port;  // DDP_PROGRESS_PORT: base port, LOCAL_RANK is added; nothing = a free one
};

// Without RANK and WORLD_SIZE: one rank of one. Error(kConfig) names the variable, its value and
// what is expected.
RankEnv ReadRankEnv(const EnvReader& read);

}  // namespace ddp::rt
