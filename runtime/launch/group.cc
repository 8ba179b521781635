#include "runtime/launch/group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/launch/guard.h"

namespace ddp::rt::launch {
namespace {

// What an event is about: a kind, and the index of a rank.
enum class Kind : uint64_t { kSignals, kGuard, kEnd, kOut, kErr };
constexpr uint64_t kKinds = 8;

uint64_t About(Kind kind, size_t index = 0) { return index * kKinds + static_cast<uint64_t>(kind); }

// While a writer is full, how often to look whether it still is.
constexpr int kPausedMilliseconds = 20;
// For what ranks have written just before they ended; longer only if a stranger holds their pipe.
constexpr std::chrono::milliseconds kDrain(500);
// From SIGKILL to the end, which only the kernel can delay.
constexpr std::chrono::seconds kUnkillable(10);

Fd Create(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::create_directories(path.parent_path(), failure);
  Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd) {
    throw Error(ExitCode::kConfig, fmt::format("can't write {}: {}; choose another --log-dir",
                                               path.string(), ErrnoText(errno)));
  }
  return fd;
}

bool IsStop(int signal) {
  return std::find(std::begin(kStopSignals), std::end(kStopSignals), signal) !=
         std::end(kStopSignals);
}

}  // namespace

Group::Group(const Options& options, const Meeting& meeting, const std::string& folder,
             const Surroundings& around)
    : options_(options),
      around_(around),
      start_(Clock::now()),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      ranks_(static_cast<size_t>(options.processes)) {
  DDP_RT_CHECK(epoll_, ErrnoText(errno));
  Watch(around_.signals.get(), About(Kind::kSignals));
  Watch(around_.guard.get(), About(Kind::kGuard));
  try {
    for (int rank = 0; rank < options.processes; ++rank) {
      StartRank(rank, meeting, folder);
    }
  } catch (...) {
    KillAllChildren();
    throw;
  }
}

Group::~Group() { KillAllChildren(); }

void Group::StartRank(int local_rank, const Meeting& meeting, const std::string& folder) {
  const auto index = static_cast<size_t>(local_rank);
  Rank& rank = ranks_[index];
  rank.number = options_.node_rank * options_.processes + local_rank;
  std::vector<std::string> environment;
  for (const auto& [name, value] :
       RankEnvironment(options_, meeting, local_rank, OwnEnvironment())) {
    environment.push_back(fmt::format("{}={}", name, value));
  }
  const auto prepare = [&](Stream& stream, const Output& output, AsyncWriter& console,
                           const char* file) {
    stream.console = output.to_console ? &console : nullptr;
    if (output.to_file && !folder.empty()) {
      stream.file = std::make_unique<AsyncWriter>(
          Create(std::filesystem::path(folder) / std::to_string(rank.number) / file));
    }
  };
  prepare(rank.out, options_.standard_output[index], around_.console.out(), "stdout.log");
  prepare(rank.err, options_.standard_error[index], around_.console.err(), "stderr.log");
  rank.process = Start(options_.command, environment);
  ++running_;
  rank.out.fd = std::move(rank.process.out);
  rank.err.fd = std::move(rank.process.err);
  Watch(rank.process.alive.get(), About(Kind::kEnd, index));
  Watch(rank.out.fd.get(), About(Kind::kOut, index));
  Watch(rank.err.fd.get(), About(Kind::kErr, index));
}

void Group::Watch(int fd, uint64_t what) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = what}};
  DDP_RT_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0, ErrnoText(errno));
}

Group::Outcome Group::Run() {
  while (running_ > 0 && !outcome_.abandoned) {
    if (end_others_at_ && Clock::now() >= *end_others_at_) {
      EndTheOthers();
    }
    if (kill_at_ && !killed_ && Clock::now() >= *kill_at_) {
      KillAll("they have not ended within the grace period");
    }
    if (killed_ && Clock::now() >= *kill_at_) {
      GiveUp();
      break;
    }
    Turn();
  }
  if (!outcome_.abandoned) {
    KillAllChildren();
    Drain();
  }
  return std::move(outcome_);
}

