// The PodTemplateSpec of a job, exactly as given but kept as compact text: its tree is needed only
// to make pods and to check a job. What every look at a job asks of it is noted once. Immutable;
// copies share everything; any thread may read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "operator/json/compact.h"

namespace ddp::api {

class PodTemplate {
 public:
  PodTemplate() : PodTemplate(json::Json()) {}
  explicit PodTemplate(const json::Json& given);

  // Makes the tree anew each time.
  json::Json Parsed() const { return kept_->text.Parsed(); }

  bool host_network() const { return kept_->host_network; }
  // What the worker asks for as "…/gpu", whoever made them; 0: none.
  int64_t gpu_limit() const { return kept_->gpu_limit; }
  std::optional<int64_t> grace_period_seconds() const { return kept_->grace_period_seconds; }
  const std::string& priority_class() const { return kept_->priority_class; }
  // Where the worker mounts the volume `data`; "": nowhere.
  const std::string& data_mount_path() const { return kept_->data_mount_path; }

  bool operator==(const PodTemplate& other) const { return kept_->text == other.kept_->text; }

 private:
  struct Kept {
    json::Compact text;
    bool host_network;
    int64_t gpu_limit;
    std::optional<int64_t> grace_period_seconds;
    std::string priority_class;
    std::string data_mount_path;
  };
  std::shared_ptr<const Kept> kept_;
};

}  // namespace ddp::api
