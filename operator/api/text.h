// Text that has a limit. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::api {

// At most `bytes` bytes of the start (Cut) or the end (Tail); never half a UTF-8 character.
std::string Cut(std::string_view text, size_t bytes);
std::string Tail(std::string_view text, size_t bytes);

// How many letters to change, insert or remove to turn one into the other, at most `limit` + 1.
size_t EditDistance(std::string_view a, std::string_view b, size_t limit);

}  // namespace ddp::api
