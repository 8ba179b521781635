// Runs a fuzz target without libFuzzer: mutates its seeds with a fixed random sequence, so that a
// failure repeats.   usage: fuzz_NAME RUNS
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "tests/fuzz/fuzz.h"

namespace ddp::fuzz {
namespace {

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  std::string Next() {
    std::string text = seeds_[Below(seeds_.size())];
    const size_t changes = 1 + Below(8);
    for (size_t i = 0; i < changes; ++i) {
      Change(text);
    }
    return text;
  }

 private:
  size_t Below(size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random_);
  }
  char AnyByte() { return static_cast<char>(Below(256)); }

  void Change(std::string& text) {
    const size_t at = Below(text.size() + 1);
    const size_t length = Below(std::min<size_t>(16, text.size() - at) + 1);
    switch (Below(6)) {
      case 0:  // cut off
        text.resize(at);
        break;
      case 1:  // leave out
        text.erase(at, length);
        break;
      case 2:  // repeat
        text.insert(at, text.substr(at, length));
        break;
      case 3:  // from another seed
      {
        const std::string& other = seeds_[Below(seeds_.size())];
        text.insert(at, other.substr(Below(other.size() + 1), 16));
        break;
      }
      case 4:  // flip a bit
        if (at < text.size()) {
          text[at] = static_cast<char>(text[at] ^ (1 << Below(8)));
        }
        break;
      default:  // add a byte, often one that numbers and brackets are made of
        text.insert(at, 1, Below(2) == 0 ? AnyByte() : "0123456789-[]{}:\",\n\xff"[Below(20)]);
    }
  }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_{1};
};

void Feed(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

}  // namespace
}  // namespace ddp::fuzz

int main(int argc, char** argv) {
  const long runs = argc == 2 ? std::strtol(argv[1], nullptr, 10) : 0;
  if (runs <= 0) {
    std::fprintf(stderr, "usage: %s RUNS\n", argv[0]);
    return 64;
  }
  for (const std::string& seed : ddp::fuzz::Seeds()) {
    ddp::fuzz::Feed(seed);
  }
  ddp::fuzz::Mutator mutator(ddp::fuzz::Seeds());
  for (long run = 0; run < runs; ++run) {
    ddp::fuzz::Feed(mutator.Next());
  }
  return 0;
}
