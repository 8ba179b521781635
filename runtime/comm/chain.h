// A reduction along hosts, in the order of ranks: each host adds its ranks' values to the sum that
// comes from the host before and passes it on; the last one has the result, which runs back. Blocks
// follow one another, so all links work at once, in both directions. So each element is summed in
// the order of ranks although only one sum crosses each link, and the bits are those of shm and
// tcp. Sums of 16-bit floats travel as float: they are rounded once, at the end.
//
// One rank a host is in a chain ("lane"): several chains share the work, each with a slice. Used by
// one thread.
#pragma once

#include <optional>
#include <vector>

#include "runtime/comm/call.h"
#include "runtime/comm/control.h"

namespace ddp::rt::comm {

class Chain {
 public:
  struct Link {
    int fd = -1;  // -1: there is no host on this side
    int rank = -1;
  };
  // `interrupt` is an eventfd that ends a wait.
  Chain(int rank, int world_size, Link before, Link after, int interrupt, Control& control);

  // Reduces arrays[i][0..count) of this host's ranks, in their order, with those of all hosts, and
  // writes the result to each. `own` is one of them. At the deadline and a moment more (so that one
  // who knows better who is missing speaks first) it fails the group.
  void Reduce(const Call& call, const Deadline& deadline, std::chrono::milliseconds moment,
              const std::vector<char*>& arrays, std::size_t own, std::size_t count);

 private:
  class Pass;

  const int rank_;
  const int world_size_;
  const Link before_;
  const Link after_;
  const int interrupt_;
  Control& control_;
  std::vector<char> sums_;
  std::vector<float> wide_;  // 16-bit inputs of one block
};

}  // namespace ddp::rt::comm
