#include "runtime/store/tcp_store.h"

#include "runtime/store/store_test.h"

namespace ddp::rt::store {
namespace {

Deadline Soon() { return Deadline::In(std::chrono::seconds(10), "the test"); }

INSTANTIATE_TEST_SUITE_P(Tcp, StoreTest, ::testing::Values([] {
                           return TcpStore::Serve(ListenTcp("", 0, ""), Soon());
                         }));

TEST(TcpStore, ClientsSeeEachOthersKeys) {
  Fd listener = ListenTcp("", 0, "");
  const int port = BoundPort(listener);
  const auto server = TcpStore::Serve(std::move(listener), Soon());
  const auto v4 = TcpStore::Connect("127.0.0.1", port, Soon());
  server->Set("a", "1");
  EXPECT_EQ(v4->Get("a", Soon()), "1");
  if (!LocalAddressTowards("::1").empty()) {
    EXPECT_EQ(TcpStore::Connect("[::1]", port, Soon())->Get("a", Soon()), "1");
  }
}

TEST(TcpStore, SaysWhereTheStoreWasWhenItIsGone) {
  Fd listener = ListenTcp("", 0, "");
  const int port = BoundPort(listener);
  auto server = TcpStore::Serve(std::move(listener), Soon());
  const auto client = TcpStore::Connect("127.0.0.1", port, Soon());
  server.reset();
  try {
    client->Get("a", Soon());
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUnavailable);
    EXPECT_NE(std::string(e.what()).find("lost the rendezvous store at 127.0.0.1:"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace ddp::rt::store
