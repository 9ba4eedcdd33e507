#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "src/messaging/byte_stream.h"
#include "src/messaging/mailbox.h"
#include "src/runtime/watch_thread.h"

namespace stepcast::runtime::watching {

// The watch of a rank that is a process of its own, over a mailbox that it shares with the other
// ranks. Ranks send heartbeats to rank 0, which answers with its own. What ends the run goes to
// ranks 0 and 1: rank 0 decides, and rank 1 does when rank 0 is gone.
class ProcessWatch final : public WatchThread {
 public:
  // `places`: of all ranks.
  ProcessWatch(const std::vector<Place>& places, int rank,
               std::unique_ptr<messaging::Mailbox> mailbox, const WatchOptions& options, End end);
  ~ProcessWatch() override { Stop(); }
  void Finish() override { Stop(); }

 private:
  // What this rank knows of another one.
  struct Neighbour {
    Deadline heard;
    bool gone = false;  // it has said goodbye, or was lost and is accounted for
  };

  void ReceiveMessages() override;
  void SendHeartbeats() override;
  void Consider(Cause cause) override;
  // Both sides wait for the other's goodbye: MPI may not end while messages are on the way.
  void Leave() override;
  void BeforeExit(int status) override;
  milliseconds Silence() const override { return silence_; }
  Deadline NextDecision() const override;
  void Decide() override;

  void TakeAll(std::chrono::microseconds timeout);
  void Take(int rank, messaging::ByteReader& reader);
  void Send(int rank, std::string_view message);
  void SendToOthers(std::string_view message);
  // How much later than rank 0 this rank decides by itself.
  milliseconds Patience() const;
  // Ranks that have said nothing since the first cause: they have ended.
  void NameTheDead();

  const int rank_;
  const std::unique_ptr<messaging::Mailbox> mailbox_;
  const milliseconds silence_;
  std::vector<Neighbour> neighbours_;  // by rank; rank 0 alone hears of all
  Verdict verdict_;
  Deadline opened_ =
      kNever;  // from when on messages show that a rank is alive, once there is a cause
};

}  // namespace stepcast::runtime::watching
