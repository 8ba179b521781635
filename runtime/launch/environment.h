// The environment of one launched rank: what torchrun sets, and what ddp-worker wants beyond it.
// Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/launch/options.h"

namespace ddp::rt::launch {

using Variables = std::map<std::string, std::string>;

// Where the ranks of one attempt meet.
struct Meeting {
  std::string address;
  int port = 0;
  int restart = 0;  // how often the launcher has started the ranks anew
};

// The launcher's own environment.
Variables OwnEnvironment();

// `inherited` with the variables of this rank set.
Variables RankEnvironment(const Options& options, const Meeting& meeting, int local_rank,
                          Variables inherited);

}  // namespace ddp::rt::launch
