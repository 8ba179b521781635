// The ranks of this node during one attempt, from their start to the end of the last: watches them,
// passes their output on, ends the others when one fails, and all when asked to stop. One thread,
// which waits for everything at once. Construct it and call Run, once.
#pragma once

#include <sys/signalfd.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/launch/blame.h"
#include "runtime/launch/console.h"
#include "runtime/launch/environment.h"
#include "runtime/launch/lines.h"
#include "runtime/launch/options.h"
#include "runtime/launch/process.h"

namespace ddp::rt::launch {

// After a rank has failed the others can save nothing any more: they get the grace, but not longer.
inline constexpr std::chrono::seconds kGraceAfterFailure(5);

struct Surroundings {
  const Fd& signals;  // signalfd of BlockSignals
  const Fd& guard;    // readable when the first process has gone
  Console& console;
};

class Group {
 public:
  // Starts all ranks. `folder` takes the files of their output; "" for none.
  Group(const Options& options, const Meeting& meeting, const std::string& folder,
        const Surroundings& around);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  struct Outcome {
    std::vector<Ended> ended;  // in the order of time
    bool stopped = false;      // a signal asked the launcher to stop
    bool abandoned = false;    // the first process has gone: nobody is left to tell
  };
  Outcome Run();

 private:
  using Clock = std::chrono::steady_clock;

  struct Stream {
    Fd fd;
    Lines lines;
    AsyncWriter* console = nullptr;  // null = not shown
    std::unique_ptr<AsyncWriter> file;
    bool paused = false;  // a writer is full
  };
  struct Rank {
    int number = 0;
    Process process;
    Stream out;
    Stream err;
    bool ended = false;
    bool reaped = false;
    int status = 0;
    std::set<int> signalled;  // by us
  };

  void StartRank(int local_rank, const Meeting& meeting, const std::string& folder);
  void Watch(int fd, uint64_t what);
  // Waits for events until the time of the next deadline, and handles them.
  void Turn();
  void Handle(uint64_t what);
  void ReadStream(size_t index, bool error);
  void Take(Rank& rank, Stream& stream, std::string_view line);
  void ReadSignals();
  void ReapOthers();
  void RankEnded(size_t index);
  void NoteEnd(size_t index, bool told);
  void React(const Rank& rank);
  void EndTheOthers();
  void Signal(int signal);
  void EndBy(Clock::time_point latest);
  void KillAll(const std::string& why);
  void GiveUp();
  int MillisecondsLeft() const;
  void Drain();

  const Options& options_;
  const Surroundings around_;
  const Clock::time_point start_;
  Fd epoll_;
  std::vector<Rank> ranks_;
  size_t running_ = 0;
  bool failed_ = false;
  std::optional<Clock::time_point> end_others_at_;  // soon after a rank has failed
  bool killed_ = false;
  std::optional<Clock::time_point> kill_at_;  // once killed: when to give up
  Outcome outcome_;
};

}  // namespace ddp::rt::launch
