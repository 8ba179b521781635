// A set of ranks that prints as intervals ("0-3,5"): status.succeededRanks stays short however many
// ranks there are. A plain value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/base/result.h"

namespace ddp::api {

class RankSet {
 public:
  // "" is the empty set. kInvalid for anything but ascending, non-overlapping intervals.
  static base::Result<RankSet> Parse(std::string_view text);

  void Add(int rank);
  void Add(const RankSet& others);
  bool Contains(int rank) const;
  int size() const;
  bool empty() const { return intervals_.empty(); }
  std::string ToString() const;
  bool operator==(const RankSet&) const = default;

 private:
  struct Interval {
    int first;
    int last;
    bool operator==(const Interval&) const = default;
  };
  std::vector<Interval> intervals_;  // ascending, never adjacent
};

}  // namespace ddp::api
