#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "src/messaging/launch.h"

// Point-to-point messages between ranks, in any order. For example, a worker that has finished its
// work may ask for more at any time. In contrast, all ranks call the operations of runtime/job.h in
// the same order.
namespace stepcast::messaging {

struct Message {
  int from = 0;
  std::string bytes;
};

// One rank's mailbox. Messages from one rank to another arrive in the order in which they were
// sent. Only one thread of a rank may use its mailbox at a time. The death of a rank is not always
// a Failure here; the watch reports it (runtime/watch.h).
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Sends a message without blocking. Bytes that cannot be sent yet are sent during later calls.
  virtual Attempt<void> Send(int rank, std::string bytes) = 0;
  // Returns the next message from any rank, or none if no message arrives before the timeout.
  virtual Attempt<std::optional<Message>> Receive(std::chrono::microseconds timeout) = 0;
  // Waits until all messages have been sent.
  virtual Attempt<void> Flush() = 0;
};

}  // namespace stepcast::messaging
