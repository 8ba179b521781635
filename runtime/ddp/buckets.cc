#include "runtime/ddp/buckets.h"

#include <map>

namespace ddp::rt {
namespace {

// Where the last gradients begin: at least one, then as many as fit.
std::size_t BeginOfTail(const std::vector<GradientSize>& in_order, std::size_t limit) {
  std::size_t begin = in_order.size() - 1;
  std::size_t bytes = in_order[begin].bytes;
  while (begin > 0 && bytes + in_order[begin - 1].bytes <= limit) {
    bytes += in_order[--begin].bytes;
  }
  return begin;
}

// Open buckets, one per kind; closed ones go to the plan in the order of their last gradient.
class Planner {
 public:
  Planner(std::size_t first_limit, std::size_t limit, std::vector<std::vector<int>>& plan)
      : limit_(first_limit), later_limit_(limit), plan_(plan) {}

  void Add(const GradientSize& gradient) {
    Open& open = open_[gradient.kind];
    if (!open.parameters.empty() && open.bytes + gradient.bytes > limit_) {
      Close(open);
    }
    open.parameters.push_back(gradient.parameter);
    open.bytes += gradient.bytes;
    open.last = ++position_;
  }

  void CloseAll() {
    std::map<std::size_t, Open*> by_last;
    for (auto& [kind, open] : open_) {
      by_last[open.last] = &open;
    }
    for (auto& [last, open] : by_last) {
      if (!open->parameters.empty()) {
        Close(*open);
      }
    }
  }

 private:
  struct Open {
    std::vector<int> parameters;
    std::size_t bytes = 0;
    std::size_t last = 0;
  };

  void Close(Open& open) {
    plan_.push_back(std::move(open.parameters));
    open = {};
    limit_ = later_limit_;
  }

  std::size_t limit_;
  const std::size_t later_limit_;
  std::vector<std::vector<int>>& plan_;
  std::map<int, Open> open_;
  std::size_t position_ = 0;
};

}  // namespace

std::vector<std::vector<int>> PlanBuckets(const std::vector<GradientSize>& in_order,
                                          const BucketLimits& limits) {
  std::vector<std::vector<int>> plan;
  if (in_order.empty()) {
    return plan;
  }
  const std::size_t tail = BeginOfTail(in_order, limits.last_bytes);
  Planner head(limits.first_bytes, limits.bytes, plan);
  for (std::size_t i = 0; i < tail; ++i) {
    head.Add(in_order[i]);
  }
  head.CloseAll();
  Planner last(limits.bytes, limits.bytes, plan);
  for (std::size_t i = tail; i < in_order.size(); ++i) {
    last.Add(in_order[i]);
  }
  last.CloseAll();
  return plan;
}

}  // namespace ddp::rt
