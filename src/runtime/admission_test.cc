#include "src/runtime/admission.h"

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/runtime/connection.h"

namespace stepcast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr const char* kSecret = "what the ranks know";

Deadline In(milliseconds time) { return steady_clock::now() + time; }
Deadline Soon() { return In(milliseconds(10'000)); }

Admission AnAdmission() { return Admission(std::move(*Listener::Open("127.0.0.1", 0)), kSecret); }

Connection To(int port) { return std::move(*Connect("127.0.0.1", port, Soon())); }

// A host that takes guests in a thread of its own until the end of the test: their hellos.
class Host {
 public:
  Host() : admission_(AnAdmission()), port_(admission_.port()) {
    thread_ = std::thread([this] {
      while (!ended_) {
        auto guest = admission_.Next(In(milliseconds(20)));
        ASSERT_TRUE(guest) << guest.error().message;
        if (!guest->has_value()) continue;
        ASSERT_TRUE((*guest)->Answer("welcome, " + (*guest)->hello));
        guests_.push_back(std::move(**guest));
      }
    });
  }
  ~Host() { End(); }

  int port() const { return port_; }
  // Strangers, once all is over.
  std::string End() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
    return admission_.Strangers();
  }

 private:
  Admission admission_;
  int port_;
  std::atomic<bool> ended_ = false;
  std::vector<Guest> guests_;
  std::thread thread_;
};

TEST(Admission, AGuestThatKnowsTheSecretIsAnswered) {
  Host host;
  Connection guest = To(host.port());
  const auto answer = Introduce(guest, host.port(), kSecret, "rank 1", Soon());
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(*answer, "welcome, rank 1");
  EXPECT_EQ(host.End(), "");
}

TEST(Admission, AnotherSecretIsTurnedAwayAndTold) {
  Host host;
  Connection guest = To(host.port());
  const auto answer = Introduce(guest, host.port(), "something else", "rank 1", Soon());
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("STEPCAST_JOB_SECRET"));
  EXPECT_EQ(host.End(), "1 connection that did not prove to be of this job: 127.0.0.1 (1)");
}

// A stranger that listens and passes on, as it is, what a guest proves to it.
TEST(Admission, AHelloIsShort) {
  Host host;
  Connection guest = To(host.port());
  EXPECT_FALSE(Introduce(guest, host.port(), kSecret, std::string(5'000, 'x'), Soon()));
  EXPECT_THAT(host.End(), HasSubstr("1 connection"));
}

TEST(Admission, AProofForAnotherPortIsNone) {
  Host host;
  Connection guest = To(host.port());
  EXPECT_FALSE(Introduce(guest, host.port() ^ 1, kSecret, "rank 1", Soon()));
  EXPECT_THAT(host.End(), HasSubstr("1 connection"));
}

TEST(Admission, AProofCannotBeUsedAgain) {
  // What a guest says to a host, with all that it draws at random.
  auto listener = Listener::Open("127.0.0.1", 0);
  ASSERT_TRUE(listener);
  std::string said;
  {
    Host host;
    Connection real = To(host.port());
    const auto greeting = real.Receive(Soon());
    ASSERT_TRUE(greeting);
    std::thread guest([&] {
      Connection connection = To(listener->port());
      (void)Introduce(connection, host.port(), kSecret, "rank 1", In(milliseconds(500)));
    });
    std::vector<pollfd> entries{{.fd = listener->descriptor(), .events = POLLIN, .revents = 0}};
    ASSERT_TRUE(Poll(entries, Soon()));
    auto between = listener->Accept();
    ASSERT_TRUE(between && between->has_value());
    ASSERT_TRUE((*between)->Queue(*greeting));
    const auto proof = (*between)->Receive(Soon());
    ASSERT_TRUE(proof);
    said = *proof;
    guest.join();
    // On the connection that it is for, it is good once: the limit of what the port protects.
    ASSERT_TRUE(real.Queue(said));
    EXPECT_TRUE(real.Receive(Soon()));
    // On another it is not.
    Connection again = To(host.port());
    ASSERT_TRUE(again.Receive(Soon()));
    ASSERT_TRUE(again.Queue(said));
    EXPECT_THAT(host.End(), HasSubstr("1 connection"));
  }
}

TEST(Admission, AHostThatDoesNotKnowTheSecretIsNotBelieved) {
  auto listener = Listener::Open("127.0.0.1", 0);
  ASSERT_TRUE(listener);
  Admission impostor(std::move(*listener), "guessed");
  const int port = impostor.port();
  std::thread host([&] { (void)impostor.Next(In(milliseconds(300))); });
  Connection guest = To(port);
  EXPECT_FALSE(Introduce(guest, port, kSecret, "rank 1", Soon()));
  host.join();
}

TEST(Admission, StrangersDelayNobody) {
  Host host;
  std::vector<Connection> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(To(host.port()));
    Connection& stranger = strangers.back();
    if (i % 4 == 1) (void)stranger.Queue(std::string(64, '\x1b'));    // garbage
    if (i % 4 == 2) (void)stranger.Queue(std::string(1 << 20, 'x'));  // large
    if (i % 4 == 3) {                                                 // half a frame
      (void)::send(stranger.descriptor(), "\x10\0\0", 3, MSG_NOSIGNAL);
    }
  }
  for (int i = 0; i < 5; ++i) {
    Connection guest = To(host.port());
    const auto answer = Introduce(guest, host.port(), kSecret, "rank", Soon());
    ASSERT_TRUE(answer) << answer.error().message;
  }
  EXPECT_THAT(host.End(), HasSubstr("that did not prove to be of this job: 127.0.0.1 ("));
}

}  // namespace
}  // namespace stepcast::runtime
