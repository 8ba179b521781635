#include "operator/ddpjob/local/local_body.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "operator/api/names.h"
#include "operator/ddpjob/local/process_tree.h"

namespace ddp::job {
namespace {

using std::chrono::seconds;

constexpr const char* kNode = "localhost";
constexpr const char* kLoopback = "127.0.0.1";
constexpr int kMaxWaitMs = 60'000;

sigset_t HandledSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
    sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

void BlockHandledSignals() {
  const sigset_t set = HandledSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

LocalBody::LocalBody(LocalJob job, const StateFolder& folder, std::filesystem::path own_folder,
                     LocalListener& listener, const base::Clock& clock)
    : folder_(folder),
      own_folder_(std::move(own_folder)),
      listener_(listener),
      clock_(clock),
      local_(std::move(job)) {
  // What a killed supervisor leaves behind becomes ours, to be killed.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const sigset_t set = HandledSignals();
  signals_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  observed_.job = local_.job;
  observed_.service = ServiceState::kOurs;  // every rank is at 127.0.0.1
  observed_.nodes_can_fail = false;
}

LocalBody::~LocalBody() {
  if (AnyRunning()) {
    processes_.clear();  // their lifelines with them
    KillAllDescendants();
  }
}

base::Result<LocalOutcome> LocalBody::Run() {
  if (!signals_) {
    return base::Error{base::ErrorCode::kUnavailable,
                       fmt::format("can't wait for signals: {}", std::strerror(errno))};
  }
  while (true) {
    if (interrupts_ == 0) {
      if (auto planned = PlanAndAct(); !planned) {
        return planned.error();
      }
    }
    const bool over = interrupts_ > 0 || observed_.job.status.finished();
    if (over && !AnyRunning()) {
      return LocalOutcome{observed_.job.status, interrupts_ > 0};
    }
    Wait();
  }
}

// Plans until nothing is left to do now: a status change or an action is news to the next plan.
base::Result<base::Done> LocalBody::PlanAndAct() {
  while (true) {
    const api::TimePoint now = clock_.Now();
    observed_.pods.clear();
    for (const RankProcess& process : processes_) {
      observed_.pods.push_back(process.record());
    }
    observed_.progress = progress_.Latest(observed_.job.status.attempt);
    Plan plan = MakePlan(observed_, now);
    observed_.create_failure.reset();
    if (plan.urgency != Urgency::kNone) {
      observed_.job.status = plan.status;
      local_.job.status = plan.status;
      if (auto written = folder_.WriteStatus(plan.status); !written) {
        return written.error();
      }
    }
    for (const Action& action : plan.actions) {
      Act(action, now);
    }
    for (const Event& event : plan.events) {
      listener_.OnEvent(event);
    }
    wake_up_ = plan.wake_up;
    progress_.Watch(PullTargetNow());
    if (plan.actions.empty() && plan.urgency == Urgency::kNone) {
      return base::Done{};
    }
  }
}

// As in a cluster, but on loopback and at the port that rank 0 was given.
std::optional<PullTarget> LocalBody::PullTargetNow() const {
  auto target = FindPullTarget(observed_);
  if (target && ports_) {
    target->address = {kLoopback, ports_->progress.front()};
  }
  return target;
}

void LocalBody::Act(const Action& action, api::TimePoint now) {
  if (const auto* creation = std::get_if<CreatePods>(&action)) {
    Create(*creation);
  } else if (const auto* deletion = std::get_if<DeletePods>(&action)) {
    Delete(*deletion, now);
  } else if (const auto* extra = std::get_if<CreateExtra>(&action)) {
    observed_.extras[extra->extra] = {.attempt = extra->attempt};  // a folder is a claim enough
  }
}

void LocalBody::Create(const CreatePods& creation) {
  const auto fail = [&](CreateFailure::Kind kind, const std::string& message) {
    observed_.create_failure = CreateFailure{kind, creation.attempt, message};
  };
  if (!ports_ || ports_attempt_ != creation.attempt) {
    auto ports = ChoosePorts(local_);
    if (!ports) {
      fail(CreateFailure::Kind::kRefused, ports.error().message);
      return;
    }
    ports_ = *std::move(ports);
    ports_attempt_ = creation.attempt;
    listener_.OnAttempt(creation.attempt);
  }
  static const Variables inherited = ProcessVariables();
  for (const int rank : creation.ranks) {
    auto command =
        BuildRankCommand(local_, creation.attempt, rank, *ports_, folder_, own_folder_, inherited);
    if (!command) {
      fail(CreateFailure::Kind::kRefused, command.error().message);
      return;
    }
    PodRecord record;
    record.name = api::PodName(local_.job.metadata.name, creation.attempt, rank);
    record.uid = record.name;
    record.attempt = creation.attempt;
    record.rank = rank;
    record.node = kNode;
    record.ip = kLoopback;
    auto process = RankProcess::Start(*command, std::move(record));
    if (!process) {
      // No process can be made: waiting would not help the one who sits in front of it.
      fail(CreateFailure::Kind::kRefused, process.error().message);
      return;
    }
    processes_.push_back(*std::move(process));
  }
}

void LocalBody::Delete(const DeletePods& deletion, api::TimePoint now) {
  const auto own_grace =
      local_.job.spec.pod_template.grace_period_seconds().value_or(api::kKubernetesGraceSeconds);
  for (RankProcess& process : processes_) {
    if (process.record().attempt == deletion.attempt) {
      process.Stop(now, seconds(deletion.grace_seconds.value_or(static_cast<int>(own_grace))));
    }
  }
  std::erase_if(processes_, [&deletion](const RankProcess& process) {
    return process.record().attempt == deletion.attempt && !process.running() &&
           !deletion.keep_ended;
  });
}

int LocalBody::TimeoutMs() {
  const api::TimePoint now = clock_.Now();
  constexpr api::TimePoint kNever = api::TimePoint::max();
  api::TimePoint next = interrupts_ == 0 ? wake_up_.value_or(kNever) : kNever;
  for (RankProcess& process : processes_) {
    next = std::min(next, process.Tick(now).value_or(kNever));
  }
  if (next == kNever) {
    return -1;
  }
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
  return static_cast<int>(std::clamp<int64_t>(wait, 0, kMaxWaitMs));
}

void LocalBody::Wait() {
  std::vector<pollfd> waits = {{signals_.get(), POLLIN, 0}, {progress_.fd(), POLLIN, 0}};
  for (const RankProcess& process : processes_) {
    if (process.output_fd() >= 0) {
      waits.push_back({process.output_fd(), POLLIN, 0});
    }
  }
  if (poll(waits.data(), waits.size(), TimeoutMs()) <= 0) {
    return;  // a deadline, or a signal that none of ours is
  }
  for (RankProcess& process : processes_) {
    if (const std::string text = process.ReadOutput(); !text.empty()) {
      listener_.OnOutput(text);
    }
  }
  if (waits[1].revents != 0) {
    if (const auto progress = progress_.Take()) {
      listener_.OnProgress(*progress);
    }
  }
  if (waits[0].revents != 0) {
    HandleSignals();
  }
}

void LocalBody::HandleSignals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGCHLD) {
      Reap();
    } else {
      Interrupt();
    }
  }
}

