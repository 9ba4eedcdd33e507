#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "src/messaging/launch.h"

// Point-to-point messages between ranks, in any order. For example, an idle worker may request more
// work at any time. (In contrast, all ranks must call the operations of runtime/job.h in the same
// order.)
namespace stepcast::messaging {

struct Message {
  int from = 0;
  std::string bytes;
};

// One rank's mailbox. Messages between two ranks arrive in the order of sending. Only one thread of
// a rank at a time may use its mailbox. The death of a rank is not always a Failure here; the watch
// reports it (runtime/watch.h).
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Sends a message without blocking. Bytes that cannot be sent immediately are sent during later
  // calls.
  virtual Attempt<void> Send(int rank, std::string bytes) = 0;
  // Returns the next message from any rank, or none if no message arrives before the timeout.
  virtual Attempt<std::optional<Message>> Receive(std::chrono::microseconds timeout) = 0;
  // Waits until all messages have been sent.
  virtual Attempt<void> Flush() = 0;
};

}  // namespace stepcast::messaging
