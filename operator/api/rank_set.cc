#include "operator/api/rank_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ddp::api {
namespace {

// Reads a number off the front of `text`.
std::optional<int> TakeNumber(std::string_view& text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<size_t>(stop - text.data()));
  return value;
}

}  // namespace

base::Result<RankSet> RankSet::Parse(std::string_view text) {
  const base::Error bad{base::ErrorCode::kInvalid,
                        fmt::format("'{}' is not a list of ranks such as 0-3,5", text)};
  RankSet set;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto first = TakeNumber(rest);
    auto last = first;
    if (first && rest.starts_with('-')) {
      rest.remove_prefix(1);
      last = TakeNumber(rest);
    }
    if (!first || !last || *last < *first ||
        (!set.intervals_.empty() && *first <= set.intervals_.back().last)) {
      return bad;
    }
    if (!set.intervals_.empty() && *first == set.intervals_.back().last + 1) {
      set.intervals_.back().last = *last;
    } else {
      set.intervals_.push_back({*first, *last});
    }
    if (rest.starts_with(',') && rest.size() > 1) {
      rest.remove_prefix(1);
    } else if (!rest.empty()) {
      return bad;
    }
  }
  return set;
}

void RankSet::Add(int rank) {
  // The first interval that ends at or after rank - 1 is the only one that rank can lie in or touch
  // from above.
  auto at = std::partition_point(intervals_.begin(), intervals_.end(),
                                 [rank](const Interval& i) { return i.last < rank - 1; });
  if (at == intervals_.end() || rank < at->first - 1) {
    intervals_.insert(at, {rank, rank});
    return;
  }
  at->first = std::min(at->first, rank);
  at->last = std::max(at->last, rank);
  const auto next = at + 1;
  if (next != intervals_.end() && next->first == at->last + 1) {
    at->last = next->last;
    intervals_.erase(next);
  }
}

void RankSet::Add(const RankSet& others) {
  for (const Interval& interval : others.intervals_) {
    for (int rank = interval.first; rank <= interval.last; ++rank) {
      Add(rank);
    }
  }
}

bool RankSet::Contains(int rank) const {
  const auto at = std::partition_point(intervals_.begin(), intervals_.end(),
                                       [rank](const Interval& i) { return i.last < rank; });
  return at != intervals_.end() && at->first <= rank;
}

int RankSet::size() const {
  int count = 0;
  for (const Interval& i : intervals_) {
    count += i.last - i.first + 1;
  }
  return count;
}

std::string RankSet::ToString() const {
  std::string text;
  for (const Interval& i : intervals_) {
    text += text.empty() ? "" : ",";
    text += i.first == i.last ? fmt::format("{}", i.first) : fmt::format("{}-{}", i.first, i.last);
  }
  return text;
}

}  // namespace ddp::api
