#include "src/runtime/admission.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "src/runtime/authentication.h"
#include "src/runtime/byte_stream.h"

namespace stepcast::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kGreeting = "stepcast 2";
constexpr std::size_t kNumber = 32;
constexpr std::size_t kLongestHello = 4096;
constexpr std::size_t kMostUnproved = 128;
// A guest answers the greeting at once. One that has not keeps its place for so long...
constexpr milliseconds kProofTimeout(2000);
// ... and for so long when all places are taken.
constexpr milliseconds kProofTimeoutWhenFull(250);

// What a code is made over; each part with its length, so that no two contexts are the same bytes.
std::string Context(std::string_view side, int port, std::string_view host_number,
                    std::string_view guest_number) {
  ByteWriter writer;
  writer.Text(kGreeting);
  writer.Text(side);
  writer.Number(static_cast<std::uint64_t>(port));
  writer.Text(host_number);
  writer.Text(guest_number);
  return writer.Take();
}

std::string CodeOf(std::string_view secret, std::string context, std::string_view text) {
  ByteWriter writer;
  writer.Text(text);
  return AuthenticationCode(secret, context + writer.Take());
}

bool IsCodeOf(std::string_view code, std::string_view secret, std::string context,
              std::string_view text) {
  ByteWriter writer;
  writer.Text(text);
  return IsAuthentic(secret, context + writer.Take(), code);
}

}  // namespace

Attempt<void> Guest::Answer(std::string_view answer) {
  ByteWriter writer;
  writer.Text(answer);
  writer.Text(CodeOf(secret, context, answer));
  return connection.Queue(writer.Take());
}

Admission::Admission(Listener listener, std::string secret)
    : listener_(std::move(listener)), secret_(std::move(secret)) {}

void Admission::TurnAway(std::size_t index) {
  constexpr std::size_t kMostNamed = 64;
  const std::string& address = unproved_[index].address;
  ++turned_away_;
  if (strangers_.size() < kMostNamed || strangers_.contains(address)) ++strangers_[address];
  unproved_.erase(unproved_.begin() + static_cast<std::ptrdiff_t>(index));
  no_room_ = false;
}

Attempt<void> Admission::AcceptAll() {
  while (!no_room_ && unproved_.size() < kMostUnproved) {
    auto accepted = listener_.Accept();
    if (!accepted && accepted.error().message != Listener::kNoRoom) {
      return tl::unexpected(accepted.error());
    }
    if (!accepted) {
      no_room_ = true;
      return {};
    }
    if (!accepted->has_value()) return {};
    Unproved unproved{.connection = std::move(**accepted),
                      .address = "",
                      .number = RandomBytes(kNumber),
                      .come = steady_clock::now()};
    unproved.address = unproved.connection.PeerAddress();
    unproved.connection.Limit(kLongestHello);
    ByteWriter greeting;
    greeting.Text(kGreeting);
    greeting.Text(unproved.number);
    const bool greeted = unproved.connection.Queue(greeting.Take()).has_value();
    unproved_.push_back(std::move(unproved));
    if (!greeted) TurnAway(unproved_.size() - 1);
  }
  return {};
}

Attempt<std::optional<Guest>> Admission::Hear(Unproved& unproved) {
  auto message = unproved.connection.Take();
  if (!message) return tl::unexpected(message.error());
  if (!message->has_value()) return std::nullopt;
  ByteReader reader(**message);
  const std::string number = reader.Text();
  std::string hello = reader.Text();
  const std::string code = reader.Text();
  const std::string context = Context("guest", port(), unproved.number, number);
  if (reader.bad() || !reader.at_end() || number.size() != kNumber ||
      !IsCodeOf(code, secret_, context, hello)) {
    // Not authenticated, but a hint for a rank with another secret.
    ByteWriter refusal;
    refusal.Text("");
    refusal.Text("");
    (void)unproved.connection.Queue(refusal.Take());
    return tl::unexpected(Failure{"it does not know the secret of the job"});
  }
  unproved.connection.Limit(Connection::kLongest);
  return Guest{.connection = std::move(unproved.connection),
               .hello = std::move(hello),
               .context = Context("host", port(), unproved.number, number),
               .secret = secret_};
}

