// Where a local run keeps its things: <base>/.ddp/<job>/ with
//   lock                   held while a run lives, its number inside
//   status.json            the job's status, as `kubectl get -o yaml` would show it
//   logs/<pod>.log         what each rank said, of the newest run
//   checkpoints/           stands for spec.checkpoint's claim
//   volumes/<volume>/      stands for each volume of the template
// One owner, one thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "operator/api/types.h"
#include "operator/ddpjob/local/unique_fd.h"

namespace ddp::job {

class StateFolder {
 public:
  // Makes the folder and takes its lock. kAlreadyExists names the run that holds it. `fresh`
  // removes what earlier runs left.
  static base::Result<StateFolder> Open(const std::filesystem::path& base, const std::string& job,
                                        bool fresh);

  const std::filesystem::path& path() const { return path_; }
  int lock_fd() const { return lock_.get(); }
  std::filesystem::path LogOf(const std::string& pod) const;
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path Volume(const std::string& name) const { return path_ / "volumes" / name; }

  base::Result<base::Done> MakeVolumes(const std::vector<std::string>& names) const;
  base::Result<base::Done> WriteStatus(const api::Status& status) const;

 private:
  StateFolder(std::filesystem::path path, UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  UniqueFd lock_;
};

}  // namespace ddp::job
