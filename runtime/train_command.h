// `ddp-worker train`: puts the parts together for one rank. Called once, by main().
#pragma once

#include "runtime/base/env.h"
#include "runtime/base/error.h"
#include "runtime/train/signals.h"
#include "runtime/train_arguments.h"

namespace ddp::rt {

// The code to end the program with; failures are exceptions.
int TrainCommand(const TrainArguments& arguments, const EnvReader& read,
                 train::StopSignals& signals);

}  // namespace ddp::rt