int Group::MillisecondsLeft() const {
  const bool paused = std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.out.paused || rank.err.paused;
  });
  int64_t left = paused ? kPausedMilliseconds : INT32_MAX;
  const auto until = [&](Clock::time_point when) {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now());
    left = std::min<int64_t>(left, std::max<int64_t>(0, rest.count()));
  };
  if (end_others_at_) {
    until(*end_others_at_);
  }
  if (kill_at_) {
    until(*kill_at_);
  }
  return static_cast<int>(left);
}

void Group::Turn() {
  std::array<epoll_event, 64> events{};
  const int count =
      epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), MillisecondsLeft());
  // Ends first, in the order in which they became known to the kernel: that is the order of blame.
  const auto of_end = [](const epoll_event& event) {
    return event.data.u64 % kKinds == static_cast<uint64_t>(Kind::kEnd);
  };
  const auto last = events.begin() + std::max(count, 0);
  std::stable_partition(events.begin(), last, of_end);
  std::for_each(events.begin(), last, [this](const epoll_event& e) { Handle(e.data.u64); });
  for (size_t i = 0; i < ranks_.size(); ++i) {
    for (const bool error : {false, true}) {
      if ((error ? ranks_[i].err : ranks_[i].out).paused) {
        ReadStream(i, error);
      }
    }
  }
}

void Group::Handle(uint64_t what) {
  const size_t index = what / kKinds;
  switch (static_cast<Kind>(what % kKinds)) {
    case Kind::kSignals:
      return ReadSignals();
    case Kind::kGuard:
      outcome_.abandoned = true;
      return KillAllChildren();
    case Kind::kEnd:
      return RankEnded(index);
    case Kind::kOut:
      return ReadStream(index, false);
    case Kind::kErr:
      return ReadStream(index, true);
  }
}

void Group::ReadStream(size_t index, bool error) {
  Rank& rank = ranks_[index];
  Stream& stream = error ? rank.err : rank.out;
  const bool full =
      (stream.console != nullptr && stream.console->full()) || (stream.file && stream.file->full());
  if (full != stream.paused) {
    stream.paused = full;
    epoll_event event{.events = full ? 0U : EPOLLIN,
                      .data = {.u64 = About(error ? Kind::kErr : Kind::kOut, index)}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, stream.fd.get(), &event);
  }
  if (full || !stream.fd) {
    return;
  }
  std::array<char, 65536> buffer;
  const auto take = [&](std::string_view line) { Take(rank, stream, line); };
  const ssize_t got = read(stream.fd.get(), buffer.data(), buffer.size());
  if (got > 0) {
    stream.lines.Feed({buffer.data(), static_cast<size_t>(got)}, take);
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    stream.lines.Finish(take);
    stream.fd.Reset();
  }
}

void Group::Take(Rank& rank, Stream& stream, std::string_view line) {
  if (stream.console != nullptr) {
    around_.console.Line(*stream.console, rank.number, line);
  }
  if (stream.file) {
    stream.file->Write(fmt::format("{}\n", line));
  }
}

void Group::ReadSignals() {
  signalfd_siginfo info{};
  while (read(around_.signals.get(), &info, sizeof(info)) == sizeof(info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      ReapOthers();
      continue;
    }
    Signal(signal);
    if (IsStop(signal)) {
      around_.console.Say(
          Level::kInfo, fmt::format("received {}: passed on to {} rank(s), which have {} s to end",
                                    SignalName(signal), running_, options_.grace.count()));
      outcome_.stopped = true;
      EndBy(Clock::now() + options_.grace);
    }
  }
}

// Ranks may be among them: what they ended with is kept until their turn comes.
void Group::ReapOthers() {
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    for (Rank& rank : ranks_) {
      if (rank.process.pid == pid) {
        rank.status = status;
        rank.reaped = true;
      }
    }
  }
}

void Group::RankEnded(size_t index) {
  Rank& rank = ranks_[index];
  if (rank.ended || (!rank.reaped && waitpid(rank.process.pid, &rank.status, WNOHANG) <= 0)) {
    return;
  }
  rank.reaped = true;
  --running_;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, rank.process.alive.get(), nullptr);
  // What it has left behind of its process group.
  kill(-rank.process.pid, SIGKILL);
  NoteEnd(index, WIFSIGNALED(rank.status) && rank.signalled.contains(WTERMSIG(rank.status)));
  React(rank);
}

