// c10d's TCPStore (libtorch) behind our Store: its server runs in rank 0's process (libuv, one
// thread), every rank is a client. Torch stays in the .cc file.
#pragma once

#include <memory>

#include "runtime/base/net.h"
#include "runtime/store/store.h"

namespace ddp::rt::store {

class TcpStore final : public Store {
 public:
  // Serves on a socket that listens already, and is its own first client.
  static std::shared_ptr<TcpStore> Serve(Fd listener, const Deadline& deadline);
  // Connects to a server that accepts; the caller tries again if need be (ConnectTcpUntil).
  static std::shared_ptr<TcpStore> Connect(const std::string& host, int port,
                                           const Deadline& deadline);
  ~TcpStore() override;

  void Set(const std::string& key, std::string_view value) override;
  std::string Get(const std::string& key, const Deadline& deadline) override;
  std::optional<std::string> TryGet(const std::string& key) override;
  std::int64_t Add(const std::string& key, std::int64_t delta) override;
  std::string CompareSet(const std::string& key, std::string_view expected,
                         std::string_view desired) override;
  bool Delete(const std::string& key) override;

 private:
  struct Client;
  explicit TcpStore(std::unique_ptr<Client> client);

  std::unique_ptr<Client> client_;
};

}  // namespace ddp::rt::store
