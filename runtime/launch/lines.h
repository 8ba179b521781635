// Cuts what a rank writes into lines and keeps the last few. Pure; one object a stream.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace ddp::rt::launch {

class Lines {
 public:
  // Longer lines are cut, so that a program that never ends one can't fill the memory.
  static constexpr size_t kLongest = 64 * 1024;
  static constexpr size_t kKept = 20;

  // Each line is given without its end.
  using Take = std::function<void(std::string_view line)>;

  void Feed(std::string_view bytes, const Take& take);
  // What is left without an end of line: the stream is over.
  void Finish(const Take& take);

  const std::deque<std::string>& last() const { return last_; }

 private:
  void Emit(const Take& take);

  std::string open_;
  std::deque<std::string> last_;
};

}  // namespace ddp::rt::launch
