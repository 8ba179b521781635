// How kubectl-ddp ends (documented in its help and in the README).
#pragma once

namespace ddp::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitJobFailed = 1;
inline constexpr int kExitUsage = 64;    // EX_USAGE
inline constexpr int kExitInvalid = 65;  // EX_DATAERR: the manifest is wrong, or the job's state
                                         // does not allow it
inline constexpr int kExitNoInput = 66;  // EX_NOINPUT: there is no such file, job or pod
inline constexpr int kExitUnavailable = 69;  // EX_UNAVAILABLE: this machine or the cluster does not
                                             // let us
inline constexpr int kExitDeadline = 75;     // EX_TEMPFAIL: --timeout passed while waiting
inline constexpr int kExitNoPermission = 77;  // EX_NOPERM: the API server refuses it to this user
inline constexpr int kExitInterrupted = 130;  // 128 + SIGINT

}  // namespace ddp::cli
