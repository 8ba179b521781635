// How kubectl-ddp ends (documented in its help).
#pragma once

namespace ddp::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitJobFailed = 1;
inline constexpr int kExitUsage = 64;         // EX_USAGE
inline constexpr int kExitInvalid = 65;       // EX_DATAERR: the manifest is wrong
inline constexpr int kExitNoInput = 66;       // EX_NOINPUT: there is no such file
inline constexpr int kExitUnavailable = 69;   // EX_UNAVAILABLE: this machine does not let us
inline constexpr int kExitInterrupted = 130;  // 128 + SIGINT

}  // namespace ddp::cli
