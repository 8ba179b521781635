#include "operator/ddpjob/local/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "operator/api/text.h"
#include "operator/ddpjob/local/supervisor.h"

namespace ddp::job {
namespace {

// More than a pipe holds, so that an ended rank is read out at once; bounded, so that one that
// writes without end does not keep the loop from everything else.
constexpr size_t kMaxOutputAtOnce = size_t{256} * 1024;

base::Error Unavailable(const std::string& what, int error) {
  return {base::ErrorCode::kUnavailable, fmt::format("{}: {}", what, std::strerror(error))};
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

base::Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Unavailable("can't make a pipe", errno);
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// The descriptors that the supervisor gets: 0, 1, 2, and those of supervisor.h. dup2 onto a number
// that another source still has would lose that source, so all are moved above the targets first.
base::Result<std::array<UniqueFd, 5>> LiftAbove(const std::array<int, 5>& sources) {
  std::array<UniqueFd, 5> lifted;
  for (size_t i = 0; i < sources.size(); ++i) {
    lifted[i] = UniqueFd(fcntl(sources[i], F_DUPFD_CLOEXEC, 10));
    if (!lifted[i]) {
      return Unavailable("can't duplicate a descriptor", errno);
    }
  }
  return lifted;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

base::Result<pid_t> Spawn(const RankCommand& command, const std::array<int, 5>& descriptors) {
  auto lifted = LiftAbove(descriptors);
  if (!lifted) {
    return lifted.error();
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (size_t i = 0; i < lifted->size(); ++i) {
    posix_spawn_file_actions_adddup2(&actions, (*lifted)[i].get(), static_cast<int>(i));
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  // A session of its own: Ctrl-C reaches us alone, and we stop the ranks in order.
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  std::vector<std::string> words = {"kubectl-ddp", kSuperviseCommand};
  words.insert(words.end(), command.command.begin(), command.command.end());
  std::vector<std::string> environment = command.environment;
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes,
                                Pointers(words).data(), Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return Unavailable("can't start a process", error);
  }
  return pid;
}

std::string TailOfFile(const std::filesystem::path& path, size_t bytes) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return "";
  }
  const off_t end = lseek(file.get(), 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(bytes));
  std::string text(static_cast<size_t>(std::max<off_t>(0, end - begin)), '\0');
  const ssize_t size = pread(file.get(), text.data(), text.size(), begin);
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return api::Tail(text, bytes);
}

}  // namespace

base::Result<RankProcess> RankProcess::Start(const RankCommand& command, PodRecord record) {
  RankProcess process;
  process.log_path_ = command.log;
  process.log_ = UniqueFd(
      open(command.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!process.log_ || !nothing) {
    return Unavailable(fmt::format("can't write {}", command.log.string()), errno);
  }
  auto lifeline = MakePipe();
  auto output = MakePipe();
  if (!lifeline || !output) {
    return lifeline ? output.error() : lifeline.error();
  }
  const int standard_output = command.pipe_output ? output->write.get() : process.log_.get();
  auto pid = Spawn(command, {nothing.get(), standard_output, process.log_.get(),
                             lifeline->read.get(), command.lock_fd});
  if (!pid) {
    return pid.error();
  }
  process.pid_ = *pid;
  process.lifeline_ = std::move(lifeline->write);
  if (command.pipe_output) {
    fcntl(output->read.get(), F_SETFL, O_NONBLOCK);
    process.output_ = std::move(output->read);
  }
  record.phase = PodPhase::kRunning;
  record.started = true;
  record.ready = true;
  process.record_ = std::move(record);
  return process;
}

void RankProcess::Stop(api::TimePoint now, std::chrono::seconds grace) {
  if (!running()) {
    return;
  }
  const api::TimePoint deadline = now + grace;
  if (!record_.deletion_time) {
    kill(pid_, SIGTERM);
  }
  record_.deletion_time = std::min(record_.deletion_time.value_or(deadline), deadline);
}

void RankProcess::Kill() {
  if (running() && !killed_) {
    killed_ = true;
    kill(pid_, SIGUSR1);
  }
}

std::optional<api::TimePoint> RankProcess::Tick(api::TimePoint now) {
  if (!running() || killed_ || !record_.deletion_time) {
    return std::nullopt;
  }
  if (now >= *record_.deletion_time) {
    Kill();
    return std::nullopt;
  }
  return record_.deletion_time;
}

std::string RankProcess::Ended(int exit_code, api::TimePoint now) {
  pid_ = 0;
  lifeline_.Reset();
  record_.phase = exit_code == 0 ? PodPhase::kSucceeded : PodPhase::kFailed;
  record_.ready = false;
  record_.exit_code = exit_code;
  record_.finished_time = now;
  // Errors come on standard error, straight into the log; standard output that is still in the pipe
  // is older than it looks, so it speaks only where nothing else does.
  record_.message = TailOfFile(log_path_, api::kMaxFailureMessage);
  std::string rest = ReadOutput();
  if (record_.message.empty()) {
    record_.message = api::Tail(rest, api::kMaxFailureMessage);
  }
  return rest;
}

std::string RankProcess::ReadOutput() {
  std::string text;
  std::array<char, 16'384> chunk{};
  while (output_ && text.size() < kMaxOutputAtOnce) {
    const ssize_t size = read(output_.get(), chunk.data(), chunk.size());
    if (size > 0) {
      text.append(chunk.data(), static_cast<size_t>(size));
      continue;
    }
    if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
      output_.Reset();
    }
    if (size < 0 && errno == EINTR) {
      continue;
    }
    break;
  }
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t size = write(log_.get(), text.data() + written, text.size() - written);
    if (size < 0 && errno != EINTR) {
      break;  // a full disk must not end the training; the text still goes to the terminal
    }
    written += size > 0 ? static_cast<size_t>(size) : 0;
  }
  return text;
}

}  // namespace ddp::job
