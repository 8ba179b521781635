// Cuts a stream of bytes into lines. Remembers how far it has looked, so that a line arriving in a
// thousand pieces is scanned once, and refuses a line longer than its cap instead of growing
// without bound. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "operator/base/result.h"

namespace ddp::kube {

class LineDecoder {
 public:
  // etcd holds objects of 1.5 MiB; as JSON with managed fields they stay far below this.
  static constexpr size_t kDefaultCap = size_t{16} << 20U;

  explicit LineDecoder(size_t cap = kDefaultCap) : cap_(cap) {}

  // Calls on_line(string_view) for each complete line, without its end ("\n" or "\r\n"); empty
  // lines are skipped. The view lives until on_line returns. kInvalid when a line exceeds the cap;
  // the decoder is of no use after that.
  template <typename OnLine>
  base::Result<base::Done> Feed(std::string_view bytes, OnLine&& on_line) {
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      const std::string_view piece = bytes.substr(0, end);
      if (partial_.size() + piece.size() > cap_) {
        return base::Error{base::ErrorCode::kInvalid, "a line of the stream is longer than " +
                                                          std::to_string(cap_) + " bytes"};
      }
      if (end == std::string_view::npos) {
        partial_ += piece;
        break;
      }
      bytes.remove_prefix(end + 1);
      if (partial_.empty()) {
        Emit(piece, on_line);  // the common case: no copy
      } else {
        partial_ += piece;
        Emit(partial_, on_line);
        partial_.clear();
      }
    }
    return base::Done{};
  }

  // Bytes of a line that has no end yet: not zero when a stream was cut in mid-line.
  size_t pending() const { return partial_.size(); }

 private:
  template <typename OnLine>
  static void Emit(std::string_view line, OnLine& on_line) {
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (!line.empty()) {
      on_line(line);
    }
  }

  const size_t cap_;
  std::string partial_;  // holds no '\n': only new bytes are searched
};

}  // namespace ddp::kube
