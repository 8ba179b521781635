// Mixes numbers into seeds, so that what is drawn is a function of them and there is no state to
// save or to share.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace ddp::rt::data {

// The finaliser of splitmix64: every bit of the result depends on every bit of `x`.
constexpr uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Of several numbers, in their order.
constexpr uint64_t MixAll(std::initializer_list<uint64_t> numbers) {
  uint64_t mixed = 0;
  for (const uint64_t number : numbers) {
    mixed = Mix(mixed ^ number);
  }
  return mixed;
}

}  // namespace ddp::rt::data
