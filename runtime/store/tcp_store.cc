#include "runtime/store/tcp_store.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/base/error.h"

namespace ddp::rt::store {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes ToBytes(std::string_view text) { return {text.begin(), text.end()}; }
std::string ToText(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

// A wait of zero means "for ever" to c10d.
std::chrono::milliseconds AtLeastOne(std::chrono::milliseconds time) {
  return std::max(time, std::chrono::milliseconds(1));
}

// c10d prints a stack trace for every try that fails; the errors thrown here say the same in a
// sentence. Whoever wants the traces sets TORCH_CPP_LOG_LEVEL.
void QuietenTorchWarnings() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) {
      FLAGS_caffe2_log_level = c10::GLOG_ERROR;
    }
  });
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

struct TcpStore::Client {
  Client(std::string host, const c10d::TCPStoreOptions& options)
      : where(HostPort(host, options.port)),
        store(std::move(host), options),
        waiting(store.clone()) {}

  // Runs a call on c10d's store and turns its exceptions into ours.
  template <typename Call>
  auto Run(const char* what, const std::string& key, const Call& call) {
    try {
      return call();
    } catch (const c10::Error& e) {
      throw Error(ExitCode::kUnavailable,
                  fmt::format("lost the rendezvous store at {} ({} '{}'): {}", where, what, key,
                              FirstLine(e.what_without_backtrace())));
    }
  }

  std::string where;
  c10d::TCPStore store;
  // A second connection for Get: c10d keeps a connection locked while it waits on it, and a Set
  // that another thread makes meanwhile may be just what ends the wait.
  c10::intrusive_ptr<c10d::Store> waiting;
};

TcpStore::TcpStore(std::unique_ptr<Client> client) : client_(std::move(client)) {}
TcpStore::~TcpStore() = default;

namespace {

template <typename Make>
auto Construct(const std::string& host, int port, const Make& make) {
  QuietenTorchWarnings();
  try {
    return make();
  } catch (const c10::Error& e) {
    throw Error(ExitCode::kUnavailable,
                fmt::format("no rendezvous store at {}: {}", HostPort(host, port),
                            FirstLine(e.what_without_backtrace())));
  }
}

}  // namespace

std::shared_ptr<TcpStore> TcpStore::Serve(Fd listener, const Deadline& deadline) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(BoundPort(listener));
  options.isServer = true;
  options.waitWorkers = false;
  options.timeout = AtLeastOne(deadline.Left());
  options.masterListenFd = listener.Release();
  const std::string host = "127.0.0.1";
  return Construct(host, options.port, [&] {
    return std::shared_ptr<TcpStore>(new TcpStore(std::make_unique<Client>(host, options)));
  });
}

std::shared_ptr<TcpStore> TcpStore::Connect(const std::string& host, int port,
                                            const Deadline& deadline) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = AtLeastOne(deadline.Left());
  const std::string name = BareHost(host);
  return Construct(host, port, [&] {
    return std::shared_ptr<TcpStore>(new TcpStore(std::make_unique<Client>(name, options)));
  });
}

void TcpStore::Set(const std::string& key, std::string_view value) {
  client_->Run("set", key, [&] { client_->store.set(key, ToBytes(value)); });
}

std::string TcpStore::Get(const std::string& key, const Deadline& deadline) {
  return client_->Run("get", key, [&] {
    try {
      client_->waiting->wait({key}, AtLeastOne(deadline.Left()));
    } catch (const c10::DistNetworkError&) {
      throw;
    } catch (const c10::DistError&) {
      if (deadline.Expired()) {
        throw MissingKey(key, deadline);
      }
      throw;
    }
    return ToText(client_->waiting->get(key));
  });
}

std::optional<std::string> TcpStore::TryGet(const std::string& key) {
  return client_->Run("get", key, [&]() -> std::optional<std::string> {
    if (!client_->store.check({key})) {
      return std::nullopt;
    }
    return ToText(client_->store.get(key));
  });
}

std::int64_t TcpStore::Add(const std::string& key, std::int64_t delta) {
  return client_->Run("add", key, [&] { return client_->store.add(key, delta); });
}

std::string TcpStore::CompareSet(const std::string& key, std::string_view expected,
                                 std::string_view desired) {
  return client_->Run("compare-set", key, [&] {
    return ToText(client_->store.compareSet(key, ToBytes(expected), ToBytes(desired)));
  });
}

bool TcpStore::Delete(const std::string& key) {
  return client_->Run("delete", key, [&] { return client_->store.deleteKey(key); });
}

}  // namespace ddp::rt::store
