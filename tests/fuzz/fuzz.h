// What a fuzz target defines: libFuzzer calls the first; driver.cc needs the second as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Feeds one input to a parser. Anything but success or the parser's own error must end the program.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ddp::fuzz {

// Valid inputs to mutate.
std::vector<std::string> Seeds();

}  // namespace ddp::fuzz
