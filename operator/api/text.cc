#include "operator/api/text.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace ddp::api {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

}  // namespace

std::string Cut(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) {
    return std::string(text);
  }
  size_t end = bytes;
  while (end > 0 && IsContinuation(text[end])) {
    --end;
  }
  return std::string(text.substr(0, end));
}

std::string Tail(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) {
    return std::string(text);
  }
  size_t begin = text.size() - bytes;
  while (begin < text.size() && IsContinuation(text[begin])) {
    ++begin;
  }
  return std::string(text.substr(begin));
}

size_t EditDistance(std::string_view a, std::string_view b, size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) {
    return limit + 1;
  }
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return std::min(row[b.size()], limit + 1);
}

}  // namespace ddp::api
