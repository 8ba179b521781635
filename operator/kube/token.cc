#include "operator/kube/token.h"

#include <fstream>
#include <iterator>

#include "operator/base/log.h"

namespace ddp::kube {

std::string TokenFile::Token() {
  std::lock_guard lock(mutex_);
  const auto now = clock_.Steady();
  if (!token_.empty() && now < read_again_at_) {
    return token_;
  }
  std::ifstream in(path_, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.pop_back();
  }
  if (text.empty()) {
    base::Log(base::Level::kWarning, "cannot read the token file, using the last token",
              {{"file", path_}, {"has_token", !token_.empty()}});
  } else {
    token_ = std::move(text);
  }
  read_again_at_ = now + kReadAgainAfter;
  return token_;
}

bool TokenFile::Refused(const std::string& token) {
  std::lock_guard lock(mutex_);
  if (token == token_) {
    read_again_at_ = {};
  }
  return true;
}

}  // namespace ddp::kube
