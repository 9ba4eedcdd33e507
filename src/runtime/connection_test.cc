#include "src/runtime/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace stepcast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Deadline In(milliseconds time) { return steady_clock::now() + time; }

TEST(Listener, TakesConnectionsAtItsAddressAlone) {
  const auto listener = Listener::Open("127.0.0.1", 0);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_TRUE(Connect("127.0.0.1", listener->port(), In(milliseconds(2000))));
  EXPECT_FALSE(Connect("127.0.0.2", listener->port(), In(milliseconds(2000))));
  const auto everywhere = Listener::Open("", 0);
  ASSERT_TRUE(everywhere) << everywhere.error().message;
  EXPECT_TRUE(Connect("127.0.0.1", everywhere->port(), In(milliseconds(2000))));
  EXPECT_TRUE(Connect("127.0.0.2", everywhere->port(), In(milliseconds(2000))));
}

TEST(Connection, KnowsItsAddresses) {
  auto listener = Listener::Open("127.0.0.2", 0);
  ASSERT_TRUE(listener);
  const auto guest = Connect("127.0.0.2", listener->port(), In(milliseconds(2000)));
  ASSERT_TRUE(guest);
  const auto host = listener->Accept();
  ASSERT_TRUE(host && host->has_value());
  EXPECT_EQ((*host)->OwnAddress(), "127.0.0.2");
  EXPECT_EQ((*host)->PeerAddress(), guest->OwnAddress());
}

TEST(Connection, AMessageThatSaysItIsTooLongIsRefusedAtOnce) {
  auto listener = Listener::Open("127.0.0.1", 0);
  ASSERT_TRUE(listener);
  auto guest = Connect("127.0.0.1", listener->port(), In(milliseconds(2000)));
  ASSERT_TRUE(guest);
  auto host = listener->Accept();
  ASSERT_TRUE(host && host->has_value());
  (*host)->Limit(100);
  ASSERT_TRUE(guest->Queue(std::string(100, 'x')));
  ASSERT_TRUE(guest->Queue(std::string(101, 'y')));
  const auto short_one = (*host)->Receive(In(milliseconds(2000)));
  ASSERT_TRUE(short_one) << short_one.error().message;
  EXPECT_EQ(*short_one, std::string(100, 'x'));
  EXPECT_FALSE((*host)->Receive(In(milliseconds(2000))));
}

// A listener whose queue is full drops what comes, as a firewall would.
TEST(Connect, AnAddressThatDropsPacketsTakesItsPartOfTheTimeAlone) {
  auto good = Listener::Open("127.0.0.1", 0);
  ASSERT_TRUE(good);
  auto dropping = Listener::Open("127.0.0.2", good->port());
  ASSERT_TRUE(dropping) << dropping.error().message;
  ASSERT_EQ(::listen(dropping->descriptor(), 0), 0);
  std::vector<int> waiting;
  const auto dropped = Resolve("127.0.0.2", good->port());
  ASSERT_TRUE(dropped);
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    (void)::connect(waiting.back(), dropped->front().pointer(), dropped->front().size);
  }
  ASSERT_FALSE(Connect(*dropped, In(milliseconds(300))));
  std::vector<SocketAddress> both = *dropped;
  both.push_back(Resolve("127.0.0.1", good->port())->front());
  const Deadline deadline = In(milliseconds(4000));
  const auto connection = Connect(both, deadline);
  ASSERT_TRUE(connection) << connection.error().message;
  EXPECT_LT(std::chrono::steady_clock::now(), deadline);  // and not once all of it was spent
  EXPECT_EQ(connection->PeerAddress(), "127.0.0.1");
  for (const int descriptor : waiting) ::close(descriptor);
}

TEST(AllOwnAddresses, HaveLoopback) {
  const auto all = AllOwnAddresses();
  EXPECT_NE(std::find(all.begin(), all.end(), "127.0.0.1"), all.end());
}

}  // namespace
}  // namespace stepcast::runtime
