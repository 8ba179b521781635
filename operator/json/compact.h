// A JSON value kept as compact text: about a tenth of the memory of its tree. For what is held long
// and looked at rarely. Immutable; copies share the text; any thread may read.
#pragma once

#include <memory>
#include <string>

#include "operator/json/json.h"

namespace ddp::json {

class Compact {
 public:
  explicit Compact(const Json& value);

  // Makes the tree anew each time.
  Json Parsed() const;
  const std::string& text() const { return *text_; }
  bool operator==(const Compact& other) const { return *text_ == *other.text_; }

 private:
  std::shared_ptr<const std::string> text_;
};

}  // namespace ddp::json
