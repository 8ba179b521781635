#include "runtime/base/net.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "runtime/base/error.h"

namespace ddp::rt {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string MessageOf(const std::function<void()>& call, ExitCode code) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code);
    return e.what();
  }
  ADD_FAILURE() << "must throw";
  return "";
}

TEST(Net, HostPortBracketsIpv6) {
  EXPECT_EQ(HostPort("a.b", 1), "a.b:1");
  EXPECT_EQ(HostPort("::1", 2), "[::1]:2");
  EXPECT_EQ(HostPort("[::1]", 2), "[::1]:2");
}

TEST(Net, ListensOnBothFamilies) {
  const Fd server = ListenTcp("", 0, "");
  for (const char* host : {"127.0.0.1", "localhost", "[::1]"}) {
    if (LocalAddressTowards(host).empty()) {
      continue;  // a host without IPv6
    }
    const auto deadline = Deadline::In(seconds(5), "the listener");
    const Fd client = ConnectTcp(host, BoundPort(server), deadline);
    ASSERT_TRUE(WaitFor(server, POLLIN, deadline));
    const Fd accepted(accept4(server.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    SendAll(client, "hello", 5, deadline);
    char text[5];
    ReceiveAll(accepted, text, sizeof(text), deadline);
    EXPECT_EQ(std::string(text, 5), "hello");
  }
}

TEST(Net, PortInUseIsAConfigurationErrorThatNamesIt) {
  const Fd server = ListenTcp("", 0, "");
  const int port = BoundPort(server);
  const std::string message =
      MessageOf([&] { ListenTcp("", port, "choose another MASTER_PORT"); }, ExitCode::kConfig);
  EXPECT_EQ(message, "port " + std::to_string(port) +
                         " is in use on this host by another program: choose another MASTER_PORT");
}

TEST(Net, ConnectErrorNamesHostPortReasonAndLastFailure) {
  int port = 0;
  {
    const Fd closed = ListenTcp("127.0.0.1", 0, "");
    port = BoundPort(closed);
  }
  const std::string refused = MessageOf(
      [&] { ConnectTcp("127.0.0.1", port, Deadline::In(milliseconds(100), "rank 0's store")); },
      ExitCode::kUnavailable);
  EXPECT_EQ(refused, "cannot reach 127.0.0.1:" + std::to_string(port) +
                         " (rank 0's store): gave up after 0.1 s; last: IPv4 127.0.0.1: "
                         "Connection refused");
  const std::string unknown = MessageOf(
      [&] { ConnectTcp("not a name", 1, Deadline::In(milliseconds(100), "rank 0's store")); },
      ExitCode::kUnavailable);
  EXPECT_NE(unknown.find("the name does not resolve"), std::string::npos) << unknown;
}

TEST(Net, ReceiveEndsAtTheDeadlineAndAtTheEnd) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
  const Fd a(pair[0]);
  Fd b(pair[1]);
  char byte = 0;
  EXPECT_EQ(MessageOf([&] { ReceiveAll(a, &byte, 1, Deadline::In(milliseconds(20), "a byte")); },
                      ExitCode::kUnavailable),
            "gave up after 0.02 s waiting for a byte");
  b.Reset();
  EXPECT_EQ(MessageOf([&] { ReceiveAll(a, &byte, 1, Deadline::In(seconds(5), "a byte")); },
                      ExitCode::kUnavailable),
            "the other side closed the connection (a byte)");
}

TEST(Net, LocalAddressTowardsLoopbackIsLoopback) {
  EXPECT_EQ(LocalAddressTowards("127.0.0.1"), "127.0.0.1");
}

}  // namespace
}  // namespace ddp::rt
