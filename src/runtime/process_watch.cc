#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "src/messaging/byte_stream.h"
#include "src/messaging/mailbox.h"
#include "src/runtime/watch_thread.h"

namespace stepcast::runtime::watching {
namespace {

// The watch of a rank that is a separate process, over a mailbox shared with the other ranks. Ranks
// send heartbeats to rank 0, which answers with its own. Causes for ending the run are sent to
// ranks 0 and 1. Rank 0 decides; if rank 0 is gone, rank 1 does.
class ProcessWatch final : public WatchThread {
 public:
  // `places` are the places of all ranks.
  ProcessWatch(const std::vector<Place>& places, int rank,
               std::unique_ptr<messaging::Mailbox> mailbox, const WatchOptions& options, End end);
  ~ProcessWatch() override { Stop(); }
  void Finish() override { Stop(); }

 private:
  // What this rank knows about another rank.
  struct Neighbour {
    Deadline heard;
    bool gone = false;  // said goodbye, or its loss has been handled
  };

  void ReceiveMessages() override;
  void SendHeartbeats() override;
  void Consider(Cause cause) override;
  // Waits for the goodbyes of all other ranks, because MPI must not end while messages are in
  // flight.
  void Leave() override;
  void BeforeExit(int status) override;
  milliseconds Silence() const override { return silence_; }
  Deadline NextDecision() const override;
  void Decide() override;

  void TakeAll(std::chrono::microseconds timeout);
  void Take(int rank, messaging::ByteReader& reader);
  void Send(int rank, std::string_view message);
  void SendToOthers(std::string_view message);
  // Returns how much later than rank 0 this rank decides by itself.
  milliseconds Patience() const;
  // Reports ranks that have been silent since the first cause as dead.
  void NameTheDead();

