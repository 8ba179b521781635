// Two processes watch over the ranks, and over each other: the one that people see passes signals
// on and holds the exit code, the other does the work. Whichever is killed, also by SIGKILL, the
// other ends every rank and all that ranks have started. Call it first thing, with no other
// threads.
#pragma once

#include <csignal>
#include <functional>

#include "runtime/base/net.h"

namespace ddp::rt::launch {

// Runs `work` in the second process; returns its result as this process's exit code. `work` gets a
// descriptor that becomes readable when the first process has ended: then it must end everything.
int RunGuarded(const std::function<int(const Fd& guard)>& work);

// The signals that reach the ranks: a request to stop, or merely passed on.
inline constexpr int kStopSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
inline constexpr int kPassedSignals[] = {SIGUSR1, SIGUSR2};

// Blocks all of these and SIGCHLD, to be read from a descriptor or waited for; but not those that
// whoever started the program wants ignored (nohup).
sigset_t BlockSignals();

}  // namespace ddp::rt::launch
