#include "tests/fault/runtime/worker.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

namespace ddp::rt {
namespace {

// All in the child after fork: only async-signal-safe calls.
[[noreturn]] void Execute(char* const* arguments, char* const* environment, int out, int err) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execve(arguments[0], arguments, environment);
  _exit(127);
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& text : strings) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::string Word(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

void WriteFile(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace

Worker::Worker(const std::vector<std::string>& arguments, const Environment& environment) {
  std::vector<std::string> command = {DDP_WORKER};
  command.insert(command.end(), arguments.begin(), arguments.end());
  Start(std::move(command), environment);
}

std::unique_ptr<Worker> Worker::Of(std::vector<std::string> command,
                                   const Environment& environment) {
  std::unique_ptr<Worker> worker(new Worker());
  worker->Start(std::move(command), environment);
  return worker;
}

void Worker::Start(std::vector<std::string> command, const Environment& environment) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) {
    variables.push_back(fmt::format("{}={}", name, value));
  }
  const auto argv = Pointers(command);
  const auto envp = Pointers(variables);
  int out[2];
  int err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe");
  }
  pid_ = fork();
  if (pid_ == 0) {
    Execute(argv.data(), envp.data(), out[1], err[1]);
  }
  close(out[1]);
  close(err[1]);
  out_.fd = out[0];
  err_.fd = err[0];
  out_.reader = std::thread([this] { Read(out_); });
  err_.reader = std::thread([this] { Read(err_); });
}

Worker::~Worker() {
  if (!reaped_) {
    Signal(SIGKILL);
    Wait();
  }
  out_.reader.join();
  err_.reader.join();
  close(out_.fd);
  close(err_.fd);
}

void Worker::Read(Stream& stream) {
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(stream.fd, buffer, sizeof(buffer))) > 0) {
    const std::lock_guard lock(mutex_);
    stream.text.append(buffer, static_cast<size_t>(got));
    changed_.notify_all();
  }
  const std::lock_guard lock(mutex_);
  stream.ended = true;
  changed_.notify_all();
}

void Worker::Signal(int signal) const { kill(pid_, signal); }

bool Worker::WaitFor(const std::string& text) { return WaitFor(err_, text); }

bool Worker::WaitForResult(const std::string& text) { return WaitFor(out_, text); }

bool Worker::WaitFor(const Stream& stream, const std::string& text) {
  std::unique_lock lock(mutex_);
  const auto seen = [&] { return stream.text.find(text) != std::string::npos; };
  changed_.wait_for(lock, kPatience, [&] { return seen() || stream.ended; });
  return seen();
}

int Worker::Wait(std::chrono::milliseconds limit) {
  if (reaped_) {
    return exit_code_;
  }
  bool ended = false;
  {
    // Its ends of the pipes close when it ends.
    std::unique_lock lock(mutex_);
    ended = changed_.wait_for(lock, limit, [&] { return out_.ended && err_.ended; });
  }
  if (!ended) {
    Signal(SIGKILL);
  }
  int status = 0;
  while (waitpid(pid_, &status, 0) == pid_ && WIFSTOPPED(status)) {  // a test traces it
  }
  reaped_ = true;
  exit_code_ = !ended ? -1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return exit_code_;
}

std::string Worker::log() const {
  const std::lock_guard lock(mutex_);
  return err_.text;
}

std::string Worker::results() const {
  const std::lock_guard lock(mutex_);
  return out_.text;
}

void WriteDigits(const std::filesystem::path& folder, int train, int test) {
  std::filesystem::create_directories(folder);
  uint32_t random = 1;
  for (const auto& [name, count] : {std::pair{"train", train}, std::pair{"t10k", test}}) {
    std::string images = Word(0x803) + Word(static_cast<uint32_t>(count)) + Word(28) + Word(28);
    std::string labels = Word(0x801) + Word(static_cast<uint32_t>(count));
    for (int i = 0; i < count; ++i) {
      const int label = i % 10;
      labels += static_cast<char>(label);
      // A bar whose place is the label, and noise.
      for (int pixel = 0; pixel < 28 * 28; ++pixel) {
        random = random * 1664525 + 1013904223;
        const bool bar = pixel / 28 / 2 == label + 2;
        images += static_cast<char>((bar ? 150 : 0) + (random >> 24) % 100);
      }
    }
    WriteFile(folder / (std::string(name) + "-images-idx3-ubyte"), images);
    WriteFile(folder / (std::string(name) + "-labels-idx1-ubyte"), labels);
  }
}

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw std::runtime_error("no free port");
  }
  close(fd);
  return ntohs(address.sin_port);
}

Job::Job(std::filesystem::path root, int ranks, std::string config, Environment more)
    : root_(std::move(root)), ranks_(ranks), config_(std::move(config)), more_(std::move(more)) {
  if (!std::filesystem::exists(root_ / "data")) {
    WriteDigits(root_ / "data" / "digits", 400, 60);
  }
}

void Job::Start() {
  workers_.clear();
  const int port = FreePort();
  for (int rank = 0; rank < ranks_; ++rank) {
    Environment environment = {
        {"RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(ranks_)},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(port)},
        {"DDP_JOB_UID", "test"},
        {"DDP_DATA_DIR", (root_ / "data").string()},
        {"DDP_CHECKPOINT_DIR", checkpoints().string()},
        {"OMP_NUM_THREADS", "1"},
        {"CONFIG", config_},
    };
    for (const auto& [name, value] : more_) {
      environment[name] = value;
    }
    workers_.push_back(std::make_unique<Worker>(
        std::vector<std::string>{"train", "--config-env", "CONFIG"}, environment));
  }
}

std::vector<int> Job::Wait(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::vector<int> codes;
  for (const auto& worker : workers_) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    codes.push_back(worker->Wait(std::max(left, std::chrono::milliseconds(0))));
  }
  return codes;
}

std::string Job::logs() const {
  std::string text;
  for (const auto& worker : workers_) {
    text += worker->log();
    text += '\n';
  }
  return text;
}

std::string HttpGet(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  std::string answer;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size())) {
    char buffer[4096];
    for (ssize_t got = 0; (got = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
      answer.append(buffer, static_cast<size_t>(got));
    }
  }
  close(fd);
  return answer;
}

int ProgressPort(const std::string& log) {
  constexpr std::string_view kBefore = "serving /metrics and /progress port=";
  const size_t at = log.find(kBefore);
  return at == std::string::npos ? 0 : std::stoi(log.substr(at + kBefore.size()));
}

std::map<int, std::string> Hashes(const std::string& log) {
  static const std::regex kLine(R"(hash step=(\d+) parameters=([0-9a-f]{16}))");
  std::map<int, std::string> hashes;
  for (auto it = std::sregex_iterator(log.begin(), log.end(), kLine); it != std::sregex_iterator();
       ++it) {
    hashes[std::stoi((*it)[1])] = (*it)[2];
  }
  return hashes;
}

}  // namespace ddp::rt