  const int rank_;
  const std::unique_ptr<messaging::Mailbox> mailbox_;
  const milliseconds silence_;
  std::vector<Neighbour> neighbours_;  // by rank; only rank 0 receives heartbeats from all
  Verdict verdict_;
  Deadline opened_ = kNever;  // after a cause: from when messages prove that a rank is alive
};

// Launchers terminate all ranks when one has died, and kill the remaining ones a second later. Rank
// 1 takes over within that second.
constexpr milliseconds kDeputyTakesOver(250);

// Less than the timeout, so that all ranks have ended by then.
milliseconds SilenceFor(milliseconds timeout) {
  return timeout >= milliseconds(10'000) ? timeout - milliseconds(2'000) : timeout * 4 / 5;
}

ProcessWatch::ProcessWatch(const std::vector<Place>& places, int rank,
                           std::unique_ptr<messaging::Mailbox> mailbox, const WatchOptions& options,
                           End end)
    : WatchThread(places, {rank}, options, std::move(end)),
      rank_(rank),
      mailbox_(std::move(mailbox)),
      silence_(SilenceFor(options.timeout)),
      neighbours_(places.size(), Neighbour{steady_clock::now()}) {
  Begin();
}

void ProcessWatch::Send(int rank, std::string_view message) {
  if (rank == rank_ || rank >= ranks() || neighbours_[static_cast<std::size_t>(rank)].gone) return;
  if (!mailbox_->Send(rank, std::string(message))) {
    neighbours_[static_cast<std::size_t>(rank)].gone = true;
  }
}

void ProcessWatch::SendToOthers(std::string_view message) {
  for (int rank = 0; rank < ranks(); ++rank) Send(rank, message);
}

void ProcessWatch::TakeAll(std::chrono::microseconds timeout) {
  for (;;) {
    auto message = mailbox_->Receive(timeout);
    if (!message || !message->has_value()) return;
    const int rank = (*message)->from;
    if (rank < 0 || rank >= ranks()) continue;
    neighbours_[static_cast<std::size_t>(rank)].heard = steady_clock::now();
    messaging::ByteReader reader((*message)->bytes);
    Take(rank, reader);
  }
}

void ProcessWatch::Take(int rank, messaging::ByteReader& reader) {
  switch (static_cast<MessageKind>(reader.Number())) {
    case MessageKind::kHeartbeat:
      TakeHeartbeat(rank, ReadHeartbeat(reader));
      return;
    case MessageKind::kFailed:
    case MessageKind::kInterrupted:
      Consider(ReadCause(reader, rank));
      return;
    case MessageKind::kEnd:
      if (rank < rank_) EndProcess(FailureStatus(reader.Number()), "");
      return;
    case MessageKind::kBye:
      neighbours_[static_cast<std::size_t>(rank)].gone = true;
      return;
  }
}

void ProcessWatch::ReceiveMessages() {
  TakeAll(std::chrono::microseconds(0));
  const auto now = steady_clock::now();
  const int last = rank_ == 0 ? ranks() : 1;
  for (int rank = 0; rank < last; ++rank) {
    Neighbour& neighbour = neighbours_[static_cast<std::size_t>(rank)];
    if (rank == rank_ || neighbour.gone || now - neighbour.heard < silence_) continue;
    neighbour.gone = true;
    Consider({.kind = Kind::kSilent,
              .rank = rank,
              .sentence = fmt::format("{} sent no heartbeat in the last {}; {}", RankOnHost(rank),
                                      Seconds(silence_), Doing(rank))});
  }
  // Messages that a rank sent before it died may have been read just now.
  if (verdict_.open() && opened_ == kNever) opened_ = steady_clock::now();
}

void ProcessWatch::SendHeartbeats() {
  const std::string heartbeat = ToBytes(local().at(rank_).Now());
  if (rank_ != 0) return Send(0, heartbeat);
  SendToOthers(heartbeat);
  CheckForHang();
}

void ProcessWatch::Consider(Cause cause) {
  // The other ranks have ended while this process was stopped, and have reported it.
  if (WasStopped()) EndProcess(1, "");
  // Causes found by this rank go to the ranks that decide.
  if (rank_ > 0 && cause.rank == rank_) {
    for (const int rank : {0, 1}) Send(rank, ToBytes(cause));
  }
  verdict_.Consider(std::move(cause));
}

milliseconds ProcessWatch::Patience() const {
  if (rank_ == 0) return milliseconds(0);
  return rank_ == 1 ? kDeputyTakesOver : kDecisionTimeout;
}

Deadline ProcessWatch::NextDecision() const {
  return verdict_.open() ? verdict_.decided_at() + Patience() : kNever;
}

void ProcessWatch::NameTheDead() {
  const Kind kind = verdict_.cause().kind;
  if (kind != Kind::kFailed && kind != Kind::kInterrupted) return;
  const int last = rank_ == 0 ? ranks() : 1;
  for (int rank = 0; rank < last; ++rank) {
    const Neighbour& neighbour = neighbours_[static_cast<std::size_t>(rank)];
    if (rank == rank_ || neighbour.gone || neighbour.heard >= opened_) continue;
    verdict_.Consider(
        {.kind = Kind::kDied,
         .rank = rank,
         .sentence = fmt::format("{} has ended unexpectedly; {}", RankOnHost(rank), Doing(rank))});
  }
}

void ProcessWatch::Decide() {
  // Ranks other than 0 and 1 end silently if both deciding ranks are gone.
  if (rank_ > 1) EndProcess(verdict_.cause().status, "");
  NameTheDead();
  for (int rank = rank_ + 1; rank < ranks(); ++rank) {
    Send(rank, ToBytesEnd(verdict_.cause().status));
  }
  EndProcess(verdict_.cause().status, verdict_.cause().sentence);
}

void ProcessWatch::Leave() {
  const std::string bye = ToBytes(MessageKind::kBye);
  if (rank_ == 0) {
    SendToOthers(bye);
  } else {
    Send(0, bye);
  }
  const Deadline deadline = steady_clock::now() + kDecisionTimeout;
  const auto waits = [&] {
    const int last = rank_ == 0 ? ranks() : 1;
    for (int rank = 0; rank < last; ++rank) {
      if (rank != rank_ && !neighbours_[static_cast<std::size_t>(rank)].gone) return true;
    }
    return false;
  };
  while (waits() && steady_clock::now() < deadline) TakeAll(std::chrono::milliseconds(1));
}

void ProcessWatch::BeforeExit(int) {
  // Messages to other ranks leave during later calls of the mailbox.
  TakeAll(std::chrono::milliseconds(50));
}

}  // namespace
}  // namespace stepcast::runtime::watching

namespace stepcast::runtime {

std::unique_ptr<Watch> Watch::OverProcesses(const std::vector<Place>& places, int rank,
                                            std::unique_ptr<messaging::Mailbox> mailbox,
                                            const WatchOptions& options, End end) {
  return std::make_unique<watching::ProcessWatch>(places, rank, std::move(mailbox), options,
                                                  std::move(end));
}

}  // namespace stepcast::runtime
