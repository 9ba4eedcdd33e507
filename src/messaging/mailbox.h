#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "src/messaging/launch.h"

// Point-to-point messages between ranks in no common order: a worker that has finished its items
// asks for more at any time. Operations that all ranks call in the same order are those of
// runtime/job.h.
namespace stepcast::messaging {

struct Message {
  int from = 0;
  std::string bytes;
};

// Messages from one rank to another arrive in the order in which they were sent. One thread of a
// rank uses its mailbox at a time. A rank that has died need not be a Failure: the watch reports it
// (runtime/watch.h).
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Never blocks. Bytes that have not left yet leave during later calls.
  virtual Attempt<void> Send(int rank, std::string bytes) = 0;
  // The next message from any rank; nothing if none comes before the timeout.
  virtual Attempt<std::optional<Message>> Receive(std::chrono::microseconds timeout) = 0;
  // Waits until all messages have left.
  virtual Attempt<void> Flush() = 0;
};

}  // namespace stepcast::messaging