void Group::NoteEnd(size_t index, bool told) {
  Rank& rank = ranks_[index];
  rank.ended = true;
  outcome_.ended.push_back(
      {.rank = rank.number,
       .local_rank = static_cast<int>(index),
       .pid = rank.process.pid,
       .status = rank.status,
       .after = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_),
       .told = told,
       .last_lines = {}});
}

void Group::React(const Rank& rank) {
  const int code = ExitCodeOf(rank.status);
  if (code == 0 || running_ == 0 || outcome_.ended.back().told) {
    return;
  }
  if (code == static_cast<int>(ExitCode::kTempFail)) {
    // The others were asked to stop as well, by the ranks themselves.
    EndBy(Clock::now() + options_.grace);
    return;
  }
  if (!outcome_.stopped && !failed_) {
    failed_ = true;
    around_.console.Say(Level::kError,
                        fmt::format("rank {} failed: {}; ending the other {} rank(s) of this node",
                                    rank.number, DescribeEnd(rank.status), running_));
    end_others_at_ = Clock::now() + kAtOnce;
  }
  // A rank that lost a peer comes before that peer, which may still be ending in an orderly way.
  const bool lost_peer = code == static_cast<int>(ExitCode::kUnavailable);
  EndBy(Clock::now() + (lost_peer ? options_.grace : std::min(options_.grace, kGraceAfterFailure)));
}

// Not in the very moment: what has failed together is told apart by how it ended by itself.
void Group::EndTheOthers() {
  end_others_at_.reset();
  Signal(SIGTERM);
}

void Group::Signal(int signal) {
  for (Rank& rank : ranks_) {
    if (!rank.reaped) {
      rank.signalled.insert(signal);
      kill(rank.process.pid, signal);
    }
  }
}

void Group::EndBy(Clock::time_point latest) {
  if (killed_) {
    return;
  }
  kill_at_ = kill_at_ ? std::min(*kill_at_, latest) : latest;
}

void Group::KillAll(const std::string& why) {
  std::string numbers;
  for (Rank& rank : ranks_) {
    if (!rank.reaped) {
      numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", rank.number);
      rank.signalled.insert(SIGKILL);
      kill(-rank.process.pid, SIGKILL);
    }
  }
  around_.console.Say(Level::kWarning, fmt::format("killing rank(s) {}: {}", numbers, why));
  killed_ = true;
  kill_at_ = Clock::now() + kUnkillable;
}

void Group::GiveUp() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (!ranks_[i].ended) {
      around_.console.Say(Level::kError, fmt::format("rank {} (pid {}) does not end, not even by "
                                                     "SIGKILL: the kernel holds it, as for a disk "
                                                     "or a GPU that does not answer",
                                                     ranks_[i].number, ranks_[i].process.pid));
      ranks_[i].status = SIGKILL;
      NoteEnd(i, true);
    }
  }
}

void Group::Drain() {
  const auto end = Clock::now() + kDrain;
  const auto open = [](const Rank& rank) { return rank.out.fd || rank.err.fd; };
  while (std::any_of(ranks_.begin(), ranks_.end(), open) && Clock::now() < end) {
    std::array<epoll_event, 64> events{};
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 kPausedMilliseconds);
    for (int i = 0; i < count; ++i) {
      const auto kind = static_cast<Kind>(events[static_cast<size_t>(i)].data.u64 % kKinds);
      if (kind == Kind::kOut || kind == Kind::kErr) {
        Handle(events[static_cast<size_t>(i)].data.u64);
      }
    }
    for (size_t i = 0; i < ranks_.size(); ++i) {
      ReadStream(i, false);
      ReadStream(i, true);
    }
  }
  for (Ended& ended : outcome_.ended) {
    ended.last_lines = ranks_[static_cast<size_t>(ended.local_rank)].err.lines.last();
  }
}

}  // namespace ddp::rt::launch
