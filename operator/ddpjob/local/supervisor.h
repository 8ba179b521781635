// The small process above each rank, as a container runtime's shim is: it runs the rank's program,
// passes SIGTERM on, and when the program ends, or whoever started the supervisor dies, kills
// everything that the program left behind. It ends with the program's exit code (128 + signal).
//
// It is this same executable, started as `<program> __supervise COMMAND ARG…` with
//   stdin /dev/null, stdout and stderr those of the rank, the environment that of the rank,
//   fd 3  the lifeline: the reading end of a pipe whose writing end only the starter holds,
//   fd 4  the lock of the job's folder, held until the last process has gone.
// SIGTERM: asks the program to end. SIGUSR1: kills all at once.
#pragma once

namespace ddp::job {

inline constexpr const char* kSuperviseCommand = "__supervise";
inline constexpr int kLifelineFd = 3;
inline constexpr int kLockFd = 4;

// `command`: COMMAND ARG…, ended by a null pointer; COMMAND is a path. Returns the exit code.
int Supervise(char** command);

}  // namespace ddp::job
