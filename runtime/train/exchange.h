// What the ranks tell each other in each step, besides gradients: whether one was asked to stop,
// and the loss. It starts before the forward pass and is looked at after the step, so it costs no
// time; the loss in it is therefore that of the step before. Owned by the training thread.
#pragma once

#include <vector>

#include "runtime/comm/process_group.h"

namespace ddp::rt::train {

class Exchange {
 public:
  explicit Exchange(comm::ProcessGroup& group);

  struct Result {
    bool stop = false;  // the same on all ranks
    int first_to_stop = -1;
    double loss = 0;            // mean over ranks
    int first_not_finite = -1;  // rank whose loss is not
  };

  void Start(bool stop, double loss);
  Result Finish();

 private:
  struct Message {
    double stop = 0;
    double loss = 0;
  };

  comm::ProcessGroup& group_;
  Message mine_;
  std::vector<Message> all_;
  comm::WorkPtr work_;
};

}  // namespace ddp::rt::train
