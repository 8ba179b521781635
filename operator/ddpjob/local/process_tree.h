// Ending everything below a process. Linux only; reads /proc.
#pragma once

#include <sys/types.h>

#include <vector>

namespace ddp::job {

std::vector<pid_t> ChildrenOf(pid_t parent);

// SIGKILLs the children of this process, which must be a subreaper (so that their children become
// ours as they die), until none is left; reaps them all.
void KillAllDescendants();

// The code that a shell or a container runtime reports: 128 + signal for a death by signal.
int ExitCodeOf(int wait_status);

}  // namespace ddp::job
