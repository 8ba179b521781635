// What people see of a launch: the lines of all ranks, each whole and with its rank in front, and
// the launcher's own. Owned by the launcher's loop.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/log.h"
#include "runtime/launch/writer.h"

namespace ddp::rt::launch {

class Console {
 public:
  // Without prefixes a rank's lines come as they are: for one rank alone, and for JSON.
  explicit Console(bool prefixes);

  void Line(AsyncWriter& to, int rank, std::string_view line);
  AsyncWriter& out() { return out_; }
  AsyncWriter& err() { return err_; }

  // A line of the launcher's own, on standard error, in the form of Log.
  void Say(Level level, std::string_view message);

 private:
  bool prefixes_;
  bool json_;
  AsyncWriter out_;
  AsyncWriter err_;
};

}  // namespace ddp::rt::launch