void LocalBody::Interrupt() {
  ++interrupts_;
  const api::TimePoint now = clock_.Now();
  listener_.OnStopping(interrupts_ > 1);
  const auto grace =
      local_.job.spec.pod_template.grace_period_seconds().value_or(api::kKubernetesGraceSeconds);
  for (RankProcess& process : processes_) {
    if (interrupts_ == 1) {
      process.Stop(now, seconds(grace));
    } else {
      process.Kill();
    }
  }
}

void LocalBody::Reap() {
  bool stranger = false;
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    RankProcess* process = FindByPid(pid);
    stranger = stranger || process == nullptr || WIFSIGNALED(status);
    if (process == nullptr) {
      continue;
    }
    const std::string text = process->Ended(ExitCodeOf(status), clock_.Now());
    if (!text.empty()) {
      listener_.OnOutput(text);
    }
  }
  if (stranger) {
    KillOrphans();
  }
  // What was being deleted is gone now, as a pod would be.
  std::erase_if(processes_, [](const RankProcess& process) {
    return !process.running() && process.record().deletion_time;
  });
}

// A supervisor was killed: what it had under it is under us now.
void LocalBody::KillOrphans() {
  for (const pid_t child : ChildrenOf(getpid())) {
    if (FindByPid(child) == nullptr) {
      kill(child, SIGKILL);
    }
  }
}

bool LocalBody::AnyRunning() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const RankProcess& process) { return process.running(); });
}

RankProcess* LocalBody::FindByPid(pid_t pid) {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [pid](const RankProcess& p) { return p.pid() == pid; });
  return found == processes_.end() ? nullptr : &*found;
}

}  // namespace ddp::job
