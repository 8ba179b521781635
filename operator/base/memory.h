// How the allocator behaves in a program that lives for months with many threads and a small,
// steady heap. glibc's own defaults keep one heap a thread and give little back.
#pragma once

namespace ddp::base {

// Before the first thread is started.
void KeepHeapSmall();
// Gives free memory back to the system; after a burst, or now and then. Milliseconds.
void TrimHeap();
// Lets go of the pages of all program code: what is used again comes back from the page cache at
// its next use, and what only the start needed (options, certificates, relocation) does not.
void UnmapStartupCode();

}  // namespace ddp::base
