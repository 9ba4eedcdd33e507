#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "src/base/time.h"
#include "src/program/program.h"
#include "src/runtime/host/clock.h"
#include "src/runtime/host/transport.h"

namespace stepcast::runtime::host {

// A program's communicator on one rank. A communicator runs collectives and exchanges in host
// order, whatever their streams. The host thread draws a numbered ticket for each operation, and
// the operation's stream waits until it is the ticket's turn.
class Communicator {
 public:
  Communicator(std::unique_ptr<Channel> channel, int members);

  // One side of a collective, the source or the target: values of one type in memory.
  struct Side {
    std::byte* data = nullptr;
    DataType type = DataType::kFp32;
  };

  std::uint64_t TakeTicket() { return issued_++; }
  // Waits for the turn of the ticket. Returns false if the communicator was closed.
  bool AwaitTurn(std::uint64_t ticket);
  // Runs a collective. Call this function during the turn of the ticket. If a side's type differs
  // from the collective's type, the values are converted in memory of the communicator. `elements`
  // is the number of elements of the full collective.
  Attempt<void> Run(const program::Collective& collective, std::int64_t elements, Side source,
                    Side target);
  // Runs a collective that has no values, on nonzero memory of the communicator. Call this function
  // during the turn of the ticket.
  Attempt<void> RunEmpty(const program::Collective& collective);
  // Sends and receives messages. Call this function during the turn of the ticket.
  Attempt<void> Exchange(std::span<const MessageCall> messages);
  // Ends the turn of the current ticket. The turn of the next ticket begins.
  void EndTurn();

  // Wakes all waiting threads. Later waits return immediately.
  void Close();

  // Runs the collective on small integers and checks every element of the result. All members call
  // this function together, before the first ticket.
  Attempt<void> CheckSums(const program::Collective& collective, int position);

 private:
  Attempt<void> CheckOnStaging(const program::Collective& collective, int position);
  Attempt<std::byte*> Reserve(int slot, std::int64_t bytes);

  std::unique_ptr<Channel> channel_;
  int members_;
  std::uint64_t issued_ = 0;  // number of tickets drawn by the host thread
  std::mutex mutex_;
  std::condition_variable turn_;
  std::uint64_t finished_ = 0;
  bool closed_ = false;
  std::vector<std::byte> staging_[2];  // used during a ticket's turn
};

}  // namespace stepcast::runtime::host
