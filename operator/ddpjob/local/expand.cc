#include "operator/ddpjob/local/expand.h"

namespace ddp::job {

std::string Expand(std::string_view text, const std::map<std::string, std::string>& variables) {
  std::string out;
  size_t i = 0;
  while (i < text.size()) {
    if (text[i] != '$' || i + 1 == text.size()) {
      out += text[i++];
      continue;
    }
    if (text[i + 1] == '$') {
      out += '$';
      i += 2;
      continue;
    }
    const size_t end = text[i + 1] == '(' ? text.find(')', i + 2) : std::string_view::npos;
    if (end == std::string_view::npos) {
      out += text[i++];
      continue;
    }
    const auto known = variables.find(std::string(text.substr(i + 2, end - i - 2)));
    out += known != variables.end() ? known->second : text.substr(i, end + 1 - i);
    i = end + 1;
  }
  return out;
}

}  // namespace ddp::job
