#include "operator/json/compact.h"

namespace ddp::json {

Compact::Compact(const Json& value) : text_(std::make_shared<const std::string>(Dump(value))) {}

Json Compact::Parsed() const {
  return Json::parse(*text_, nullptr, false);  // our own Dump's text: it can't be wrong
}

}  // namespace ddp::json
