#pragma once

#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "src/messaging/byte_stream.h"
#include "src/messaging/mailbox.h"
#include "src/runtime/watch_thread.h"

namespace stepcast::runtime::watching {

// The watch of a rank that is a separate process, over a mailbox shared with the other ranks. Ranks
// send heartbeats to rank 0, which answers with its own. Causes for ending the run are sent to
// ranks 0 and 1. Rank 0 decides; if rank 0 is gone, rank 1 does.
class ProcessWatch final : public WatchThread {
 public:
  // `places`: the places of all ranks.
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
  // Each rank waits for the others' goodbyes, because MPI must not end while messages are in
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
  // How much later than rank 0 this rank decides by itself.
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

}  // namespace stepcast::runtime::watching
