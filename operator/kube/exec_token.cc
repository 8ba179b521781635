#include "operator/kube/exec_token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "operator/base/log.h"

namespace ddp::kube {
namespace {

using base::Error;
using base::ErrorCode;
using base::Result;
using json::Json;
using Time = std::chrono::steady_clock::time_point;

constexpr size_t kLongestAnswer = 1 << 20;
constexpr const char* kInfoVariable = "KUBERNETES_EXEC_INFO";

// What spawning wants: pointers to texts, and a null.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));  // it is copied, never written to
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> Environment(const ExecToken::Options& options) {
  std::vector<std::string> all;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    all.emplace_back(*variable);
  }
  const auto set = [&all](const std::string& name, const std::string& value) {
    std::erase_if(all, [&](const std::string& other) { return other.starts_with(name + "="); });
    all.push_back(name + "=" + value);
  };
  for (const auto& [name, value] : options.environment) {
    set(name, value);
  }
  Json spec = {{"interactive", options.interactive}};
  if (!options.cluster.is_null()) {
    spec["cluster"] = options.cluster;
  }
  set(kInfoVariable, json::Dump({{"apiVersion", options.api_version},
                                 {"kind", "ExecCredential"},
                                 {"spec", std::move(spec)}}));
  return all;
}

// Everything up to the end of the output; nothing at the deadline, or when it is far too much.
std::optional<std::string> ReadAll(int fd, Time deadline) {
  std::string text;
  char bytes[4096];
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd wait{fd, POLLIN, 0};
    if (left.count() <= 0 || poll(&wait, 1, static_cast<int>(left.count())) == 0) {
      return std::nullopt;
    }
    const ssize_t got = read(fd, bytes, sizeof bytes);
    if (got == 0) {
      return text;
    }
    if (got > 0) {
      text.append(bytes, static_cast<size_t>(got));
    }
    if ((got < 0 && errno != EINTR) || text.size() > kLongestAnswer) {
      return std::nullopt;
    }
  }
}

}  // namespace

std::string ExecToken::Token() {
  std::lock_guard lock(mutex_);
  const bool good =
      credential_ && (!credential_->expires || clock_.Now() + kRenewBefore < *credential_->expires);
  if (!good) {
    credential_.reset();
    if (auto answer = Ask()) {
      credential_ = *std::move(answer);
    } else {
      base::Log(base::Level::kError, "cannot get a token from the kubeconfig's plugin",
                {{"command", options_.command.front()}, {"error", answer.error().message}});
    }
  }
  return credential_ ? credential_->token : "";
}

bool ExecToken::Refused(const std::string& token) {
  std::lock_guard lock(mutex_);
  if (credential_ && credential_->token == token) {
    credential_.reset();
  }
  return !token.empty();  // one that could not be got just now is not asked for again at once
}

Result<ExecToken::Credential> ExecToken::Ask() const {
  auto answer = Run();
  if (!answer) {
    return answer.error();
  }
  return Read(*answer);
}

Result<std::string> ExecToken::Run() const {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Error{ErrorCode::kUnavailable, fmt::format("no pipe: {}", std::strerror(errno))};
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (!options_.interactive) {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  const std::vector<std::string> environment = Environment(options_);
  pid_t pid = 0;
  const int refused = posix_spawnp(&pid, options_.command.front().c_str(), &actions, nullptr,
                                   Pointers(options_.command).data(), Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (refused != 0) {
    close(ends[0]);
    return Error{
        ErrorCode::kNotFound,
        fmt::format("can't run '{}': {}{}{}", options_.command.front(), std::strerror(refused),
                    options_.install_hint.empty() ? "" : "; ", options_.install_hint)};
  }
  auto answer = ReadAll(ends[0], std::chrono::steady_clock::now() + options_.deadline);
  close(ends[0]);
  if (!answer) {
    kill(pid, SIGKILL);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!answer) {
    return Error{ErrorCode::kDeadline,
                 fmt::format("'{}' gave no answer within {} s", options_.command.front(),
                             std::chrono::ceil<std::chrono::seconds>(options_.deadline).count())};
  }
  if (status != 0) {
    return Error{ErrorCode::kUnauthorized,
                 WIFEXITED(status) ? fmt::format("'{}' ended with {}", options_.command.front(),
                                                 WEXITSTATUS(status))
                                   : fmt::format("'{}' was killed by signal {}",
                                                 options_.command.front(), WTERMSIG(status))};
  }
  return *std::move(answer);
}

Result<ExecToken::Credential> ExecToken::Read(const std::string& answer) const {
  const auto wrong = [this](std::string_view what) {
    return Error{ErrorCode::kInvalid,
                 fmt::format("the answer of '{}' {}", options_.command.front(), what)};
  };
  const auto object = json::Parse(answer);
  if (!object || json::GetString(*object, {"kind"}) != "ExecCredential") {
    return wrong("is no ExecCredential");
  }
  if (json::GetString(*object, {"apiVersion"}) != options_.api_version) {
    return wrong(fmt::format("has apiVersion '{}', the kubeconfig says '{}'",
                             json::GetString(*object, {"apiVersion"}), options_.api_version));
  }
  Credential credential;
  credential.token = json::GetString(*object, {"status", "token"});
  if (credential.token.empty()) {
    return wrong("holds no status.token: certificates from plugins are not supported");
  }
  const std::string expires = json::GetString(*object, {"status", "expirationTimestamp"});
  if (!expires.empty()) {
    const auto time = base::ParseTime(expires);
    if (!time) {
      return wrong(fmt::format("has a status.expirationTimestamp that is no time: '{}'", expires));
    }
    credential.expires = *time;
  }
  return credential;
}

}  // namespace ddp::kube
