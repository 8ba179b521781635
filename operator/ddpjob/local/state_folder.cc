#include "operator/ddpjob/local/state_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "operator/api/parse.h"

namespace ddp::job {
namespace {

namespace fs = std::filesystem;

base::Error CannotWrite(const fs::path& path, const std::string& why) {
  return {base::ErrorCode::kForbidden,
          fmt::format("can't write {}: {}; run from a folder that you may write to", path.string(),
                      why)};
}

// The number that the holder of the lock wrote; "" while it has not.
std::string HolderOf(int lock) {
  std::array<char, 32> text{};
  const ssize_t size = pread(lock, text.data(), text.size() - 1, 0);
  return std::string(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
}

}  // namespace

base::Result<StateFolder> StateFolder::Open(const fs::path& base, const std::string& job,
                                            bool fresh) {
  const fs::path path = fs::absolute(base) / ".ddp" / job;
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    return CannotWrite(path, error.message());
  }
  const fs::path lock_path = path / "lock";
  UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock) {
    return CannotWrite(lock_path, std::strerror(errno));
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return base::Error{
        base::ErrorCode::kAlreadyExists,
        fmt::format("job '{}' runs already in {}: process {}; wait for it or stop it first", job,
                    path.string(), HolderOf(lock.get()))};
  }
  const std::string self = fmt::format("{}", getpid());
  if (ftruncate(lock.get(), 0) != 0 ||
      pwrite(lock.get(), self.data(), self.size(), 0) != static_cast<ssize_t>(self.size())) {
    return CannotWrite(lock_path, std::strerror(errno));
  }
  for (const char* old : {"logs", "checkpoints", "volumes", "status.json"}) {
    if (fresh || std::string_view(old) == "logs") {
      fs::remove_all(path / old, error);
    }
  }
  for (const char* needed : {"logs", "checkpoints", "volumes"}) {
    fs::create_directories(path / needed, error);
    if (error) {
      return CannotWrite(path / needed, error.message());
    }
  }
  return StateFolder(path, std::move(lock));
}

fs::path StateFolder::LogOf(const std::string& pod) const {
  return path_ / "logs" / (pod + ".log");
}

base::Result<base::Done> StateFolder::MakeVolumes(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    std::error_code error;
    fs::create_directories(Volume(name), error);
    if (error) {
      return CannotWrite(Volume(name), error.message());
    }
  }
  return base::Done{};
}

base::Result<base::Done> StateFolder::WriteStatus(const api::Status& status) const {
  const fs::path target = path_ / "status.json";
  const fs::path draft = path_ / "status.json.new";
  std::ofstream file(draft, std::ios::trunc);
  file << api::StatusToJson(status).dump(2, ' ', false, json::Json::error_handler_t::replace)
       << '\n';
  file.close();
  std::error_code error;
  if (file) {
    fs::rename(draft, target, error);
  }
  if (!file || error) {
    return CannotWrite(target, error ? error.message() : std::strerror(errno));
  }
  return base::Done{};
}

}  // namespace ddp::job
