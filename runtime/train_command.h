// `ddp-worker train`: puts the parts together for one rank. Called once, by main().
#pragma once

#include <string>

#include "runtime/base/env.h"
#include "runtime/base/error.h"
#include "runtime/train/signals.h"

namespace ddp::rt {

// One of the two is given.
struct TrainArguments {
  std::string config_file;
  std::string config_env;  // name of the variable that holds the text
};

// The code to end the program with; failures are exceptions.
int TrainCommand(const TrainArguments& arguments, const EnvReader& read,
                 train::StopSignals& signals);

}  // namespace ddp::rt
