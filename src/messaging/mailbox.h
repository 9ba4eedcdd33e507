#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "src/messaging/launch.h"

// Point-to-point messages between ranks, in any order. For example, an idle worker may request more
// work at any time. (For operations that all ranks call in the same order, see runtime/job.h.)
namespace stepcast::messaging {

struct Message {
  int from = 0;
  std::string bytes;
};

// One rank's mailbox. Messages from one rank to another arrive in the order of sending. Only one
// thread of a rank may use its mailbox at a time. If another rank dies, calls may still succeed;
// the watch reports the death (runtime/watch.h).
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Sends a message without blocking. Later calls send the bytes that could not be sent at once.
  virtual Attempt<void> Send(int rank, std::string bytes) = 0;
  // Returns the next message from any rank, or none if no message arrives within the timeout.
  virtual Attempt<std::optional<Message>> Receive(std::chrono::microseconds timeout) = 0;
  // Waits until all messages have been sent.
  virtual Attempt<void> Flush() = 0;
};

}  // namespace stepcast::messaging
