#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "src/runtime/device.h"

// Letters between ranks that have no order in common: who has done its work asks for more, whoever
// that is (job.h is for what all ranks do together).
namespace stepcast::runtime {

struct Letter {
  int from = 0;
  std::string bytes;
};

// Letters from one rank to another arrive in the order they were posted. One thread of a rank uses
// its mailbox at a time. A rank that is gone need not be a Failure: the watch is for that
// (watch.h).
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Never waits. What has not left yet leaves during later calls.
  virtual Attempt<void> Post(int rank, std::string bytes) = 0;
  // The next letter of anybody; nothing if none comes for so long.
  virtual Attempt<std::optional<Letter>> Receive(std::chrono::microseconds patience) = 0;
  // Waits until everything posted has left.
  virtual Attempt<void> Flush() = 0;
};

}  // namespace stepcast::runtime