Attempt<std::optional<Guest>> Admission::Next(Deadline deadline) {
  std::vector<pollfd> entries;
  for (;;) {
    if (auto accepted = AcceptAll(); !accepted) return tl::unexpected(accepted.error());
    for (std::size_t i = 0; i < unproved_.size();) {
      auto guest = Hear(unproved_[i]);
      if (guest && guest->has_value()) {
        unproved_.erase(unproved_.begin() + static_cast<std::ptrdiff_t>(i));
        no_room_ = false;
        return guest;
      }
      if (guest) {
        ++i;
      } else {
        TurnAway(i);
      }
    }
    const auto now = steady_clock::now();
    const bool full = no_room_ || unproved_.size() >= kMostUnproved;
    const milliseconds timeout = full ? kProofTimeoutWhenFull : kProofTimeout;
    while (!unproved_.empty() && now >= unproved_.front().come + timeout) {
      TurnAway(0);
      if (full) break;  // one place is enough for now
    }
    if (now >= deadline) return std::nullopt;
    // Without a connection of its own to give up, it waits for others to end theirs.
    constexpr milliseconds kPause(50);
    Deadline next = deadline;
    if (!unproved_.empty()) next = std::min(next, unproved_.front().come + timeout);
    if (no_room_ && unproved_.empty()) {
      next = std::min(next, now + kPause);
      no_room_ = false;
      std::this_thread::sleep_until(next);
      continue;
    }
    entries.clear();
    for (const Unproved& unproved : unproved_) {
      entries.push_back({.fd = unproved.connection.descriptor(), .events = POLLIN, .revents = 0});
    }
    if (!no_room_ && unproved_.size() < kMostUnproved) {
      entries.push_back({.fd = listener_.descriptor(), .events = POLLIN, .revents = 0});
    }
    if (auto waited = Poll(entries, next); !waited) return tl::unexpected(waited.error());
  }
}

std::string Admission::Strangers() const {
  if (turned_away_ == 0) return "";
  std::vector<std::pair<int, std::string>> most;
  for (const auto& [address, count] : strangers_) most.emplace_back(-count, address);
  std::sort(most.begin(), most.end());
  std::string text = fmt::format("{} {} that did not prove to be of this job: ", turned_away_,
                                 turned_away_ == 1 ? "connection" : "connections");
  constexpr std::size_t kShown = 4;
  for (std::size_t i = 0; i < std::min(most.size(), kShown); ++i) {
    const std::string& address = most[i].second;
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", address.empty() ? "already gone" : address,
                        -most[i].first);
  }
  if (most.size() > kShown) text += fmt::format(" and {} more", most.size() - kShown);
  return text;
}

Attempt<std::string> Introduce(Connection& connection, int port, std::string_view secret,
                               std::string_view hello, Deadline deadline) {
  connection.Limit(kLongestHello);
  const auto greeting = connection.Receive(deadline);
  if (!greeting) return tl::unexpected(greeting.error());
  ByteReader greeted(*greeting);
  const bool known = greeted.Text() == kGreeting;
  const std::string host_number = greeted.Text();
  if (!known || greeted.bad() || host_number.size() != kNumber) {
    return tl::unexpected(Failure{"something else than this version of stepcast listens there"});
  }
  const std::string number = RandomBytes(kNumber);
  ByteWriter writer;
  writer.Text(number);
  writer.Text(hello);
  writer.Text(CodeOf(secret, Context("guest", port, host_number, number), hello));
  if (auto sent = connection.Send(writer.Take(), deadline); !sent) {
    return tl::unexpected(sent.error());
  }
  const auto message = connection.Receive(deadline);
  if (!message) return tl::unexpected(message.error());
  ByteReader reader(*message);
  std::string answer = reader.Text();
  const std::string code = reader.Text();
  if (reader.bad() || !IsCodeOf(code, secret, Context("host", port, host_number, number), answer)) {
    return tl::unexpected(Failure{"the process there has another secret (STEPCAST_JOB_SECRET)"});
  }
  connection.Limit(Connection::kLongest);
  return answer;
}

}  // namespace stepcast::runtime
