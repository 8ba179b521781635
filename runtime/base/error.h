// The runtime's one exception and the exit codes that the operator's policy knows (the table in
// docs; the operator has the same constants, and a test compares them). Errors here end the run of
// a rank, so they are exceptions: they cross autograd and worker threads as torch's own do, and
// main() turns them into one log line and an exit code.
#pragma once

#include <stdexcept>
#include <string>

namespace ddp::rt {

enum class ExitCode : int {
  kOk = 0,
  kUsage = 64,        // sysexits EX_USAGE: wrong command line
  kData = 65,         // EX_DATAERR: a data file is damaged
  kNoInput = 66,      // EX_NOINPUT: a data file is missing
  kUnavailable = 69,  // EX_UNAVAILABLE: lost a peer, or the rendezvous
  kSoftware = 70,     // EX_SOFTWARE: exception in the training program
  kTempFail = 75,     // EX_TEMPFAIL: stopped on request after a complete checkpoint
  kConfig = 78,       // EX_CONFIG: wrong configuration
};

// `what()` is a sentence for the user: what, where, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Ends the program with a message: broken invariants only, never user input.
[[noreturn]] void Die(const char* file, int line, const std::string& message);

}  // namespace ddp::rt

#define DDP_RT_CHECK(condition, message)                                                     \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      ::ddp::rt::Die(__FILE__, __LINE__, std::string("CHECK(" #condition ") ") + (message)); \
    }                                                                                        \
  } while (false)
