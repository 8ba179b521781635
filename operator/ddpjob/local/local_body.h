// The local body: carries plans out with processes as pods, in one event loop on one thread.
// Whatever ends it — success, failure, Ctrl-C, a crash, kill -9 — no process stays behind: each
// rank's supervisor ends when our end of its lifeline closes.
//
// The caller must have blocked kHandledSignals in all its threads, and this process must not have
// children besides the ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "operator/ddpjob/local/local_job.h"
#include "operator/ddpjob/local/progress_feed.h"
#include "operator/ddpjob/plan.h"

namespace ddp::job {

// SIGINT, SIGTERM and SIGHUP stop the job, a second one kills it at once; SIGCHLD is ours.
void BlockHandledSignals();

// What the outside wants to know. Called on the loop's thread; must not block for long.
class LocalListener {
 public:
  LocalListener() = default;
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;
  virtual ~LocalListener() = default;
  virtual void OnEvent(const Event& event) = 0;
  virtual void OnOutput(std::string_view text) = 0;  // rank 0's standard output, as it comes
  virtual void OnAttempt(int attempt) = 0;
  virtual void OnProgress(const ProgressReply& progress) = 0;  // rank 0's newest word
  virtual void OnStopping(bool at_once) = 0;
};

struct LocalOutcome {
  api::Status status;
  bool interrupted = false;
};

class LocalBody {
 public:
  LocalBody(LocalJob job, const StateFolder& folder, std::filesystem::path own_folder,
            LocalListener& listener, const base::Clock& clock);
  LocalBody(const LocalBody&) = delete;
  LocalBody& operator=(const LocalBody&) = delete;
  ~LocalBody();  // kills what still runs

  // Until the job has ended and every process with it.
  base::Result<LocalOutcome> Run();

 private:
  base::Result<base::Done> PlanAndAct();
  std::optional<PullTarget> PullTargetNow() const;
  void Act(const Action& action, api::TimePoint now);
  void Create(const CreatePods& creation);
  void Delete(const DeletePods& deletion, api::TimePoint now);
  void Wait();
  void HandleSignals();
  void Reap();
  void Interrupt();
  void KillOrphans();
  int TimeoutMs();
  bool AnyRunning() const;
  RankProcess* FindByPid(pid_t pid);

  const StateFolder& folder_;
  std::filesystem::path own_folder_;
  LocalListener& listener_;
  const base::Clock& clock_;
  LocalJob local_;
  Observed observed_;
  std::vector<RankProcess> processes_;
  std::optional<LocalPorts> ports_;  // of attempt ports_attempt_
  int ports_attempt_ = 0;
  UniqueFd signals_;
  ProgressFeed progress_;
  std::optional<api::TimePoint> wake_up_;
  int interrupts_ = 0;
};

}  // namespace ddp::job
