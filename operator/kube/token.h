// Where a bearer token comes from. A service account's token file is rotated by the kubelet, so it
// is read again every minute and at once when the server refuses the token (client-go
// rest/token_source.go). Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "operator/base/clock.h"

namespace ddp::kube {

class TokenSource {
 public:
  TokenSource() = default;
  TokenSource(const TokenSource&) = delete;
  TokenSource& operator=(const TokenSource&) = delete;
  virtual ~TokenSource() = default;
  // The last good one when reading fails; empty when there never was one.
  virtual std::string Token() = 0;
  // The server refused `token`: read again at the next Token(). False when that cannot help.
  virtual bool Refused(const std::string& token) = 0;
};

class StaticToken : public TokenSource {
 public:
  explicit StaticToken(std::string token) : token_(std::move(token)) {}
  std::string Token() override { return token_; }
  bool Refused(const std::string& /*token*/) override { return false; }

 private:
  const std::string token_;
};

class TokenFile : public TokenSource {
 public:
  static constexpr std::chrono::minutes kReadAgainAfter{1};

  explicit TokenFile(std::string path, const base::Clock& clock = base::SystemClock())
      : path_(std::move(path)), clock_(clock) {}
  std::string Token() override;
  bool Refused(const std::string& token) override;

 private:
  const std::string path_;
  const base::Clock& clock_;
  std::mutex mutex_;
  std::string token_;
  std::chrono::steady_clock::time_point read_again_at_{};
};

}  // namespace ddp::kube
