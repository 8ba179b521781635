#include "runtime/store/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/net.h"
#include "runtime/store/hash_store.h"
#include "runtime/store/prefix_store.h"
#include "runtime/store/tcp_store.h"

namespace ddp::rt::store {
namespace {

// Not prefixed: it says which prefix is the right one.
constexpr const char* kIdentityKey = "ddp/identity";
constexpr const char* kChangePort =
    "choose another with spec.rendezvous.port (MASTER_PORT), or end the program that holds it";

struct Identity {
  std::string job_uid;
  int attempt = 0;
  int world_size = 0;
};

std::string Encode(const Identity& id) {
  return fmt::format("{} {} {}", id.attempt, id.world_size, id.job_uid);
}

Identity DecodeIdentity(const std::string& text) {
  Identity id;
  const char* const end = text.data() + text.size();
  const auto attempt = std::from_chars(text.data(), end, id.attempt);
  if (attempt.ec == std::errc() && attempt.ptr < end) {
    const auto world = std::from_chars(attempt.ptr + 1, end, id.world_size);
    if (world.ec == std::errc() && world.ptr < end) {
      id.job_uid.assign(world.ptr + 1, end);
      return id;
    }
  }
  throw Error(ExitCode::kUnavailable,
              fmt::format("the rendezvous store states an unknown identity '{}': is rank 0 of "
                          "another version?",
                          text));
}

std::string Describe(const std::string& job_uid, int attempt) {
  return job_uid.empty() ? fmt::format("attempt {}", attempt)
                         : fmt::format("job {} attempt {}", job_uid, attempt);
}

// How a rank of `env` and a store of `theirs` fit. A store left over from an earlier attempt of the
// same job is about to go away, so that one is worth another try.
enum class Fit { kSame, kEarlierAttempt, kWrong };

Fit Compare(const RankEnv& env, const Identity& theirs) {
  if (theirs.job_uid != env.job_uid) {
    return Fit::kWrong;
  }
  if (theirs.attempt != env.attempt) {
    return theirs.attempt < env.attempt ? Fit::kEarlierAttempt : Fit::kWrong;
  }
  return Fit::kSame;
}

std::string Difference(const RankEnv& env, const Identity& theirs) {
  return fmt::format("the rendezvous belongs to {}, but this rank {} is of {}",
                     Describe(theirs.job_uid, theirs.attempt), env.rank,
                     Describe(env.job_uid, env.attempt));
}

}  // namespace

Rendezvous::Rendezvous(RankEnv env, const RendezvousOptions& options)
    : env_(std::move(env)), options_(options) {
  if (env_.world_size == 1) {
    store_ = std::make_shared<HashStore>();
    return;
  }
  const auto deadline = Deadline::In(options.init_timeout, "the rendezvous store of rank 0");
  if (env_.rank == 0) {
    Fd listener = ListenTcp("", env_.master_port, kChangePort);
    port_ = BoundPort(listener);
    root_ = TcpStore::Serve(std::move(listener), deadline);
    Join(deadline);
    return;
  }
  port_ = env_.master_port;
  ConnectTcpUntil(env_.master_addr, env_.master_port, deadline, [&](Fd probe) {
    probe.Reset();
    // A try is bounded, so that a server which is just ending cannot use up all the time.
    constexpr std::chrono::seconds kTry(20);
    const auto one_try = Deadline::In(std::min<std::chrono::milliseconds>(deadline.Left(), kTry),
                                      "rank 0 to state its job and attempt");
    try {
      root_ = TcpStore::Connect(env_.master_addr, env_.master_port, one_try);
      const Identity theirs = DecodeIdentity(root_->Get(kIdentityKey, one_try));
      return Compare(env_, theirs) == Fit::kEarlierAttempt ? Difference(env_, theirs) : "";
    } catch (const Error& e) {
      return std::string(e.what());
    }
  });
  Join(deadline);
}

Rendezvous::Rendezvous(RankEnv env, std::shared_ptr<Store> shared, const RendezvousOptions& options)
    : env_(std::move(env)), options_(options), root_(std::move(shared)) {
  Join(Deadline::In(options.init_timeout, "the rendezvous store of rank 0"));
}

Rendezvous::~Rendezvous() = default;

void Rendezvous::Join(const Deadline& deadline) {
  if (env_.rank == 0) {
    root_->Set(kIdentityKey, Encode({env_.job_uid, env_.attempt, env_.world_size}));
  }
  const Identity theirs =
      DecodeIdentity(root_->Get(kIdentityKey, deadline.For("rank 0 to state its job and attempt")));
  if (Compare(env_, theirs) != Fit::kSame) {
    throw Error(ExitCode::kUnavailable,
                Difference(env_, theirs) + ": is MASTER_ADDR or MASTER_PORT that of another run?");
  }
  if (theirs.world_size != env_.world_size) {
    throw Error(
        ExitCode::kConfig,
        fmt::format("rank 0 has WORLD_SIZE={}, but this rank {} has WORLD_SIZE={}: all ranks "
                    "need the same",
                    theirs.world_size, env_.rank, env_.world_size));
  }
  store_ = std::make_shared<PrefixStore>(fmt::format("{}/{}/", env_.job_uid, env_.attempt), root_);
  if (store_->Add(fmt::format("joined/{}", env_.rank), 1) != 1) {
    throw Error(ExitCode::kConfig,
                fmt::format("rank {} is there twice: two processes were started with RANK={}",
                            env_.rank, env_.rank));
  }
  // The last one in opens the door for all: O(world) requests.
  if (store_->Add("joined", 1) == env_.world_size) {
    store_->Set("joined/all", "");
  }
  try {
    store_->Get("joined/all", deadline.For("all ranks to join"));
  } catch (const Error&) {
    if (!deadline.Expired()) {
      throw;
    }
    throw Error(
        ExitCode::kUnavailable,
        fmt::format("gave up after {} waiting for all {} ranks to join: rank(s) {} have not come",
                    deadline.TimeoutText(), env_.world_size,
                    fmt::join(MissingRanks(*store_, "joined", env_.world_size), ", ")));
  }
}

void Rendezvous::Shutdown() noexcept {
  if (left_ || root_ == nullptr) {
    return;
  }
  left_ = true;
  try {
    const auto deadline = Deadline::In(options_.shutdown_timeout, "the other ranks to leave");
    store_->Set(fmt::format("left/{}", env_.rank), "");
    if (store_->Add("left", 1) == env_.world_size) {
      store_->Set("left/all", "");
    }
    if (env_.rank == 0) {
      try {
        store_->Get("left/all", deadline);
      } catch (const Error&) {
        Log(Level::kWarning,
            "closed the rendezvous store after {} although rank(s) {} still use it",
            deadline.TimeoutText(),
            fmt::join(MissingRanks(*store_, "left", env_.world_size), ", "));
      }
    }
  } catch (const std::exception& e) {
    // Rank 0 may have gone already: there is nobody left to say good-bye to.
    Log(Level::kDebug, "left the rendezvous without a good-bye: {}", e.what());
  }
}

}  // namespace ddp::rt::store
