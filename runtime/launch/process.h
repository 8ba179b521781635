// Starts programs such that none outlives the launcher, and ends what they leave. Called by one
// thread, the one that lives as long as the launcher does: its death is what ends the programs.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/net.h"

namespace ddp::rt::launch {

struct Process {
  pid_t pid = -1;
  Fd alive;  // pidfd: readable when it has ended
  Fd out;    // its standard output and error, non-blocking
  Fd err;
};

// In a process group of its own, with nothing to read, killed when the calling thread ends.
// Error(kConfig) says why the program can't be run.
Process Start(const std::vector<std::string>& command, const std::vector<std::string>& environment);

// Orphans of all descendants become children of this process, from now on.
void AdoptOrphans();
// SIGKILL to every child of this process, and to what is adopted meanwhile, until none is left.
void KillAllChildren();

// A port of this host that no other program gets by chance while the socket is open, and that a
// program told of it can still listen on.
Fd ReservePort();

}  // namespace ddp::rt::launch
