// Which version of this library a program runs with.
#pragma once

namespace ddp {

// "0.1.0"
const char* Version();

}  // namespace ddp
