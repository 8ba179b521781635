// How the C library hands out memory to a program that is about to be executed.
#pragma once

namespace ddp::rt {

// Asks for huge pages for the heap of programs executed from now on (a variable of their
// environment), unless the user has set glibc's tunables. A training step allocates and frees the
// same tens of megabytes again and again: with small pages the kernel spends several percent of a
// step on handing them out.
void UseHugePages();

}  // namespace ddp::rt
